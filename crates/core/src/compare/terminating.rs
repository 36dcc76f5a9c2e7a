//! Pods that are being deleted.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;

use super::name_of;
use crate::plan::engine::TerminatingPod;
use crate::pods;

/// Of the pods of a StatefulSet that are terminating, the one whose grace period ends first.
pub(super) fn first_to_end(stateful_set_uid: &str, all: &[Pod]) -> Option<TerminatingPod> {
    let own = all.iter().filter(|pod| pods::is_of(pod, stateful_set_uid));
    own.filter_map(terminating)
        .min_by(|one, other| (one.deadline, &one.name).cmp(&(other.deadline, &other.name)))
}

fn terminating(pod: &Pod) -> Option<TerminatingPod> {
    // Kubernetes sets it to the end of the grace period.
    let deadline = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    Some(TerminatingPod {
        name: name_of(pod).to_owned(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        since: deadline
            .checked_sub(SignedDuration::from_secs(grace))
            .unwrap_or(deadline),
        deadline,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, owner: &str, deadline: Option<&str>) -> Pod {
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": owner, "controller": true });
        let mut metadata = json!({ "name": name, "ownerReferences": [owner] });
        if let Some(deadline) = deadline {
            metadata["deletionTimestamp"] = json!(deadline);
            metadata["deletionGracePeriodSeconds"] = json!(60);
        }
        let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n2", "containers": [] } });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn of_several_terminating_pods_the_first_one_to_end_is_named() {
        let all = [
            pod("a-g0-0", "u", None),
            pod("a-g0-1", "u", Some("2026-11-16T12:02:00Z")),
            pod("a-g0-2", "u", Some("2026-11-16T12:01:00Z")),
            pod("a-g0-3", "another", Some("2026-11-16T12:00:00Z")),
        ];
        let found = first_to_end("u", &all).unwrap();
        assert_eq!((found.name.as_str(), found.node.as_deref()), ("a-g0-2", Some("n2")));
        assert_eq!(found.since.to_string(), "2026-11-16T12:00:00Z");
        assert_eq!(found.deadline.to_string(), "2026-11-16T12:01:00Z");
        assert_eq!(first_to_end("v", &all), None);
    }
}
