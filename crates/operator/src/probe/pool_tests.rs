use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use firebolt_core::plan::engine::{Activity, Drain};
use rstest::rstest;

use super::super::fixture::{FakePods, PodBehaviour, drain, failing, pass, queries, run, unresponsive};
use super::super::{Purpose, Transport};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn activity(seconds: u64) -> Assignment {
    Assignment {
        purpose: Purpose::Activity,
        ..drain(seconds)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_sample_is_taken_at_once_and_the_next_after_each_interval() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(2)), fake.pool());
    pool.assign(&key, Some(drain(5)));
    let _running = run(&pool);
    pass(10 * SECOND).await;
    assert_eq!(fake.scraped_at(), [0, 5, 10]);
    let notified: Vec<_> = fake
        .notified()
        .into_iter()
        .map(|(at, key)| (at.as_secs(), key))
        .collect();
    assert_eq!(notified, [(0, key.clone()), (5, key.clone()), (10, key.clone())]);
    assert_eq!(pool.drain_sample(&key).unwrap().outcome, Drain::Busy(2));
}

#[tokio::test(start_paused = true)]
async fn an_assignment_is_taken_up_while_the_pool_runs() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(0)), fake.pool());
    let _running = run(&pool);
    pass(3 * SECOND).await;
    pool.assign(&key, Some(drain(60)));
    pass(SECOND).await;
    assert_eq!(fake.scraped_at(), [3]);
}

#[tokio::test(start_paused = true)]
async fn a_zero_interval_scrapes_once_a_second() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(1)), fake.pool());
    pool.assign(&key, Some(drain(0)));
    let _running = run(&pool);
    pass(3 * SECOND).await;
    assert_eq!(fake.scraped_at(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_sample_that_takes_longer_than_the_interval_is_followed_at_once_and_never_overlaps() {
    let fake = FakePods::new();
    let key = fake.engine("a", 1, &PodBehaviour(7 * SECOND, Ok(1)));
    let pool = fake.pool();
    pool.assign(&key, Some(drain(5)));
    let _running = run(&pool);
    pass(15 * SECOND).await;
    assert_eq!(fake.scraped_at(), [0, 7, 14]);
    assert_eq!(fake.most_running(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_assignment_again_changes_nothing() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(1)), fake.pool());
    let _running = run(&pool);
    for _ in 0..12 {
        pool.assign(&key, Some(drain(5)));
        pass(SECOND).await;
        assert!(pool.drain_sample(&key).is_some());
    }
    assert_eq!(fake.scraped_at(), [0, 5, 10]);
}

#[rstest]
#[case::uid(Assignment { uid: "u2".to_owned(), ..drain(60) })]
#[case::purpose(activity(60))]
#[case::generation(Assignment { generation: 2, ..drain(60) })]
#[case::transport(Assignment { transport: Transport::ApiserverProxy, ..drain(60) })]
#[tokio::test(start_paused = true)]
async fn another_assignment_drops_the_sample_and_scrapes_at_once(#[case] other: Assignment) {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(1)), fake.pool());
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(9 * SECOND).await;
    pool.assign(&key, Some(other.clone()));
    assert_eq!(pool.drain_sample(&key), None);
    assert_eq!(pool.activity_sample(&key), None);
    pass(SECOND).await;
    assert_eq!(fake.scraped_at(), [0, 9]);
    let drained = pool.drain_sample(&key).map(|sample| sample.generation);
    let active = pool.activity_sample(&key).map(|sample| sample.generation);
    assert_eq!(drained.or(active), Some(other.generation));
}

#[tokio::test(start_paused = true)]
async fn another_interval_keeps_the_sample_and_moves_the_next() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(1)), fake.pool());
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(9 * SECOND).await;
    pool.assign(&key, Some(drain(20)));
    assert!(pool.drain_sample(&key).is_some());
    pass(31 * SECOND).await;
    assert_eq!(fake.scraped_at(), [0, 20, 40]);
}

