use std::time::Duration;

use firebolt_api::AutoStopReason;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::*;
use crate::hold::{Engine, PatchOutcome, Refusal};

/// Longer than anything here takes. The clock is paused: it advances when nothing else can run.
const LONG: Duration = Duration::from_mins(1);

/// A queue with running timers, and its jobs.
struct Fixture {
    queue: HoldQueue,
    jobs: UnboundedReceiver<(Epoch, Job)>,
}

impl Fixture {
    fn new() -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory: 1 << 30,
            hold_timeout: Duration::from_secs(30),
        };
        let (sender, jobs) = unbounded_channel();
        let executor: Executor = Box::new(move |_, epoch, job| {
            let _closed = sender.send((epoch, job));
        });
        let queue = HoldQueue::new("sales", settings, Arc::default(), Arc::default(), executor);
        tokio::spawn(run_timers(queue.clone()));
        Self { queue, jobs }
    }

    /// The next job of a kind.
    async fn job<T>(&mut self, pick: impl Fn(Job) -> Option<T>) -> (Epoch, T) {
        let found = async {
            loop {
                let (epoch, job) = self.jobs.recv().await.expect("the queue lives");
                if let Some(job) = pick(job) {
                    return (epoch, job);
                }
            }
        };
        timeout(LONG, found).await.expect("a job comes")
    }

    async fn list(&mut self) -> (Epoch, List) {
        self.job(|job| if let Job::List(list) = job { Some(list) } else { None })
            .await
    }

    async fn probe(&mut self) -> (Epoch, Probe) {
        self.job(|job| if let Job::Probe(probe) = job { Some(probe) } else { None })
            .await
    }

    async fn listed(&mut self, engines: &[Engine]) -> Epoch {
        let (epoch, list) = self.list().await;
        self.queue.report(epoch, Event::Listed(list, Some(engines.to_vec())));
        epoch
    }

    fn request(&self, engine: &'static str) -> tokio::task::JoinHandle<Reply> {
        let queue = self.queue.clone();
        tokio::spawn(async move { queue.decide(engine, 0).await })
    }

    /// Waits until this many requests are held.
    async fn waiting(&self, count: usize) {
        let waits = async {
            while self.queue.occupancy().waiting != count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, waits).await.expect("requests wait");
    }

    fn metrics(&self) -> String {
        self.queue.0.metrics.render(self.queue.occupancy())
    }
}

fn engine(name: &str, replicas: i32) -> Engine {
    Engine {
        name: name.to_owned(),
        instance: "main".to_owned(),
        replicas,
        ready: replicas > 0,
        auto_stop: Some(AutoStopReason::Stopped),
        wake_requested: None,
    }
}

fn panics(queue: &HoldQueue) {
    let called: Option<()> = queue.call(None, |_, _| panic!("a state machine that panics"));
    assert_eq!(called, None);
}

#[tokio::test(start_paused = true)]
async fn queries_are_routed_before_the_first_list() {
    let fixture = Fixture::new();
    let reply = fixture.queue.decide("a", 0).await;
    assert_eq!(reply.answer, Answer::Route(Route::FailOpen));
    assert_eq!(reply.waited, None);
}

#[tokio::test(start_paused = true)]
async fn a_query_for_a_stopped_engine_is_released_when_a_probe_reaches_it() {
    let mut fixture = Fixture::new();
    fixture.listed(&[engine("a", 0)]).await;
    let requests = [fixture.request("a"), fixture.request("a")];
    fixture.waiting(2).await;
    let (epoch, patch) = fixture
        .job(|job| if let Job::Patch(patch) = job { Some(patch) } else { None })
        .await;
    assert_eq!(&*patch.engine, "a");
    fixture.queue.report(epoch, Event::Patched(patch, PatchOutcome::Stored));
    let (epoch, probe) = fixture.probe().await;
    fixture.queue.report(epoch, Event::Probed(probe, true));
    for request in requests {
        let reply = request.await.unwrap();
        assert!(matches!(reply.answer, Answer::Route(Route::Released(_))), "{reply:?}");
        assert!(reply.waited.is_some());
    }
    assert!(fixture.metrics().contains("holds_total 2\n"), "{}", fixture.metrics());
    assert!(
        fixture.metrics().contains("{answer=\"released\"} 2\n"),
        "{}",
        fixture.metrics()
    );
}

