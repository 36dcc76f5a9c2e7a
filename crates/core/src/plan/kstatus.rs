//! The conditions `Reconciling` and `Stalled`, from which tools that wait for objects conclude whether to go on waiting.
//!
//! Such a tool, for example Flux or `helm --wait`, decides in this order: it waits while `status.observedGeneration` is
//! not `metadata.generation`, or while `Reconciling` is True; it fails if `Stalled` is True; it succeeds if `Ready` is
//! True. So an object with the condition `Stalled` has to have observed its generation.
//!
//! Both conditions are present only while they are True, repeat the reason and the message of `Ready`, and follow the
//! other conditions.

use firebolt_api::condition::Condition;
use jiff::Timestamp;

use super::condition::{self, ConditionUpdate};

/// What has to happen before an object changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nothing: the object is as desired.
    Settled,
    /// It changes on its own.
    Reconciling,
    /// A person has to act.
    Stalled,
}

impl Outlook {
    /// The type of its condition, which is the same for every kind of object.
    fn condition(self) -> Option<&'static str> {
        match self {
            Self::Settled => None,
            Self::Reconciling => Some("Reconciling"),
            Self::Stalled => Some("Stalled"),
        }
    }
}

/// Sets the condition of the outlook, with the reason and the message of the condition `Ready`, and removes the other one.
pub(crate) fn report(conditions: &mut Vec<Condition>, outlook: Outlook, generation: Option<i64>, now: Timestamp) {
    let ours = [Outlook::Reconciling, Outlook::Stalled].map(Outlook::condition);
    let mut reported: Vec<Condition> = conditions
        .extract_if(.., |known| ours.contains(&Some(&known.type_)))
        .collect();
    let ready = conditions.iter().find(|known| known.type_ == "Ready");
    let (Some(type_), Some(ready)) = (outlook.condition(), ready) else {
        return;
    };
    reported.retain(|known| known.type_ == type_);
    let update = ConditionUpdate {
        type_,
        holds: true,
        reason: &ready.reason,
        message: ready.message.clone(),
    };
    condition::set(&mut reported, update, generation, now);
    conditions.append(&mut reported);
}

#[cfg(test)]
mod tests {
    use firebolt_api::condition::{EngineClassCondition, EngineCondition, InstanceCondition};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn ready(conditions: &mut Vec<Condition>, message: &str) {
        let update = ConditionUpdate {
            type_: "Ready",
            holds: false,
            reason: "Because",
            message: message.to_owned(),
        };
        condition::set(conditions, update, Some(1), minute(0));
    }

    fn types(conditions: &[Condition]) -> Vec<&str> {
        conditions.iter().map(|condition| &*condition.type_).collect()
    }

    #[test]
    fn every_kind_names_the_conditions_alike() {
        let names: [[&str; 2]; 3] = [
            [EngineCondition::Reconciling.into(), EngineCondition::Stalled.into()],
            [InstanceCondition::Reconciling.into(), InstanceCondition::Stalled.into()],
            [
                EngineClassCondition::Reconciling.into(),
                EngineClassCondition::Stalled.into(),
            ],
        ];
        let reported = [Outlook::Reconciling, Outlook::Stalled].map(|outlook| outlook.condition().unwrap());
        assert_eq!(names, [reported; 3]);
    }

    #[test]
    fn at_most_one_is_present_and_it_is_the_last() {
        let mut conditions = Vec::new();
        ready(&mut conditions, "Wait.");
        report(&mut conditions, Outlook::Reconciling, Some(1), minute(0));
        assert_eq!(types(&conditions), ["Ready", "Reconciling"]);
        conditions.push(Condition {
            type_: "Other".to_owned(),
            ..conditions[0].clone()
        });
        report(&mut conditions, Outlook::Stalled, Some(1), minute(0));
        assert_eq!(types(&conditions), ["Ready", "Other", "Stalled"]);
        report(&mut conditions, Outlook::Settled, Some(1), minute(0));
        assert_eq!(types(&conditions), ["Ready", "Other"]);
    }

    #[test]
    fn it_repeats_the_reason_and_the_message_of_ready_since_it_became_true() {
        let mut conditions = Vec::new();
        ready(&mut conditions, "Wait.");
        report(&mut conditions, Outlook::Stalled, Some(1), minute(1));
        ready(&mut conditions, "Act.");
        report(&mut conditions, Outlook::Stalled, Some(2), minute(2));
        let stalled = &conditions[1];
        assert_eq!(
            (&*stalled.status, &*stalled.reason, &*stalled.message),
            ("True", "Because", "Act.")
        );
        assert_eq!(stalled.observed_generation, Some(2));
        assert_eq!(stalled.last_transition_time, Time(minute(1)));
    }
}
