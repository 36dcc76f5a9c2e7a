//! Objects that should be gone and are not: their deletion was rejected, or does not end. They never hold up a rollout, so
//! they would go unnoticed.

use std::time::Duration;

use firebolt_api::condition::EngineReason;
use jiff::SignedDuration;

use super::input::{Deletion, Input};

/// How long a deletion may take before it is reported: the grace period of a pod, and as much for its kubelet.
const PATIENCE: SignedDuration = SignedDuration::from_mins(2);
/// The maximum number of objects in a message.
const MOST_OBJECTS: usize = 3;

/// What prevents objects from being deleted, and what to do, if anything does.
pub(super) fn problem(input: &Input) -> Option<(EngineReason, String)> {
    let refused = input.limits.refused_deletes.iter().map(|refused| {
        format!(
            "{} cannot be deleted: {}. Remove what rejects the deletion; the operator tries again automatically.",
            refused.object, refused.cause
        )
    });
    let refused: Vec<String> = refused.collect();
    let reason = if refused.is_empty() {
        EngineReason::DeletionStuck
    } else {
        EngineReason::DeleteRefused
    };
    let stuck = input
        .observed
        .deletions
        .iter()
        .filter(|deletion| left(input, deletion).is_none())
        .map(stuck);
    let mut all: Vec<String> = refused.into_iter().chain(stuck).collect();
    let more = all.len().saturating_sub(MOST_OBJECTS);
    all.truncate(MOST_OBJECTS);
    if more > 0 {
        all.push(format!("The same holds for {more} more objects."));
    }
    (!all.is_empty()).then(|| (reason, all.join(" ")))
}

/// When something changes here without a change of an object.
pub(super) fn requeue_after(input: &Input) -> Option<Duration> {
    let retries = input.limits.refused_deletes.iter().map(|refused| refused.retry_after);
    let deadlines = input
        .observed
        .deletions
        .iter()
        .filter_map(|deletion| left(input, deletion));
    retries.chain(deadlines).min()
}

/// Time until a deletion counts as stuck; none if it does.
fn left(input: &Input, deletion: &Deletion) -> Option<Duration> {
    let left = PATIENCE - input.now.duration_since(deletion.since);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

fn stuck(deletion: &Deletion) -> String {
    let Deletion {
        object,
        since,
        finalizers,
    } = deletion;
    let remedy = if finalizers.is_empty() {
        "Look for pods that do not end and for finalizers.".to_owned()
    } else {
        format!(
            "It has the finalizer {}: remove it, or mend the controller that should.",
            finalizers.join(", ")
        )
    };
    format!("{object} has been marked for deletion at {since:.0} and still exists. {remedy}")
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Stable};

    use super::*;
    use crate::plan::engine::fixture::{Case, engine, now};
    use crate::plan::engine::{EngineWrite, RefusedDelete};

    fn condition(case: &Case) -> Option<(String, String)> {
        let status = case.plan().status.or(case.engine.status.clone()).unwrap();
        let found = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "CleanupBlocked");
        found.map(|condition| (condition.reason, condition.message))
    }

    fn deleted(case: &Case) -> Vec<String> {
        let writes = case.plan().writes;
        writes
            .iter()
            .filter_map(EngineWrite::deleted)
            .map(|object| object.name.clone())
            .collect()
    }

    /// The deletion of the headless Service of generation 0 was rejected.
    fn refused(case: Case, retry_after: u64) -> Case {
        case.but(|case| {
            case.refused_deletes = vec![RefusedDelete {
                object: "Service a-g0-hl".to_owned(),
                uid: "headless-0".to_owned(),
                cause: "a policy forbids it".to_owned(),
                retry_after: Duration::from_secs(retry_after),
            }];
        })
    }

    #[test]
    fn a_rejected_delete_is_reported_and_sent_again_later() {
        let leftovers = engine("a").complete(0).serving(2).at(Stable);
        let case = refused(leftovers.clone(), 3);
        let (reason, message) = condition(&case).unwrap();
        assert_eq!(reason, "DeleteRefused");
        assert_eq!(
            message,
            "Service a-g0-hl cannot be deleted: a policy forbids it. Remove what rejects the deletion; the operator \
             tries again automatically."
        );
        assert!(case.plan().events.iter().any(|event| event.reason == "DeleteRefused"));
        assert_eq!(deleted(&case), ["a-g0", "a-g0-config"]);
        let reported = case.reported();
        assert_eq!(reported.plan().requeue_after, Some(Duration::from_secs(3)));
        assert!(reported.plan().events.is_empty());
        assert_eq!(deleted(&refused(leftovers, 0)), ["a-g0", "a-g0-hl", "a-g0-config"]);
        let gone = reported.but(|case| case.refused_deletes.clear());
        assert_eq!(condition(&gone), None);
    }

    #[test]
    fn a_rejected_delete_does_not_hold_up_a_rollout() {
        let creating = engine("a").complete(0).serving(2).counting(Creating, 3, 2, None);
        let creates = |write: &EngineWrite| matches!(write, EngineWrite::CreateStatefulSet { generation: 3, .. });
        assert!(refused(creating, 3).plan().writes.iter().any(creates));
    }

    #[test]
    fn a_deletion_that_does_not_end_is_reported() {
        let deletion = |seconds: i64, finalizers: &[&str]| {
            let deletion = Deletion {
                object: "StatefulSet a-g0".to_owned(),
                since: now() - SignedDuration::from_secs(seconds),
                finalizers: finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect(),
            };
            engine("a")
                .serving(2)
                .at(Stable)
                .reported()
                .but(|case| case.observed.deletions = vec![deletion])
        };
        assert_eq!(condition(&deletion(119, &[])), None);
        assert_eq!(deletion(119, &[]).plan().requeue_after, Some(Duration::from_secs(1)));
        let (reason, message) = condition(&deletion(120, &[])).unwrap();
        assert_eq!(reason, "DeletionStuck");
        assert_eq!(
            message,
            "StatefulSet a-g0 has been marked for deletion at 2026-11-16T11:58:00Z and still exists. Look for pods \
             that do not end and for finalizers."
        );
        let (_, held) = condition(&deletion(120, &["example.com/hold"])).unwrap();
        assert!(
            held.contains("It has the finalizer example.com/hold: remove it"),
            "{held}"
        );
    }
}
