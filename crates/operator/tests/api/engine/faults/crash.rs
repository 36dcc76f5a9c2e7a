//! The operator crashes after a write, or never receives the response.

use std::sync::atomic::{AtomicUsize, Ordering};

use firebolt_api::EnginePhase::Switching;
use rstest::rstest;
use tokio::sync::OnceCell;

use super::testenv::{ENGINE, FinalState, ProxiedEnv};
use crate::fault_proxy::{Fault, Match, Outcome, ProxiedWrite, writes};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::TestEnv;

/// How many tests are played at the same time.
const AT_ONCE: usize = 2;
/// A first deploy and a rollout take more writes than this; with fewer, the tests would have played something else.
const FEWEST: usize = 12;

/// Where an undisturbed test ends.
async fn undisturbed() -> FinalState {
    let proxied = ProxiedEnv::start().await;
    proxied.deploy_and_change().await;
    let rest = proxied.at_rest(1).await;
    let stored = proxied.proxy.writes().iter().filter(|write| write.is_stored()).count();
    println!("an undisturbed test takes {stored} writes");
    rest
}

/// Plays the test with an operator that is killed right after its nth write was stored, before it hears of it, and
/// started again. `None` if there are fewer writes.
async fn killed_at(n: usize) -> Option<FinalState> {
    let mut proxied = ProxiedEnv::without_operator().await;
    let rule = proxied.proxy.on(writes().nth(n), Fault::HoldResponse);
    proxied.start_operator();
    tokio::select! {
        () = proxied.deploy_and_change() => {}
        () = rule.happened() => {}
    }
    // The last write ends the test.
    let struck = proxied.proxy.writes().len() >= n;
    if struck {
        rule.happened().await;
        proxied.kill_operator();
        rule.remove();
        proxied.start_operator();
        proxied.deploy_and_change().await;
    }
    let rest = proxied.at_rest(1).await;
    struck.then_some(rest)
}

/// Whichever write is the last one, the next operator ends where an undisturbed one does: stable, one generation, the
/// route at it, nothing left over, no generation skipped, and no invariant violated on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operator_killed_after_any_write_converges_after_restart() {
    let expected = undisturbed().await;
    let (next, last) = (AtomicUsize::new(1), OnceCell::new());
    let worker = async || {
        while last.get().is_none() {
            let n = next.fetch_add(1, Ordering::Relaxed);
            println!("killed after write {n}");
            match killed_at(n).await {
                Some(rest) => assert_eq!(rest, expected, "killed after write {n}"),
                None => return drop(last.set(n - 1)),
            }
        }
    };
    let workers = (0..AT_ONCE).map(|_| worker());
    futures::future::join_all(workers).await;
    let last = last.get().expect("a test ends");
    assert!(*last >= FEWEST, "only {last} writes");
}

/// The routing Service selects the new generation, the status still calls the old one active, and the operator is gone.
/// The next one does not switch again, and keeps the old generation until its query has ended.
#[rstest]
#[case::before_it_hears_of_the_route(writes().named("a-service"), Fault::HoldResponse)]
#[case::before_it_writes_the_status(writes().of("fireboltengines").status().saying("\"draining\""), Fault::Hold)]
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_between_route_and_status_drains_the_old_generation_after_restart(
    #[case] next: Match,
    #[case] fault: Fault,
) {
    let mut proxied = ProxiedEnv::deployed().await;
    let count = |running| Answer::Queries { running, suspended: 0 };
    let order = |env: &TestEnv, answer| env.node.metrics(&env.namespace, "a-g0", answer);
    order(&proxied.env, count(1));
    let rule = proxied.proxy.on(next.next(1), fault);
    proxied.change(1).await;
    proxied.struck(&rule).await;
    proxied.kill_operator();
    let status = proxied.env.status(ENGINE).await;
    assert_eq!((status.phase, status.active_generation), (Some(Switching), 0));
    assert_eq!(proxied.env.routed_to(ENGINE).await, Some(1));
    rule.remove();
    proxied.start_operator();

    proxied.env.wait_for_message(ENGINE, "1 query left").await;
    proxied.env.wait_for_scrapes("a-g0-0", 2).await;
    assert_eq!(proxied.env.generations(ENGINE).await, [0, 1]);
    order(&proxied.env, count(0));
    proxied.at_rest(1).await;
    let asked = proxied.proxy.writes();
    let of_route = asked
        .iter()
        .filter(|write| write.call.name.as_deref() == Some("a-service") && write.is_stored());
    assert_eq!(of_route.count(), 2, "it is created and switched once: {asked:?}");
}

/// An operator that hears nothing of every other write ends where one does that hears of all; in the two cases
/// together, each write is lost.
#[rstest]
#[case::from_the_first(0)]
#[case::from_the_second(1)]
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_response_is_lost_is_neither_repeated_blindly_nor_forgotten(#[case] passed: usize) {
    let expected = undisturbed().await;
    let proxied = ProxiedEnv::start().await;
    let rule = proxied.proxy.on(writes().in_a_row(1, passed), Fault::LoseResponse);
    proxied.deploy_and_change().await;
    assert_eq!(proxied.at_rest(1).await, expected);
    assert!(rule.struck() > 3, "{:?}", proxied.proxy.writes());
    let asked = proxied.proxy.writes();
    let created =
        |write: &&ProxiedWrite| write.call.resource == "statefulsets" && write.outcome == Outcome::Answered(201);
    assert_eq!(
        asked.iter().filter(created).count(),
        2,
        "each generation is created once"
    );
}
