//! Conditions in a status.

use firebolt_api::condition::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a condition is to say.
pub(crate) struct Said<'a> {
    pub type_: &'a str,
    pub holds: bool,
    pub reason: &'a str,
    pub message: String,
}

/// Sets a condition and says whether reason or message are new. The time of its last transition moves only if it holds
/// where it did not, or the other way round.
pub(crate) fn set(
    conditions: &mut Vec<Condition>,
    said: Said,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut next = Condition {
        type_: said.type_.to_owned(),
        status: if said.holds { "True" } else { "False" }.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
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
    let news = before.reason != next.reason || before.message != next.message;
    *before = next;
    news
}
