//! What tools that wait for an instance are told.

use firebolt_api::FireboltInstanceStatus;
use firebolt_api::condition::InstanceReason;
use jiff::Timestamp;

use super::component::ComponentReadiness;
use super::input::Input;
use crate::plan::kstatus::{self, Outlook};

/// Sets the conditions that follow from `Ready`.
pub(super) fn report(status: &mut FireboltInstanceStatus, outlook: Outlook, now: Timestamp) {
    let generation = status.observed_generation;
    kstatus::report(&mut status.conditions, outlook, generation, now);
}

/// The outlook of an instance with this `Ready` condition.
pub(super) fn outlook(input: &Input, ready: &ComponentReadiness) -> Outlook {
    let overdue = input.observed.workloads.values().any(|workload| workload.overdue);
    match ready.reason {
        InstanceReason::Ready | InstanceReason::AllComponentsReady | InstanceReason::OperatorUpgraded => {
            Outlook::Settled
        }
        InstanceReason::Initializing | InstanceReason::Provisioning if overdue => Outlook::Stalled,
        InstanceReason::Initializing
        | InstanceReason::Provisioning
        | InstanceReason::ProbeFailed
        | InstanceReason::Deleting => Outlook::Reconciling,
        InstanceReason::TemplateRejected
        | InstanceReason::PostgresEnsureFailed
        | InstanceReason::PostgresSecretPreflightFailed
        | InstanceReason::EnsureFailed
        | InstanceReason::PostgresCredentialsLost
        | InstanceReason::PostgresSwitchRefused
        | InstanceReason::ForeignObject
        | InstanceReason::ExternalFinalizer
        | InstanceReason::DeletionBlocked => Outlook::Stalled,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::plan::instance::fixture::{Case, instance, pods};
    use crate::plan::instance::{Component, InstanceObject, Workload};

    /// The types of the conditions of the instance itself.
    fn reported(case: &Case) -> Vec<String> {
        let types = case.status().conditions.into_iter().map(|condition| condition.type_);
        types
            .filter(|type_| !type_.ends_with("yReady") && !type_.ends_with("aReady"))
            .collect()
    }

    fn slow(overdue: bool) -> Case {
        let metadata = Workload { overdue, ..pods(1, 0) };
        instance().ready().pods(Component::Metadata, metadata)
    }

    fn taken() -> Case {
        instance()
            .ready()
            .with(InstanceObject::GatewayService, |child| child.meta.owned = false)
    }

    fn lost() -> Case {
        instance()
            .ready()
            .lost(InstanceObject::PostgresCredentials)
            .but(|case| case.observed.claim = true)
    }

    fn rejected() -> Case {
        instance().ready().but(|case| {
            case.rejected.insert(Component::Gateway, "exceeded quota".to_owned());
        })
    }

    #[rstest]
    #[case::ready(instance().ready(), &["Ready"])]
    #[case::ready_and_overdue(instance().ready().pods(Component::Gateway, Workload { overdue: true, ..pods(1, 1) }), &["Ready"])]
    #[case::new(instance(), &["Ready", "Reconciling"])]
    #[case::starting(slow(false), &["Ready", "Reconciling"])]
    #[case::deleting(instance().ready().deleting(), &["Ready", "Reconciling"])]
    #[case::overdue(slow(true), &["Ready", "Stalled"])]
    #[case::name_taken(taken(), &["Ready", "Stalled"])]
    #[case::credentials_lost(lost(), &["Ready", "Stalled"])]
    #[case::write_rejected(rejected(), &["Ready", "Stalled"])]
    #[case::deletion_blocked(instance().ready().engines(&["a"]).deleting(), &["Ready", "Stalled"])]
    fn an_instance_is_stalled_only_while_a_person_has_to_act(#[case] case: Case, #[case] types: &[&str]) {
        assert_eq!(reported(&case), types);
    }

    #[test]
    fn an_instance_that_waits_for_a_person_has_observed_its_generation() {
        let cases: [fn() -> Case; 4] = [taken, lost, rejected, || slow(true)];
        for case in cases {
            let edited = case().but(|case| case.instance.metadata.generation = Some(7));
            assert_eq!(edited.status().observed_generation, Some(7));
        }
        let edited = instance()
            .ready()
            .reported()
            .but(|case| case.instance.metadata.generation = Some(7));
        let status = edited.stuck("no rights").expect("news");
        assert_eq!(status.observed_generation, Some(7));
        assert_eq!(status.conditions.last().expect("conditions").type_, "Stalled");
    }
}
