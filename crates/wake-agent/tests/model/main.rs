//! The shipping hold table in every history that a small world has, and in long random ones of a larger one.
//!
//! [`witness`] stands between the table and the world, remembers what was asked and answered, and says what must hold.
//! [`search`] goes through all histories: any order of requests, of clients that leave, of news that come late, never or
//! wrong, of changes to the engine, of restarts, and of time passing in between. What bounds it is the number of requests,
//! of disturbances, and of moments at which something is due (`TICKS=2` for two more, which takes many minutes).

mod known_bad;
mod random;
mod search;
mod truth;
mod witness;
mod world;

use known_bad::Bad;
use rstest::rstest;
use search::Search;
use world::{Budget, World};

const LIMIT: usize = 5_000_000;

/// Time enough to come, to wait and to be sent away; or something that goes wrong, and less time.
fn budgets() -> [Budget; 2] {
    let more: u8 = std::env::var("TICKS").map_or(0, |text| text.parse().expect("TICKS is a number"));
    let budget = |disturbances, ticks: u8| Budget {
        requests: 2,
        disturbances,
        ticks: ticks + more,
    };
    [budget(0, 3), budget(1, 1)]
}

#[test]
fn every_guarantee_holds_in_every_history() {
    let worlds = [World::stopped, World::starting, World::unknown, World::full];
    let start = budgets().map(|budget| worlds.map(|world| world(budget, None)));
    let report = match (Search { limit: LIMIT }).run(start.concat()) {
        Ok(report) => report,
        Err(failure) => panic!("{}: {}\n{}", failure.broken.rule, failure.broken.what, failure.story),
    };
    println!(
        "{} states, {} transitions, {:.1} s, answers: {:?}",
        report.states,
        report.transitions,
        report.took.as_secs_f32(),
        report.answers
    );
    assert!(report.exhausted, "the search ended at its limit");
    assert!(report.states > 50_000, "the model has shrunk");
    for kind in [
        "Ready",
        "Released",
        "Reachable",
        "Blind",
        "NotFound",
        "Stopped",
        "NotAllowed",
        "Full",
        "TimedOut",
    ] {
        assert!(report.answers.contains_key(kind), "nobody is ever told {kind}");
    }
}

/// Each mistake with the rule that finds it.
#[rstest]
#[case(Bad::ReleaseByName, "released by old news")]
#[case(Bad::StampAfterShed, "shed without a stamp")]
#[case(Bad::NoLastLook, "sent away without a last look")]
#[case(Bad::LoseAnAnswer, "deadline")]
#[case(Bad::AnswerTwice, "answered once")]
#[case(Bad::NoBounds, "capacity")]
#[case(Bad::StampTooOften, "rate of patches")]
#[case(Bad::StampTheRunning, "stamped without need")]
#[case(Bad::PassToTheStopped, "passed to the stopped")]
#[case(Bad::UnheardProbes, "stranded")]
fn a_mistake_is_found(#[case] bad: Bad, #[case] rule: &str) {
    let worlds = [World::stopped, World::starting, World::full];
    let budget = Budget {
        requests: 2,
        disturbances: 0,
        ticks: 3,
    };
    let start = worlds.map(|world| world(budget, Some(bad)));
    let Err(failure) = (Search { limit: LIMIT }).run(start.to_vec()) else {
        panic!("{bad:?} goes unnoticed");
    };
    println!("{bad:?}: {}", failure.broken.what);
    assert_eq!(failure.broken.rule, rule, "{}\n{}", failure.broken.what, failure.story);
}
