//! What tools that wait for an engine are told.

use std::str::FromStr;

use firebolt_api::FireboltEngineStatus;
use firebolt_api::condition::EngineReason;

use super::input::Input;
use super::ready::EngineReadiness;
use crate::plan::kstatus::{self, Outlook};

/// Sets the conditions that follow from `Ready`. An engine that waits for a person has observed its generation, although
/// that is not rolled out: tools would wait for ever otherwise.
pub(super) fn report(input: &Input, status: &mut FireboltEngineStatus, readiness: &EngineReadiness) {
    let outlook = outlook(readiness);
    let generation = input.engine.metadata.generation;
    if outlook == Outlook::Stalled {
        status.observed_generation = generation;
    }
    kstatus::report(&mut status.conditions, outlook, generation, input.now);
}

fn outlook(readiness: &EngineReadiness) -> Outlook {
    // Any other reason is that of a Warning event of the StatefulSet, which Kubernetes keeps trying to scale.
    let reason = EngineReason::from_str(&readiness.reason).unwrap_or(EngineReason::StatefulSetWarning);
    match reason {
        EngineReason::EngineReady
        | EngineReason::InstanceReady
        | EngineReason::Stopped
        | EngineReason::OperatorUpgraded => Outlook::Settled,
        EngineReason::Initializing
        | EngineReason::Rolling
        | EngineReason::PodsNotReady
        // The instance has conditions of its own, and usually becomes ready.
        | EngineReason::InstanceNotReady
        // Both are retried, and often pass.
        | EngineReason::DrainCheckFailing
        | EngineReason::StatefulSetWarning => Outlook::Reconciling,
        EngineReason::TemplateRejected
        | EngineReason::FireboltEngineClassUnready
        | EngineReason::ResourceBoundsExceeded
        | EngineReason::ProgressDeadlineExceeded
        | EngineReason::ExternalFinalizer
        | EngineReason::ForeignObject
        | EngineReason::DeleteRefused
        | EngineReason::DeletionStuck
        | EngineReason::WriteRefused => Outlook::Stalled,
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable, Stopped};
    use firebolt_api::FireboltEngineStatus;
    use jiff::SignedDuration;
    use rstest::rstest;

    use crate::plan::engine::fixture::{Case, engine};
    use crate::plan::engine::{Drain, GateCause, StatefulSetWarning};

    /// The status after the plan.
    fn after(case: &Case) -> FireboltEngineStatus {
        let status = case.plan().status.or_else(|| case.engine.status.clone());
        status.expect("a status")
    }

    /// The types of all conditions but `InstanceReady`, after the plan.
    fn reported(case: &Case) -> Vec<String> {
        let conditions = after(case).conditions.into_iter();
        conditions
            .map(|condition| condition.type_)
            .filter(|type_| type_ != "InstanceReady")
            .collect()
    }

    fn overdue() -> Case {
        engine("a")
            .serving(0)
            .generation(1, 1)
            .at(Creating)
            .but(|case| case.now += SignedDuration::from_mins(30))
    }

    fn short_of_pods() -> Case {
        engine("a").generation(0, 1).routed(0).at(Stable).but(|case| {
            case.observed.generations.get_mut(&0).unwrap().pods.total = 1;
            case.observed.warning = Some(StatefulSetWarning {
                reason: "FailedCreate".to_owned(),
                message: "exceeded quota".to_owned(),
                count: 2,
            });
        })
    }

    fn uncounted() -> Case {
        let failed = Drain::Failed {
            pod: "a-g0-0".to_owned(),
            cause: "connection refused".to_owned(),
        };
        engine("a").complete(0).serving(1).at(Draining).counted(0, failed)
    }

    #[rstest]
    #[case::new(engine("a"))]
    #[case::starting(engine("a").generation(0, 1).at(Creating))]
    #[case::rolling(engine("a").serving(0).at(Stable).desired_hash("new"))]
    #[case::draining(engine("a").complete(0).serving(1).at(Draining))]
    #[case::pod_lost(engine("a").generation(0, 1).routed(0).at(Stable))]
    #[case::instance_not_ready(engine("a").serving(0).at(Stable).gate(GateCause::InstanceNotReady))]
    #[case::short_of_pods(short_of_pods())]
    #[case::uncounted(uncounted())]
    fn an_engine_that_changes_on_its_own_is_reconciling(#[case] case: Case) {
        assert_eq!(reported(&case), ["Ready", "Reconciling"]);
    }

    #[rstest]
    #[case::class(engine("a").serving(0).at(Stable).gate(GateCause::ClassUnready))]
    #[case::template(engine("a").serving(0).at(Stable).gate(GateCause::TemplateRejected))]
    #[case::bounds(engine("a").serving(0).at(Stable).gate(GateCause::BoundsExceeded))]
    #[case::write(engine("a").serving(0).at(Stable).gate(GateCause::WriteRefused))]
    #[case::stopped_without_class(engine("a").replicas(0).serving(0).at(Stopped).gate(GateCause::ClassUnready))]
    #[case::overdue(overdue())]
    #[case::name_taken(engine("a").serving(0).at(Stable).routing(|routing| routing.meta.owned = false))]
    fn an_engine_that_waits_for_a_person_is_stalled_and_has_observed_its_generation(#[case] case: Case) {
        let edited = case.but(|case| case.engine.metadata.generation = Some(7));
        assert_eq!(reported(&edited), ["Ready", "Stalled"]);
        assert_eq!(edited.status().observed_generation, Some(7));
    }

    #[rstest]
    #[case::running(engine("a").serving(0).at(Stable))]
    #[case::stopped(engine("a").replicas(0).serving(0).at(Stopped))]
    fn an_engine_as_desired_is_neither(#[case] case: Case) {
        let stalled = case.clone().gate(GateCause::ClassUnready).reported();
        let resolved = case.but(|case| case.engine.status = stalled.engine.status);
        assert_eq!(reported(&resolved), ["Ready"]);
    }

    #[test]
    fn an_edit_that_waits_for_the_instance_or_its_pods_is_not_observed_yet() {
        let case = engine("a")
            .serving(0)
            .at(Stable)
            .reported()
            .but(|case| case.engine.metadata.generation = Some(2));
        for waits in [
            case.clone().gate(GateCause::InstanceNotReady),
            case.clone().desired_hash("new"),
            case.desired_hash("new").reported(),
        ] {
            assert_eq!(after(&waits).observed_generation, Some(1));
        }
    }

    #[test]
    fn the_ready_pods_are_those_of_the_active_generation() {
        let ready = |case: Case| case.status().ready_replicas;
        assert_eq!(ready(engine("a")), Some(0));
        assert_eq!(ready(engine("a").generation(0, 1).routed(0).at(Stable)), Some(1));
        assert_eq!(ready(engine("a").serving(0).generation(1, 1).at(Creating)), Some(2));
        assert_eq!(ready(engine("a").replicas(0).serving(0).at(Stopped)), Some(0));
    }
}
