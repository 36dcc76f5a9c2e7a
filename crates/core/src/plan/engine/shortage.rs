//! Pods that are missing: their StatefulSet exists, and the StatefulSet controller has not created them.
//!
//! The reason is in its events. Events are not watched, since they are many and of use only here: they are listed every so
//! often while pods are missing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::input::Input;

/// How long the StatefulSet controller gets to create the pods before its events are listed.
const PATIENCE: SignedDuration = SignedDuration::from_secs(2);
/// How often events are listed while pods are missing.
pub const EVENTS_INTERVAL: Duration = Duration::from_secs(10);

/// When the events of a StatefulSet that lacks pods are to be listed; none if it is time.
pub(crate) fn events_due(created: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = PATIENCE - now.duration_since(created);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// When to list events if pods are missing. Nothing else may trigger a reconcile once there are any.
pub(super) fn requeue_after(input: &Input) -> Option<Duration> {
    let current = input.engine.status.as_ref()?.current_generation;
    let seen = input.observed.generations.get(&current)?;
    let set = seen.live_set().filter(|set| seen.pods.total < set.replicas)?;
    Some(events_due(set.created, input.now).unwrap_or(EVENTS_INTERVAL))
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::Creating;

    use super::*;
    use crate::plan::engine::fixture::{Case, engine, now};

    fn short(pods: i32, age: i64) -> Case {
        let case = engine("a").generation(0, 0).at(Creating);
        let aged = case.set(0, |set| set.created = now() - SignedDuration::from_millis(age));
        aged.but(|case| case.observed.generations.get_mut(&0).unwrap().pods.total = pods)
    }

    #[test]
    fn events_are_listed_once_there_was_time_to_create_the_pods() {
        let requeue_after = |case: Case| case.reported().plan().requeue_after;
        assert_eq!(requeue_after(short(1, 500)), Some(Duration::from_millis(1500)));
        assert_eq!(requeue_after(short(1, 2_000)), Some(EVENTS_INTERVAL));
        assert!(events_due(now(), now() + SignedDuration::from_millis(1_999)).is_some());
        assert!(events_due(now(), now() + SignedDuration::from_millis(2_000)).is_none());
        let deadline = Duration::from_mins(15) - Duration::from_secs(9);
        assert_eq!(requeue_after(short(2, 9_000)), Some(deadline), "all pods exist");
    }
}
