//! Which objects are to be looked at, and when.
//!
//! [`Inbox`] collects what the watches have seen; it holds each object at most once, so nothing can overflow it.
//! [`Agenda`] decides what is next: one look at a time per object, many objects at once, and urgent ones past all
//! others. [`work`] goes round between them. [`Attempts`] says when to come back after a pass, and [`Memories`] holds
//! what a controller remembers of each object.

mod agenda;
mod attempts;
mod inbox;
mod memories;
mod metrics;
mod reconciled;
mod repairs;

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::error;

pub use self::agenda::{Again, Agenda, Lane};
pub use self::attempts::{Attempts, Done};
pub use self::inbox::{Inbox, Inboxes};
pub use self::memories::Memories;
pub use self::metrics::{Histograms, Outcome, WorkMetrics, quick};
pub use self::reconciled::Reconciled;
pub use self::repairs::Repairs;

const AFTER_A_PANIC: Duration = Duration::from_mins(1);

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
            // One object that we cannot cope with must not stop the work on all others.
            let running = AssertUnwindSafe(look(key.clone())).catch_unwind();
            looks.spawn(async move { (key, running.await) });
        }
        measure(agenda.waiting(), agenda.scheduled());
        tokio::select! {
            () = stop.cancelled() => break,
            news = inbox.take() => news.into_iter().for_each(|(key, lane)| agenda.add(key, lane)),
            Some(done) = looks.join_next() => match done {
                Ok((key, Ok(again))) => agenda.done(&key, again),
                Ok((key, Err(_panic))) => {
                    error!("the look at {key:?} ended in a panic, which is a bug: please report it with the log");
                    agenda.done(&key, after_a_panic());
                }
                Err(ended) => unreachable!("looks are neither aborted nor do they panic: {ended}"),
            },
            () = until(agenda.next_due()) => {}
        }
    }
    looks.join_all().await;
}

/// A bug does not go away by trying again soon, but the world that sets it off may.
fn after_a_panic() -> Again {
    let later = Instant::now() + AFTER_A_PANIC;
    Again {
        due: Some(later),
        not_before: Some(later),
        unfinished: true,
    }
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
                        ..Again::default()
                    }
                }
            },
        )
        .await;
        assert_eq!(*times.lock().unwrap(), [Duration::ZERO, Duration::from_secs(5)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_only_its_own_object_and_only_for_a_while() {
        let (inbox, stop) = (Inbox::default(), CancellationToken::new());
        inbox.open();
        inbox.add("bad", Lane::Ordinary);
        inbox.add("good", Lane::Ordinary);
        let (seen, start) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let look = |key: &'static str| {
            let (seen, stop) = (seen.clone(), stop.clone());
            async move {
                let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                seen.push((key, start.elapsed()));
                if seen.len() == 3 {
                    stop.cancel();
                } else if key == "bad" {
                    drop(seen);
                    panic!("on purpose");
                }
                Again::default()
            }
        };
        work(&inbox, 1, stop.clone(), |_, _| (), look).await;
        let mut seen = seen.lock().unwrap().clone();
        seen[..2].sort_unstable();
        assert_eq!(
            seen,
            [
                ("bad", Duration::ZERO),
                ("good", Duration::ZERO),
                ("bad", AFTER_A_PANIC)
            ]
        );
    }
}
