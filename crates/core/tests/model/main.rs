//! A model check of the shipping `plan` function: an in-memory cluster, a caller that keeps to the contract, and a
//! search through everything that users, Kubernetes, crashes and stale caches can do in between.
//!
//! Numbers of generations are counted from the lowest that exists, so histories of any length are covered. What bounds
//! the search is the number of disturbances in one history: two as a matter of course, and `DISTURBANCES=3` for a
//! search of some minutes. What is left out: the deletion of the engine, and foreign objects other than a StatefulSet.

mod caller;
mod check;
mod cluster;
mod environment;
mod known_bad;
mod rollouts;
mod world;

use known_bad::Bad;
use rollouts::Rollouts;
use rstest::rstest;
use testkit::model::{Report, search};
use world::World;

/// More states than any of the searches has.
const LIMIT: usize = 20_000_000;

/// Searches the histories of the shipping function.
fn explore(name: &str, disturb: bool, initial: Vec<World>) -> Report {
    let model = Rollouts { bad: None, disturb };
    let report = search(&model, initial, LIMIT).unwrap_or_else(|found| panic!("{found}"));
    println!("{name}: {report}");
    assert!(report.exhausted, "the search ended at its limit");
    report
}

/// How many disturbances one history has.
fn disturbances() -> u8 {
    std::env::var("DISTURBANCES").map_or(2, |text| text.parse().expect("DISTURBANCES is a number"))
}

#[test]
fn every_invariant_holds_in_every_rollout() {
    let budget = disturbances();
    let report = explore("rollouts", true, vec![World::new(2, budget), World::rolling(budget)]);
    assert!(report.states > 100_000, "the model has shrunk");
}

/// Time multiplies the states, so there is one disturbance less.
#[test]
fn every_invariant_holds_with_auto_stop() {
    explore("auto-stop", false, vec![World::with_auto_stop(2, disturbances() - 1)]);
}

/// Each mistake with the invariant that finds it.
#[rstest]
#[case(Bad::AdvanceWithoutReadyPods, 1)]
#[case(Bad::FlipActiveWithoutTheService, 2)]
#[case(Bad::KeepDrainingInCleaning, 3)]
#[case(Bad::SweepWithoutActive, 2)]
#[case(Bad::SweepWithoutDraining, 2)]
#[case(Bad::SweepWithoutFloor, 2)]
#[case(Bad::DeleteWithoutOwnerCheck, 14)]
#[case(Bad::OverwriteStatus, 7)]
#[case(Bad::WriteFromAStaleEngine, 2)]
#[case(Bad::TrustCaches, 1)]
#[case(Bad::CountFromBeforeTheSwitch, 6)]
#[case(Bad::StartAGenerationWhileDraining, 5)]
#[case(Bad::RollWithoutCause, 7)]
#[case(Bad::WriteStatusEveryReconcile, 8)]
#[case(Bad::LeaveOrphans, 9)]
#[case(Bad::StopWithoutNotice, 13)]
fn a_mistake_in_a_rollout_is_found(#[case] bad: Bad, #[case] invariant: u8) {
    assert_found(bad, invariant, true, World::rolling(2));
}

#[rstest]
#[case(Bad::HonourExpiredWake, 11)]
#[case(Bad::StoppedAboveWake, 11)]
#[case(Bad::ParkOnMissingData, 11)]
fn a_known_bad_auto_stop_is_found(#[case] bad: Bad, #[case] invariant: u8) {
    assert_found(bad, invariant, false, World::with_auto_stop(0, 2));
}

fn assert_found(bad: Bad, invariant: u8, disturb: bool, start: World) {
    let model = Rollouts {
        bad: Some(bad),
        disturb,
    };
    let Err(found) = search(&model, [start], LIMIT) else {
        panic!("{bad:?} goes unnoticed");
    };
    println!("{bad:?}: {}", found.violation.what);
    assert_eq!(found.violation.invariant, invariant, "{found}");
}
