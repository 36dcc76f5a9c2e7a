use std::time::Duration;

use firebolt_core::plan::engine::Drain;
use rstest::rstest;

use super::super::fixture::{BLACK_HOLE, Manner, World, black_hole, drain, pass, queries, refusing, run};
use super::*;

const MOMENT: Duration = Duration::from_millis(5);

fn ask(pod: &str) -> Subject {
    Subject::Ask(Target {
        namespace: "team".to_owned(),
        pod: pod.to_owned(),
        ip: None,
    })
}

fn unaskable() -> Subject {
    Subject::Unaskable {
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
#[case::no_pod(vec![], Drain::Drained, 0)]
#[case::drained_without_asking(vec![Subject::Drained], Drain::Drained, 0)]
#[case::idle(vec![ask("idle"), Subject::Drained], Drain::Drained, 1)]
#[case::sum(vec![ask("two"), ask("idle"), ask("three")], Drain::Busy(5), 3)]
#[case::beyond_all_bounds(vec![ask("two"), ask("endless")], Drain::Busy(u64::MAX), 2)]
#[case::a_failure_counts_more(vec![ask("two"), ask("bad")], failed("bad", "answered 500"), 2)]
#[case::the_first_pod_that_failed(vec![ask("slow"), ask("bad")], failed("slow", "no answer within 10s"), 2)]
#[case::known_without_asking(vec![ask("two"), unaskable()], failed("stuck", "not running"), 0)]
#[tokio::test(start_paused = true)]
async fn a_sample_is_the_sum_of_its_pods(
    #[case] subjects: Vec<Subject>,
    #[case] expected: Drain,
    #[case] questions: usize,
) {
    let world = World::new();
    for (pod, manner) in [("idle", queries(0)), ("two", queries(2)), ("three", queries(3))] {
        world.pod(pod, &manner);
    }
    world.pod("endless", &queries(u64::MAX));
    world.pod("bad", &refusing());
    world.pod("slow", &black_hole());
    let (key, pool) = (world.subjects("a", subjects), world.pool());
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(BLACK_HOLE).await;
    assert_eq!(pool.drain_sample(&key).unwrap().outcome, expected);
    assert_eq!(world.questions().len(), questions);
}

#[tokio::test(start_paused = true)]
async fn eight_pods_of_an_engine_are_asked_side_by_side() {
    let world = World::new();
    let key = world.engine("a", 128, &Manner(MOMENT, Ok(1)));
    let pool = world.pool();
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(16 * MOMENT).await;
    assert_eq!(pool.drain_sample(&key).unwrap().outcome, Drain::Busy(128));
    assert_eq!(world.most_under_way(), 8);
}

#[tokio::test(start_paused = true)]
async fn once_a_pod_has_failed_no_other_is_asked() {
    let world = World::new();
    let key = world.engine("a", 128, &black_hole());
    let pool = world.pool();
    pool.assign(&key, Some(drain(60)));
    let _running = run(&pool);
    pass(BLACK_HOLE).await;
    assert_eq!(
        pool.drain_sample(&key).unwrap().outcome,
        failed("a-0", "no answer within 10s")
    );
    assert_eq!(world.questions().len(), 8);
}

/// Engines of 128 pods each that do not answer, under way, and then a healthy one. Returns when its sample was done,
/// counted from its assignment.
async fn healthy_among(black_holes: usize, healthy_pods: usize) -> (World, Option<Duration>) {
    let world = World::new();
    let pool = world.pool();
    for number in 0..black_holes {
        let key = world.engine(&format!("hole{number}"), 128, &black_hole());
        pool.assign(&key, Some(drain(5)));
    }
    let (stop, running) = run(&pool);
    pass(Duration::from_secs(1)).await;
    let healthy = world.engine("healthy", healthy_pods, &Manner(MOMENT, Ok(0)));
    let assigned = world.elapsed();
    pool.assign(&healthy, Some(drain(60)));
    // One second is long for the healthy one and short for those that do not answer.
    pass(Duration::from_secs(1)).await;
    let done = world.notified().into_iter().find(|(_, key)| *key == healthy);
    stop.cancel();
    running.await.unwrap();
    (world, done.map(|(at, _)| at.checked_sub(assigned).unwrap()))
}

#[rstest]
#[case::one(1)]
#[case::twenty(20)]
#[case::two_hundred(200)]
#[tokio::test(start_paused = true)]
async fn engines_that_do_not_answer_delay_no_other(#[case] black_holes: usize) {
    let (_, done) = healthy_among(black_holes, 1).await;
    assert_eq!(done, Some(MOMENT));
}

#[rstest]
#[case::shared_places_left(1, 2)]
#[case::one_pod_at_a_time(20, 16)]
#[tokio::test(start_paused = true)]
async fn a_large_engine_gets_on_too(#[case] black_holes: usize, #[case] rounds: u32) {
    let (_, done) = healthy_among(black_holes, 16).await;
    assert_eq!(done, Some(rounds * MOMENT));
}

#[tokio::test(start_paused = true)]
async fn scrapes_are_bounded_in_all_and_the_bound_is_where_waiting_starts() {
    let (world, done) = healthy_among(300, 1).await;
    assert_eq!(world.most_under_way(), 256 + 64);
    assert_eq!(done, None);
}
