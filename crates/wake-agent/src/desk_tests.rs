use std::time::Duration;

use firebolt_api::AutoStopReason;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use super::*;
use crate::table::{Engine, PatchOutcome, Refusal};

/// More than anything here takes. The clock is that of the test, which goes on when nothing else does.
const LONG: Duration = Duration::from_mins(1);

/// A desk with its clock running, and the jobs that it gives out.
struct Bench {
    desk: Desk,
    jobs: UnboundedReceiver<(Era, Job)>,
}

impl Bench {
    fn new() -> Self {
        let settings = Settings {
            instance: "main".to_owned(),
            memory: 1 << 30,
            hold_timeout: Duration::from_secs(30),
        };
        let (sender, jobs) = unbounded_channel();
        let work: Work = Box::new(move |_, era, job| {
            let _closed = sender.send((era, job));
        });
        let desk = Desk::new(settings, Arc::default(), Arc::default(), work);
        tokio::spawn(keep_time(desk.clone()));
        Self { desk, jobs }
    }

    /// The next job of the kind that is looked for.
    async fn job<T>(&mut self, pick: impl Fn(Job) -> Option<T>) -> (Era, T) {
        let found = async {
            loop {
                let (era, job) = self.jobs.recv().await.expect("the desk lives");
                if let Some(job) = pick(job) {
                    return (era, job);
                }
            }
        };
        timeout(LONG, found).await.expect("a job comes")
    }

    async fn list(&mut self) -> (Era, List) {
        self.job(|job| if let Job::List(list) = job { Some(list) } else { None })
            .await
    }

    async fn probe(&mut self) -> (Era, Probe) {
        self.job(|job| if let Job::Probe(probe) = job { Some(probe) } else { None })
            .await
    }

    async fn listed(&mut self, engines: &[Engine]) -> Era {
        let (era, list) = self.list().await;
        self.desk.tell(era, Event::Listed(list, Some(engines.to_vec())));
        era
    }

    fn request(&self, engine: &'static str) -> tokio::task::JoinHandle<Told> {
        let desk = self.desk.clone();
        tokio::spawn(async move { desk.ask(engine, 0).await })
    }

    /// Until so many requests wait.
    async fn waiting(&self, count: usize) {
        let waits = async {
            while self.desk.occupancy().waiting != count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, waits).await.expect("requests wait");
    }

    fn counted(&self) -> String {
        self.desk.0.metrics.render(self.desk.occupancy())
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

fn panics(desk: &Desk) {
    let called: Option<()> = desk.call(None, |_, _| panic!("a table that panics"));
    assert_eq!(called, None);
}

#[tokio::test(start_paused = true)]
async fn everything_passes_before_the_first_list() {
    let bench = Bench::new();
    let told = bench.desk.ask("a", 0).await;
    assert_eq!(told.answer, Answer::Route(Route::Blind));
    assert_eq!(told.waited, None);
}

#[tokio::test(start_paused = true)]
async fn a_query_for_a_stopped_engine_goes_on_when_a_probe_reaches_it() {
    let mut bench = Bench::new();
    bench.listed(&[engine("a", 0)]).await;
    let requests = [bench.request("a"), bench.request("a")];
    bench.waiting(2).await;
    let (era, patch) = bench
        .job(|job| if let Job::Patch(patch) = job { Some(patch) } else { None })
        .await;
    assert_eq!(&*patch.engine, "a");
    bench.desk.tell(era, Event::Patched(patch, PatchOutcome::Stored));
    let (era, probe) = bench.probe().await;
    bench.desk.tell(era, Event::Probed(probe, true));
    for request in requests {
        let told = request.await.unwrap();
        assert!(matches!(told.answer, Answer::Route(Route::Released(_))), "{told:?}");
        assert!(told.waited.is_some());
    }
    assert!(bench.counted().contains("holds_total 2\n"), "{}", bench.counted());
    assert!(
        bench.counted().contains("{answer=\"released\"} 2\n"),
        "{}",
        bench.counted()
    );
}

#[tokio::test(start_paused = true)]
async fn the_clock_sends_away_whoever_has_waited_long_enough() {
    let mut bench = Bench::new();
    bench.listed(&[engine("a", 0)]).await;
    let told = timeout(LONG, bench.desk.ask("a", 0)).await.expect("an answer");
    assert!(matches!(told.answer, Answer::Refuse(Refusal::TimedOut(_))), "{told:?}");
    let waited = told.waited.expect("a wait");
    assert!(
        waited >= Duration::from_secs(30) && waited < Duration::from_secs(31),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_goes_away_gives_up_its_place() {
    let mut bench = Bench::new();
    bench.listed(&[engine("a", 0)]).await;
    let request = bench.request("a");
    bench.waiting(1).await;
    request.abort();
    bench.waiting(0).await;
    assert!(bench.desk.lock().waiting.is_empty(), "nothing is kept of it");
    assert!(bench.counted().contains("{answer=\"gone\"} 1\n"), "{}", bench.counted());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_stops_sends_everybody_away_in_time() {
    let mut bench = Bench::new();
    bench.listed(&[engine("a", 0)]).await;
    let request = bench.request("a");
    bench.waiting(1).await;
    bench.desk.close((Instant::now() + Duration::from_secs(11)).into_std());
    let told = timeout(Duration::from_secs(12), request)
        .await
        .expect("an answer")
        .unwrap();
    assert!(matches!(told.answer, Answer::Refuse(Refusal::Closing(_))), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_those_who_waited_pass_and_a_new_table_goes_on() {
    let mut bench = Bench::new();
    let first = bench.listed(&[engine("a", 0), engine("b", 1)]).await;
    let request = bench.request("a");
    bench.waiting(1).await;
    panics(&bench.desk);
    let told = timeout(LONG, request).await.expect("an answer").unwrap();
    assert_eq!(told.answer, Answer::Route(Route::Blind));
    let second = bench.listed(&[engine("a", 0), engine("b", 1)]).await;
    assert_ne!(first, second);
    assert_eq!(bench.desk.ask("b", 0).await.answer, Answer::Route(Route::Ready));
    let request = bench.request("a");
    bench.waiting(1).await;
    let (era, probe) = bench.probe().await;
    assert_eq!(era, second);
    bench.desk.tell(era, Event::Probed(probe, true));
    assert!(matches!(
        request.await.unwrap().answer,
        Answer::Route(Route::Released(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn news_for_a_table_that_is_gone_do_not_reach_the_next() {
    let mut bench = Bench::new();
    bench.listed(&[engine("a", 0)]).await;
    let request = bench.request("a");
    bench.waiting(1).await;
    let (old, probe) = bench.probe().await;
    panics(&bench.desk);
    request.await.unwrap();
    bench.listed(&[engine("a", 0)]).await;
    // By its number it is the same request and the same probe.
    let request = bench.request("a");
    bench.waiting(1).await;
    let (_, again) = bench.probe().await;
    assert_eq!(again, probe);
    bench.desk.tell(old, Event::Probed(probe, true));
    assert_eq!(bench.desk.occupancy().waiting, 1, "released by old news");
    request.abort();
}

#[tokio::test(start_paused = true)]
async fn a_new_table_knows_that_the_gateway_stops() {
    let mut bench = Bench::new();
    bench.listed(&[]).await;
    let by = Instant::now() + Duration::from_secs(11);
    bench.desk.close(by.into_std());
    panics(&bench.desk);
    bench.listed(&[engine("a", 0)]).await;
    let told = bench.desk.ask("a", 0).await;
    assert!(matches!(told.answer, Answer::Refuse(Refusal::Closing(_))), "{told:?}");
    assert!(Instant::now() >= by);
}
