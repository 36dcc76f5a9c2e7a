//! A1 and A2: the operator dies after a write, or never hears of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;
use tokio::sync::OnceCell;

use super::stage::{Rest, Stage};
use crate::proxy::{Fault, Outcome, Write, writes};

/// How many stories are played at the same time.
const AT_ONCE: usize = 2;
/// A first deploy and a rollout take more writes than this; with fewer, the stories would have played something else.
const FEWEST: usize = 12;

/// Where an undisturbed story ends.
async fn undisturbed() -> Rest {
    let stage = Stage::begin().await;
    stage.story().await;
    let rest = stage.at_rest(1).await;
    let stored = stage.proxy.writes().iter().filter(|write| write.is_stored()).count();
    println!("an undisturbed story takes {stored} writes");
    rest
}

/// Plays the story with an operator that is killed right after its nth write was stored, before it hears of it, and
/// started again. None if there are not so many writes.
async fn killed_at(n: usize) -> Option<Rest> {
    let mut stage = Stage::set().await;
    let rule = stage.proxy.on(writes().nth(n), Fault::HoldResponse);
    stage.start();
    tokio::select! {
        () = stage.story() => {}
        () = rule.happened() => {}
    }
    // The last write ends the story, whoever notices first.
    let struck = stage.proxy.writes().len() >= n;
    if struck {
        rule.happened().await;
        stage.kill();
        rule.remove();
        stage.start();
        stage.story().await;
    }
    let rest = stage.at_rest(1).await;
    struck.then_some(rest)
}

/// Whichever write is the last one, the next operator ends where an undisturbed one does: stable, one generation, the
/// route at it, nothing left over, no generation skipped, and no invariant violated on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_after_any_write_the_next_operator_ends_in_the_same_place() {
    let expected = undisturbed().await;
    let (next, last) = (AtomicUsize::new(1), OnceCell::new());
    let player = async || {
        while last.get().is_none() {
            let n = next.fetch_add(1, Ordering::Relaxed);
            println!("killed after write {n}");
            match killed_at(n).await {
                Some(rest) => assert_eq!(rest, expected, "killed after write {n}"),
                None => return drop(last.set(n - 1)),
            }
        }
    };
    let players = (0..AT_ONCE).map(|_| player());
    futures::future::join_all(players).await;
    let last = last.get().expect("a story ends");
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
    let stage = Stage::begin().await;
    let rule = stage.proxy.on(writes().in_a_row(1, passed), Fault::LoseResponse);
    stage.story().await;
    assert_eq!(stage.at_rest(1).await, expected);
    assert!(rule.struck() > 3, "{:?}", stage.proxy.writes());
    let asked = stage.proxy.writes();
    let created = |write: &&Write| write.call.resource == "statefulsets" && write.outcome == Outcome::Answered(201);
    assert_eq!(
        asked.iter().filter(created).count(),
        2,
        "each generation is created once"
    );
}
