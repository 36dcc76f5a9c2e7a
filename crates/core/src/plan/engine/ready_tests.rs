use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Stopped, Switching};
use rstest::rstest;

use super::*;
use crate::plan::engine::StatefulSetWarning;
use crate::plan::engine::fixture::{Case, engine};

fn failing() -> Drain {
    Drain::Failed {
        pod: "a-g0-1".to_owned(),
        cause: "connection refused".to_owned(),
    }
}

fn warned(reason: &str) -> impl FnOnce(&mut Case) {
    let reason = reason.to_owned();
    |case| {
        case.observed.warning = Some(StatefulSetWarning {
            reason,
            message: "exceeded quota".to_owned(),
            count: 3,
        });
        case.observed
            .generations
            .values_mut()
            .for_each(|seen| seen.pods.total = 1);
    }
}

/// A second generation without pods is routed.
fn stopped(case: Case) -> Case {
    case.replicas(0).serving(1)
}

fn late(case: Case) -> Case {
    case.but(|case| case.now += SignedDuration::from_mins(10))
}

#[rstest]
#[case::instance(engine("a").replicas(0).serving(0).at(Stopped).gate(GateCause::InstanceNotReady), "InstanceNotReady", "InstanceNotReady: correct it.")]
#[case::class(engine("a").serving(0).at(Stable).gate(GateCause::ClassUnready), "FireboltEngineClassUnready", "correct it.")]
#[case::template(engine("a").serving(0).at(Stable).gate(GateCause::TemplateRejected), "TemplateRejected", "correct it.")]
#[case::bounds(engine("a").serving(0).at(Stable).gate(GateCause::BoundsExceeded), "ResourceBoundsExceeded", "correct it.")]
#[case::stopped(engine("a").replicas(0).serving(0).at(Stopped), "Stopped", "The engine is stopped (spec.replicas is 0).")]
#[case::drain_check(engine("a").complete(0).serving(1).at(Draining).counted(0, failing()), "DrainCheckFailing", "Cannot read the running queries of pod a-g0-1 (generation 0): connection refused.")]
#[case::deadline(late(engine("a").serving(0).generation(1, 1).at(Creating)), "ProgressDeadlineExceeded", "Generation 1 is not ready after 15m: 1 of 2 pods ready. Generation 0 continues to serve queries.")]
#[case::deadline_beside_orphans(late(engine("a").serving(0).generation(1, 1).at(Creating).orphaned(0)), "ProgressDeadlineExceeded", "Generation 0 continues to serve queries.")]
#[case::deadline_of_a_first_deploy(late(engine("a").generation(0, 1).at(Creating)), "ProgressDeadlineExceeded", "No generation is serving queries.")]
#[case::event(engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
#[case::deadline_of_what_has_served(late(engine("a").generation(0, 1).routed(0).at(Stable)), "PodsNotReady", "1 of 2 pods ready.")]
#[case::deadline_of_what_is_ready(late(engine("a").complete(0).complete(1).counting(Creating, 1, 0, None)), "Rolling", "2 of 2 pods ready.")]
#[case::event_at_rest(engine("a").serving(0).at(Stable).but(warned("FailedCreate")), "FailedCreate", "StatefulSet a-g0: exceeded quota (x3)")]
#[case::event_with_an_odd_reason(engine("a").generation(0, 1).at(Creating).but(warned("no reason")), "StatefulSetWarning", "exceeded quota")]
#[case::creating(engine("a").generation(0, 1).at(Creating), "Rolling", "Generation 0 is being created: 1 of 2 pods ready.")]
#[case::switching(engine("a").serving(0).complete(1).at(Switching), "Rolling", "Generation 1 is ready; queries are being switched to it.")]
#[case::draining(engine("a").complete(0).serving(1).at(Draining).counted(0, Drain::Busy(1)), "Rolling", "generation 0 is draining: 1 query left.")]
#[case::back_to_draining(engine("a").complete(0).serving(1).at(Cleaning).routed(0), "Rolling", "not counted yet")]
#[case::pods(engine("a").generation(0, 1).routed(0).at(Stable), "PodsNotReady", "Generation 0 is serving queries with 1 of 2 pods ready.")]
#[case::no_pods(engine("a").generation(0, 0).routed(0).at(Stable), "PodsNotReady", "Generation 0 is not serving queries: 0 of 2 pods ready.")]
#[case::deadline_without_ready_pods(late(engine("a").generation(0, 0).generation(1, 1).routed(0).at(Creating)), "ProgressDeadlineExceeded", "No generation is serving queries.")]
#[case::stop_draining(stopped(engine("a").complete(0)).at(Draining).counted(0, Drain::Busy(2)), "Rolling", "The engine is stopping; generation 0 is draining: 2 queries left.")]
#[case::stop_cleaning(stopped(engine("a").complete(0)).at(Draining).counted(0, Drain::Drained), "Rolling", "The engine is stopping; the old generation is being deleted.")]
#[case::ready(engine("a").serving(0).at(Stable), "EngineReady", "Generation 0 is serving queries.")]
fn the_first_rule_that_applies_decides(#[case] case: Case, #[case] reason: &str, #[case] message: &str) {
    let ready = case.ready();
    assert_eq!(ready.reason, reason);
    assert!(ready.message.contains(message), "{}", ready.message);
    assert_eq!(ready.status, if reason == "EngineReady" { "True" } else { "False" });
}

