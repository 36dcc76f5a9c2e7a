use std::time::Duration;

use firebolt_core::plan::engine::Drain;
use rstest::rstest;

use super::super::fixture::{FakePods, PodBehaviour, SCRAPE_TIMEOUT, drain, failing, pass, queries, run, unresponsive};
use super::*;

const MOMENT: Duration = Duration::from_millis(5);

fn scrape(pod: &str) -> ProbePod {
    ProbePod::Scrape(Target {
        namespace: "team".to_owned(),
        pod: pod.to_owned(),
        ip: None,
    })
}

fn unscrapable() -> ProbePod {
    ProbePod::Unscrapable {
        pod: "stuck".to_owned(),
        cause: "not running".to_owned(),
    }
}

fn failed(pod: &str, cause: &str) -> Drain {
    Drain::Failed {
        pod: pod.to_owned(),
        cause: cause.to_owned(),
    }
}

#[rstest]
#[case::no_pod(vec![], PodTotal::NoPods)]
#[case::none_that_can_have_queries(vec![ProbePod::Drained, ProbePod::Drained], PodTotal::Queries(0))]
#[tokio::test(start_paused = true)]
async fn no_pod_at_all_is_not_the_same_as_pods_without_queries(#[case] pods: Vec<ProbePod>, #[case] total: PodTotal) {
    let hooks = FakePods::new().hooks();
    let sum = sum_over_pods(pods, Transport::PodIp, &hooks, &Semaphore::new(1)).await;
    assert_eq!(sum, total);
}

#[rstest]
#[case::no_pod(vec![], Drain::Drained, 0)]
#[case::drained_without_a_scrape(vec![ProbePod::Drained], Drain::Drained, 0)]
#[case::idle(vec![scrape("idle"), ProbePod::Drained], Drain::Drained, 1)]
#[case::sum(vec![scrape("two"), scrape("idle"), scrape("three")], Drain::Busy(5), 3)]
#[case::overflow(vec![scrape("two"), scrape("endless")], Drain::Busy(u64::MAX), 2)]
#[case::a_failure_counts_more(vec![scrape("two"), scrape("bad")], failed("bad", "HTTP status 500"), 2)]
#[case::the_first_pod_that_failed(vec![scrape("slow"), scrape("bad")], failed("slow", "no response within 10s"), 2)]
#[case::known_without_a_scrape(vec![scrape("two"), unscrapable()], failed("stuck", "not running"), 0)]
#[tokio::test(start_paused = true)]
async fn a_sample_is_the_sum_of_its_pods(#[case] pods: Vec<ProbePod>, #[case] expected: Drain, #[case] scrapes: usize) {
    let fake = FakePods::new();
    for (pod, behaviour) in [("idle", queries(0)), ("two", queries(2)), ("three", queries(3))] {
        fake.pod(pod, &behaviour);
    }
    fake.pod("endless", &queries(u64::MAX));
    fake.pod("bad", &failing());
    fake.pod("slow", &unresponsive());
    let (key, pool) = (fake.engine_with("a", pods), fake.pool());
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(SCRAPE_TIMEOUT).await;
    assert_eq!(pool.drain_sample(&key).unwrap().outcome, expected);
    assert_eq!(fake.scrapes().len(), scrapes);
}

#[tokio::test(start_paused = true)]
async fn eight_pods_of_an_engine_are_scraped_concurrently() {
    let fake = FakePods::new();
    let key = fake.engine("a", 128, &PodBehaviour(MOMENT, Ok(1)));
    let pool = fake.pool();
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(16 * MOMENT).await;
    assert_eq!(pool.drain_sample(&key).unwrap().outcome, Drain::Busy(128));
    assert_eq!(fake.most_running(), 8);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_no_further_pod_is_scraped() {
    let fake = FakePods::new();
    let key = fake.engine("a", 128, &unresponsive());
    let pool = fake.pool();
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(SCRAPE_TIMEOUT).await;
    assert_eq!(
        pool.drain_sample(&key).unwrap().outcome,
        failed("a-0", "no response within 10s")
    );
    assert_eq!(fake.scrapes().len(), 8);
}

/// Engines of 128 pods each that do not answer, under way, and then a healthy one. Returns when its sample was done,
/// counted from its assignment.
async fn healthy_among(stuck_engines: usize, healthy_pods: usize) -> (FakePods, Option<Duration>) {
    let fake = FakePods::new();
    let pool = fake.pool();
    for number in 0..stuck_engines {
        let key = fake.engine(&format!("stuck{number}"), 128, &unresponsive());
        pool.assign(&key, Some(drain(5)));
    }
    let (stop, running) = run(&pool);
    pass(Duration::from_secs(1)).await;
    let healthy = fake.engine("healthy", healthy_pods, &PodBehaviour(MOMENT, Ok(0)));
    let assigned = fake.elapsed();
    pool.assign(&healthy, Some(drain(60)));
    // One second is long for the healthy one and short for those that do not answer.
    pass(Duration::from_secs(1)).await;
    let done = fake.notified().into_iter().find(|(_, key)| *key == healthy);
    stop.cancel();
    running.await.unwrap();
    (fake, done.map(|(at, _)| at.checked_sub(assigned).unwrap()))
}

#[rstest]
#[case::one(1)]
#[case::twenty(20)]
#[case::two_hundred(200)]
#[tokio::test(start_paused = true)]
async fn unresponsive_engines_do_not_delay_others(#[case] stuck_engines: usize) {
    let (_, done) = healthy_among(stuck_engines, 1).await;
    assert_eq!(done, Some(MOMENT));
}

#[rstest]
#[case::shared_permits_left(1, 2)]
#[case::one_pod_at_a_time(20, 16)]
#[tokio::test(start_paused = true)]
async fn a_large_engine_makes_progress_too(#[case] stuck_engines: usize, #[case] rounds: u32) {
    let (_, done) = healthy_among(stuck_engines, 16).await;
    assert_eq!(done, Some(rounds * MOMENT));
}

#[tokio::test(start_paused = true)]
async fn scrapes_are_bounded_in_all_and_the_bound_is_where_waiting_starts() {
    let (fake, done) = healthy_among(300, 1).await;
    assert_eq!(fake.most_running(), 256 + 64);
    assert_eq!(done, None);
}
