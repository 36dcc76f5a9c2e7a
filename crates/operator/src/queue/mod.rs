//! Which objects are to be looked at, and when.
//!
//! [`Inbox`] collects what the watches have seen; it holds each object at most once, so nothing can overflow it.
//! [`Agenda`] decides what is next: one look at a time per object, many objects at once, and urgent ones past all
//! others. [`work`] goes round between them.

mod agenda;
mod inbox;

use std::fmt::Debug;
use std::hash::Hash;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::agenda::{Again, Agenda, Lane};
pub use self::inbox::Inbox;

/// Looks at objects until `stop`, then lets what has begun come to its end.
///
/// `look` is called for one object at a time per key and says when to look again. At most `workers` ordinary looks run
/// at the same time; an urgent one never waits for them. `measure` is told how many objects wait, and for how many a
/// timer is set: with none of either, nothing happens until something is seen.
pub async fn work<K, F>(
    inbox: &Inbox<K>,
    workers: usize,
    stop: CancellationToken,
    measure: impl Fn(usize, usize),
    mut look: impl FnMut(K) -> F,
) where
    K: Clone + Debug + Eq + Hash + Ord + Send + 'static,
    F: Future<Output = Again> + Send + 'static,
{
    let mut agenda: Agenda<K> = Agenda::new(workers);
    let mut looks = JoinSet::new();
    while !stop.is_cancelled() {
        while let Some(key) = agenda.next(Instant::now()) {
            let running = look(key.clone());
            looks.spawn(async move { (key, running.await) });
        }
        measure(agenda.waiting(), agenda.scheduled());
        tokio::select! {
            () = stop.cancelled() => break,
            news = inbox.take() => news.into_iter().for_each(|(key, lane)| agenda.add(key, lane)),
            Some(done) = looks.join_next() => match done {
                Ok((key, again)) => agenda.done(&key, again),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            },
            () = until(agenda.next_due()) => {}
        }
    }
    looks.join_all().await;
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_urgent_look_does_not_wait_for_busy_workers() {
        let (inbox, stop) = (Arc::new(Inbox::default()), CancellationToken::new());
        let (seen, urgent_done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        inbox.open();
        inbox.add("slow", Lane::Ordinary);
        let worker = tokio::spawn({
            let (inbox, stop, seen, urgent_done) = (inbox.clone(), stop.clone(), seen.clone(), urgent_done.clone());
            async move {
                let look = |key: &'static str| {
                    let (seen, urgent_done) = (seen.clone(), urgent_done.clone());
                    async move {
                        seen.lock().unwrap().push(key);
                        match key {
                            "slow" => tokio::time::sleep(Duration::from_mins(1)).await,
                            _ => urgent_done.notify_one(),
                        }
                        Again::default()
                    }
                };
                work(&inbox, 1, stop, |_, _| (), look).await;
            }
        });
        tokio::task::yield_now().await;
        inbox.add("waiting", Lane::Ordinary);
        inbox.add("wake", Lane::Urgent);
        urgent_done.notified().await;
        assert_eq!(*seen.lock().unwrap(), ["slow", "wake"]);
        stop.cancel();
        worker.await.unwrap();
        assert_eq!(*seen.lock().unwrap(), ["slow", "wake"], "nothing begins after the end");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_looked_at_again_when_it_said() {
        let (inbox, stop) = (Inbox::default(), CancellationToken::new());
        inbox.open();
        inbox.add("a", Lane::Ordinary);
        let start = Instant::now();
        let times = Arc::new(Mutex::new(Vec::new()));
        work(
            &inbox,
            1,
            stop.clone(),
            |_, _| (),
            |_| {
                let (times, stop) = (times.clone(), stop.clone());
                async move {
                    let mut times = times.lock().unwrap();
                    times.push(start.elapsed());
                    if times.len() == 2 {
                        stop.cancel();
                    }
                    Again {
                        due: Some(Instant::now() + Duration::from_secs(5)),
                        not_before: None,
                    }
                }
            },
        )
        .await;
        assert_eq!(*times.lock().unwrap(), [Duration::ZERO, Duration::from_secs(5)]);
    }
}
