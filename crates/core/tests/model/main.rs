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
use testkit::invariant::Invariant;
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
#[case(Bad::AdvanceWithoutReadyPods, Invariant::RouteHasReadyPods)]
#[case(Bad::FlipActiveWithoutTheService, Invariant::NamedGenerationKept)]
#[case(Bad::KeepDrainingInCleaning, Invariant::TerminalIsConsistent)]
#[case(Bad::SweepWithoutActive, Invariant::NamedGenerationKept)]
#[case(Bad::SweepWithoutDraining, Invariant::NamedGenerationKept)]
#[case(Bad::SweepWithoutFloor, Invariant::NamedGenerationKept)]
#[case(Bad::DeleteWithoutOwnerCheck, Invariant::ForeignObjectsUntouched)]
#[case(Bad::OverwriteStatus, Invariant::NoRolloutWithoutCause)]
#[case(Bad::WriteFromAStaleEngine, Invariant::NamedGenerationKept)]
#[case(Bad::TrustCaches, Invariant::RouteHasReadyPods)]
#[case(Bad::CountFromBeforeTheSwitch, Invariant::BusyGenerationKept)]
#[case(Bad::StartAGenerationWhileDraining, Invariant::GenerationsAdvance)]
#[case(Bad::RollWithoutCause, Invariant::NoRolloutWithoutCause)]
#[case(Bad::WriteStatusEveryReconcile, Invariant::WritesEnd)]
#[case(Bad::LeaveOrphans, Invariant::ConvergesToSameObjects)]
#[case(Bad::StopWithoutNotice, Invariant::StopIsAnnounced)]
#[case(Bad::CountDuringTheNotice, Invariant::BusyGenerationKept)]
#[case(Bad::NoticeFromTheLastStatus, Invariant::ReachesTerminal)]
#[case(Bad::BlockStopsBehindGates, Invariant::ReachesTerminal)]
#[case(Bad::DrainBeforeResuming, Invariant::StopCanBeCancelled)]
#[case(Bad::StopAtARefusedDelete, Invariant::ReachesTerminal)]
#[case(Bad::StopAtTheLastName, Invariant::ReachesTerminal)]
fn a_mistake_in_a_rollout_is_found(#[case] bad: Bad, #[case] invariant: Invariant) {
    assert_found(bad, invariant, true, World::rolling(2));
}

#[rstest]
#[case(Bad::HonourExpiredWake, Invariant::ScalesForAReason)]
#[case(Bad::StoppedAboveWake, Invariant::ScalesForAReason)]
#[case(Bad::ParkOnMissingData, Invariant::ScalesForAReason)]
fn a_known_bad_auto_stop_is_found(#[case] bad: Bad, #[case] invariant: Invariant) {
    assert_found(bad, invariant, false, World::with_auto_stop(0, 2));
}

fn assert_found(bad: Bad, invariant: Invariant, disturb: bool, start: World) {
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
