//! What tools that wait for a class are told.

use firebolt_api::FireboltEngineClassStatus;
use firebolt_api::condition::EngineClassReason;
use jiff::Timestamp;

use crate::plan::kstatus::{self, Outlook};

/// Sets the conditions that follow from `Ready`.
pub(super) fn report(status: &mut FireboltEngineClassStatus, reason: EngineClassReason, now: Timestamp) {
    let generation = status.observed_generation;
    kstatus::report(&mut status.conditions, outlook(reason), generation, now);
}

fn outlook(reason: EngineClassReason) -> Outlook {
    match reason {
        EngineClassReason::Admissible => Outlook::Settled,
        EngineClassReason::OperatorOwnedFieldSet | EngineClassReason::DeletionBlocked => Outlook::Stalled,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use crate::plan::engine_class::fixture::{Case, class};

    fn reported(case: &Case) -> Vec<String> {
        let status = case.plan().status.or_else(|| case.class.status.clone());
        let conditions = status.expect("a status").conditions.into_iter();
        conditions.map(|condition| condition.type_).collect()
    }

    #[rstest]
    #[case::new(class(), &["Ready"])]
    #[case::rejected(class().bad(), &["Ready", "Stalled"])]
    #[case::corrected(class().bad().done().template(&json!({})), &["Ready"])]
    #[case::deletion_blocked(class().bound(&["a"]).done().deleting(), &["Ready", "Stalled"])]
    fn a_class_is_stalled_while_a_person_has_to_act(#[case] case: Case, #[case] types: &[&str]) {
        assert_eq!(reported(&case), types);
    }
}
