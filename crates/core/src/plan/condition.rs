//! Conditions in a status.

use firebolt_api::condition::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The next value of a condition.
pub(crate) struct ConditionUpdate<'a> {
    pub type_: &'a str,
    pub holds: bool,
    pub reason: &'a str,
    pub message: String,
}

/// Removes the condition of this type: it is present only while it holds.
pub(crate) fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|known| known.type_ != type_);
}

/// Sets a condition and returns whether its reason or message changed. The last transition time changes only if the
/// status does.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    update: ConditionUpdate,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut next = Condition {
        type_: update.type_.to_owned(),
        status: if update.holds { "True" } else { "False" }.to_owned(),
        reason: update.reason.to_owned(),
        message: update.message,
        observed_generation,
        last_transition_time: Time(now),
    };
    let Some(before) = conditions.iter_mut().find(|known| known.type_ == next.type_) else {
        conditions.push(next);
        return true;
    };
    if before.status == next.status {
        next.last_transition_time = before.last_transition_time.clone();
    }
    let changed = before.reason != next.reason || before.message != next.message;
    *before = next;
    changed
}
