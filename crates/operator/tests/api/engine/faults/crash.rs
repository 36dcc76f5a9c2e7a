//! The operator crashes after a write, or never receives the response.

use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;
use tokio::sync::OnceCell;

use super::testenv::{FinalState, ProxiedEnv};
use crate::fault_proxy::{Fault, Outcome, ProxiedWrite, writes};

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