#[tokio::test(start_paused = true)]
async fn removing_the_assignment_drops_the_sample_and_stops_scraping() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &failing()), fake.pool());
    pool.assign(&key, Some(drain(5)));
    let _running = run(&pool);
    pass(SECOND).await;
    pool.assign(&key, None);
    assert_eq!(pool.drain_sample(&key), None);
    assert_eq!(pool.drain_failures(&key), 1);
    pass(60 * SECOND).await;
    assert_eq!(fake.scraped_at(), [0]);
    pool.forget(&key);
    assert_eq!(pool.drain_failures(&key), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sample_whose_assignment_has_changed_is_dropped() {
    let fake = FakePods::new();
    let key = fake.engine("a", 1, &PodBehaviour(5 * SECOND, Ok(1)));
    let pool = fake.pool();
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(2 * SECOND).await;
    pool.assign(&key, Some(activity(60)));
    pass(4 * SECOND).await;
    assert_eq!(
        pool.activity_sample(&key),
        None,
        "the first one would have ended by now"
    );
    assert!(fake.notified().is_empty());
    pass(2 * SECOND).await;
    assert_eq!(pool.activity_sample(&key).unwrap().outcome, Activity::Busy(1));
    assert_eq!(fake.scraped_at(), [0, 2]);
    assert_eq!(fake.notified().len(), 1);
    assert_eq!(fake.most_running(), 1, "never two at the same time");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_sample_is_that_before_its_first_scrape() {
    let fake = FakePods::new();
    let key = fake.engine("a", 1, &PodBehaviour(4 * SECOND, Ok(0)));
    let other = fake.engine("b", 1, &PodBehaviour(4 * SECOND, Ok(0)));
    let pool = fake.pool();
    pass(SECOND).await;
    let before = fake.now();
    pool.assign(&key, Some(drain(60)));
    pool.assign(&other, Some(activity(60)));
    let _running = run(&pool);
    pass(5 * SECOND).await;
    assert_eq!(pool.drain_sample(&key).unwrap().began, before);
    let active = pool.activity_sample(&other).unwrap();
    assert_eq!(
        (active.taken, active.outcome),
        (before, Activity::Quiet { since: before })
    );
}

#[tokio::test(start_paused = true)]
async fn every_scrape_is_measured() {
    let fake = FakePods::new();
    let (good, bad) = (
        fake.engine("a", 1, &PodBehaviour(SECOND, Ok(1))),
        fake.engine("b", 1, &unresponsive()),
    );
    let pool = fake.pool();
    pool.assign(&good, Some(drain(60)));
    pool.assign(&bad, Some(drain(60)));
    let _running = run(&pool);
    pass(20 * SECOND).await;
    let measured: Vec<_> = fake
        .measured()
        .into_iter()
        .map(|(took, succeeded)| (took.as_secs(), succeeded))
        .collect();
    assert_eq!(measured, [(1, true), (10, false)]);
}

#[tokio::test(start_paused = true)]
async fn five_thousand_engines_keep_their_interval() {
    let fake = FakePods::new();
    let pool = fake.pool();
    let keys: Vec<_> = (0..5000)
        .map(|number| fake.engine(&format!("e{number}"), 1, &queries(0)))
        .collect();
    for key in &keys {
        pool.assign(key, Some(activity(60)));
    }
    let _running = run(&pool);
    pass(120 * SECOND).await;
    let asked = fake.scraped_at();
    let at = |second| asked.iter().filter(|at| **at == second).count();
    assert_eq!([0, 60, 120].map(at), [5000; 3]);
    assert_eq!(asked.len(), 15_000);
}

#[tokio::test(start_paused = true)]
async fn no_scrape_outlives_the_pool() {
    let fake = FakePods::new();
    let pool = fake.pool();
    for name in ["a", "b", "c"] {
        let key = fake.engine(name, 20, &unresponsive());
        pool.assign(&key, Some(drain(5)));
    }
    let (stop, running) = run(&pool);
    pass(SECOND).await;
    assert_eq!(fake.running(), 24);
    stop.cancel();
    running.await.unwrap();
    assert_eq!(fake.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_sample_ends_the_pool_and_is_not_swallowed() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine_with("a", Vec::new()), fake.pool());
    let hooks = Hooks {
        list_pods: Arc::new(|_, _| panic!("a bug")),
        ..pool.shared.hooks.clone()
    };
    let pool = Pool::new(hooks);
    pool.assign(&key, Some(drain(5)));
    let (_stop, running) = run(&pool);
    assert!(running.await.unwrap_err().is_panic());
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn without_assignments_nothing_wakes_up() {
    let fake = FakePods::new();
    let (key, pool) = (fake.engine("a", 1, &queries(0)), fake.pool());
    pool.assign(&key, Some(drain(5)));
    pool.assign(&key, None);
    let count = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut running = pin!(pool.run(CancellationToken::new()));
    // The first poll handles the pending notification, the second one finds none.
    for _ in 0..2 {
        assert!(running.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let before = count.0.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!(count.0.load(Ordering::SeqCst), before);
    pool.assign(&key, Some(drain(5)));
    assert!(count.0.load(Ordering::SeqCst) > before, "an assignment wakes it");
}