#[test]
fn an_event_counts_only_while_pods_are_missing() {
    let case = engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate"));
    let present = case.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.total = 2);
    assert_eq!(present.ready().reason, "Rolling");
    let gone = engine("a")
        .serving(0)
        .at(Creating)
        .but(warned("FailedCreate"))
        .lost_set(0);
    assert_eq!(gone.ready().reason, "Rolling");
}

#[test]
fn an_event_that_happened_once_is_not_counted() {
    let case = engine("a").generation(0, 1).at(Creating).but(warned("FailedCreate"));
    let once = case.but(|case| case.observed.warning.as_mut().unwrap().count = 1);
    assert_eq!(once.ready().message, "StatefulSet a-g0: exceeded quota");
}

#[test]
fn a_failed_count_matters_only_while_draining_waits_for_it() {
    let case = engine("a").complete(0).serving(1).at(Draining).counted(0, failing());
    let gone = case.clone().lost_set(0);
    assert_eq!(gone.ready().reason, "Rolling");
    assert_eq!(case.but(|case| case.drain.waits = false).ready().reason, "Rolling");
}

#[rstest]
#[case::creating(engine("a").serving(0).generation(1, 1).at(Creating), "is being created: 1 of 2 pods ready.")]
#[case::deadline(late(engine("a").serving(0).generation(1, 1).at(Creating)), "is not ready after 15m: 1 of 2 pods ready.")]
#[case::switching(engine("a").serving(0).complete(1).at(Switching), "is ready; queries are being switched to it.")]
#[case::draining(engine("a").complete(0).serving(1).at(Draining), "is serving queries; generation 0 is draining: not counted yet.")]
#[case::cleaning(engine("a").complete(0).serving(1).at(Draining).counted(0, Drain::Drained), "is serving queries; the old generation is being deleted.")]
fn every_message_of_a_rollout_names_its_cause(#[case] case: Case, #[case] rest: &str) {
    let cause = "`spec.replicas` changed from 1 to 2";
    let case = case.but(|case| case.engine.status.as_mut().unwrap().rollout_cause = Some(cause.to_owned()));
    let message = case.ready().message;
    assert!(
        message.starts_with(&format!("Generation 1 ({cause}) {rest}")),
        "{message}"
    );
}

#[test]
fn the_message_contains_why_pods_are_not_ready() {
    let case = engine("a").generation(0, 1).at(Creating);
    let case = case.but(|case| case.observed.pod_causes = vec!["Pod a-g0-1 cannot pull its image.".to_owned()]);
    assert!(
        case.ready()
            .message
            .ends_with("1 of 2 pods ready. Pod a-g0-1 cannot pull its image.")
    );
}

#[test]
fn the_instance_has_a_separate_condition() {
    let instance = |case: Case| {
        let conditions = case.status().conditions;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "InstanceReady")
            .map(|condition| condition.status)
    };
    let case = engine("a").serving(0).at(Stable);
    assert_eq!(instance(case.clone()).as_deref(), Some("True"));
    assert_eq!(
        instance(case.clone().gate(GateCause::InstanceNotReady)).as_deref(),
        Some("False")
    );
    assert_eq!(
        instance(case.clone().gate(GateCause::ClassUnready)).as_deref(),
        Some("True")
    );
    let gone = case
        .gate(GateCause::ClassUnready)
        .but(|case| case.instance = Err("It is gone.".to_owned()));
    assert_eq!(instance(gone).as_deref(), Some("False"), "behind another gate, too");
}