#[tokio::test(start_paused = true)]
async fn a_query_times_out_at_its_deadline() {
    let mut fixture = Fixture::new();
    fixture.listed(&[engine("a", 0)]).await;
    let reply = timeout(LONG, fixture.queue.decide("a", 0)).await.expect("an answer");
    assert!(
        matches!(reply.answer, Answer::Refuse(Refusal::TimedOut(_))),
        "{reply:?}"
    );
    let waited = reply.waited.expect("a wait");
    assert!(
        waited >= Duration::from_secs(30) && waited < Duration::from_secs(31),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_is_removed_from_the_queue() {
    let mut fixture = Fixture::new();
    fixture.listed(&[engine("a", 0)]).await;
    let request = fixture.request("a");
    fixture.waiting(1).await;
    request.abort();
    fixture.waiting(0).await;
    assert!(fixture.queue.lock().waiting.is_empty(), "it is removed");
    assert!(
        fixture.metrics().contains("{answer=\"gone\"} 1\n"),
        "{}",
        fixture.metrics()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopping_gateway_refuses_held_queries_in_time() {
    let mut fixture = Fixture::new();
    fixture.listed(&[engine("a", 0)]).await;
    let request = fixture.request("a");
    fixture.waiting(1).await;
    fixture
        .queue
        .close((Instant::now() + Duration::from_secs(11)).into_std());
    let reply = timeout(Duration::from_secs(12), request)
        .await
        .expect("an answer")
        .unwrap();
    assert!(matches!(reply.answer, Answer::Refuse(Refusal::Closing(_))), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_held_queries_are_routed_and_the_queue_works_again() {
    let mut fixture = Fixture::new();
    let first = fixture.listed(&[engine("a", 0), engine("b", 1)]).await;
    let request = fixture.request("a");
    fixture.waiting(1).await;
    panics(&fixture.queue);
    let reply = timeout(LONG, request).await.expect("an answer").unwrap();
    assert_eq!(reply.answer, Answer::Route(Route::FailOpen));
    let second = fixture.listed(&[engine("a", 0), engine("b", 1)]).await;
    assert_ne!(first, second);
    assert_eq!(fixture.queue.decide("b", 0).await.answer, Answer::Route(Route::Ready));
    let request = fixture.request("a");
    fixture.waiting(1).await;
    let (epoch, probe) = fixture.probe().await;
    assert_eq!(epoch, second);
    fixture.queue.report(epoch, Event::Probed(probe, true));
    assert!(matches!(
        request.await.unwrap().answer,
        Answer::Route(Route::Released(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn results_from_an_earlier_epoch_are_ignored() {
    let mut fixture = Fixture::new();
    fixture.listed(&[engine("a", 0)]).await;
    let request = fixture.request("a");
    fixture.waiting(1).await;
    let (old, probe) = fixture.probe().await;
    panics(&fixture.queue);
    request.await.unwrap();
    fixture.listed(&[engine("a", 0)]).await;
    // The request and the probe have the same numbers as before.
    let request = fixture.request("a");
    fixture.waiting(1).await;
    let (_, again) = fixture.probe().await;
    assert_eq!(again, probe);
    fixture.queue.report(old, Event::Probed(probe, true));
    assert_eq!(fixture.queue.occupancy().waiting, 1, "released by a stale result");
    request.abort();
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_the_gateway_is_still_stopping() {
    let mut fixture = Fixture::new();
    fixture.listed(&[]).await;
    let by = Instant::now() + Duration::from_secs(11);
    fixture.queue.close(by.into_std());
    panics(&fixture.queue);
    fixture.listed(&[engine("a", 0)]).await;
    let reply = fixture.queue.decide("a", 0).await;
    assert!(matches!(reply.answer, Answer::Refuse(Refusal::Closing(_))), "{reply:?}");
    assert!(Instant::now() >= by);
}
