//! A model check of the shipping state machine of the hold queue, and long random histories of a larger world.
//!
//! [`checker`] stands between the state machine and the world, records requests and answers, and checks what must hold.
//! The search covers all histories: any order of requests, clients that disconnect, results that are late, missing or
//! wrong, changes to the engine, restarts, and time passing in between. It is bounded by the number of requests, of
//! disturbances, and of timers that expire (`TICKS=2` for two more, which takes many minutes).

mod checker;
mod engine;
mod known_bad;
mod liveness;
mod random;
mod world;

use known_bad::Bad;
use liveness::Histories;
use rstest::rstest;
use testkit::model::search;
use world::{Budget, World};

const LIMIT: usize = 5_000_000;

/// Enough time to arrive, be held and time out; or one disturbance, and less time.
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
    let report = search(&Histories, start.concat(), LIMIT).unwrap_or_else(|found| panic!("{found}"));
    println!("{report}");
    assert!(report.exhausted, "the search ended at its limit");
    assert!(report.states > 50_000, "the model has shrunk");
    for answer in [
        "ready",
        "released",
        "reachable",
        "fail_open",
        "not_found",
        "stopped",
        "not_allowed",
        "full",
        "timed_out",
    ] {
        assert!(
            report.labels.contains_key(answer),
            "no request is ever answered {answer}"
        );
    }
}

/// Each mistake with the rule that finds it.
#[rstest]
#[case(Bad::ReleaseByName, "released by a stale probe")]
#[case(Bad::RequestWakeAfterRefusal, "refused without a wake request")]
#[case(Bad::NoFinalProbe, "timed out without a final probe")]
#[case(Bad::LoseAnAnswer, "deadline")]
#[case(Bad::AnswerTwice, "answered once")]
#[case(Bad::NoMemoryLimit, "capacity")]
#[case(Bad::RequestWakeTooOften, "rate of patches")]
#[case(Bad::WakeRunningEngine, "wake requested without need")]
#[case(Bad::RouteToStoppingEngine, "routed to a stopping engine")]
#[case(Bad::IgnoreProbes, "stranded")]
fn a_mistake_is_found(#[case] bad: Bad, #[case] rule: &str) {
    let worlds = [World::stopped, World::starting, World::full];
    let budget = Budget {
        requests: 2,
        disturbances: 0,
        ticks: 3,
    };
    let start = worlds.map(|world| world(budget, Some(bad)));
    let Err(found) = search(&Histories, start, LIMIT) else {
        panic!("{bad:?} goes unnoticed");
    };
    println!("{bad:?}: {}", found.violation.what);
    assert_eq!(found.violation.rule, rule, "{found}");
}
