//! Objects, events and logs of a test environment, printed when its test fails.

use std::fmt::Write as _;

use localkube::Cluster;
use serde_json::Value;

use super::installation::{OPERATOR_LABELS, OPERATOR_NAMESPACE};

/// Lines of a log that are shown.
const TAIL: &str = "--tail=60";

/// Prints objects, events and logs of a namespace, and the logs of the operator, or why they cannot be read.
pub(super) fn print(cluster: &Cluster, namespace: &str) {
    let ask = |arguments: &[&str]| {
        let answer = cluster.kubectl(&[arguments, &["-n", namespace]].concat());
        answer.unwrap_or_else(|error| format!("{error}\n"))
    };
    let mut text = format!("what there is to see of namespace {namespace}:\n");
    let mut part = |title: &str, content: &str| {
        let _infallible = writeln!(text, "--- {title}\n{}", content.trim_end());
    };
    let kinds = "fireboltinstances,fireboltengineclasses,fireboltengines";
    part("objects", &ask(&["get", kinds, "-o", "yaml"]));
    let parts = "statefulsets,deployments,services,endpointslices,persistentvolumeclaims";
    part("what belongs to them", &ask(&["get", parts, "-o", "wide"]));
    let pods = ask(&["get", "pods", "-o", "json"]);
    let pods: Value = serde_json::from_str(&pods).unwrap_or(Value::String(pods));
    part("pods", &describe_pods(&pods));
    let columns = "custom-columns=AT:.metadata.creationTimestamp,ABOUT:.involvedObject.name,TYPE:.type,REASON:.reason,MESSAGE:.message";
    part(
        "events",
        &ask(&["get", "events", "--sort-by=.metadata.creationTimestamp", "-o", columns]),
    );
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let logs = ["logs", name, "--all-containers", "--prefix", TAIL];
        part(&format!("log of pod {name}"), &ask(&logs));
        if restarted(pod) {
            let title = format!("log of pod {name} before its restart");
            part(&title, &ask(&[&logs[..], &["--previous"]].concat()));
        }
    }
    let operator = [
        "logs",
        "-n",
        OPERATOR_NAMESPACE,
        "-l",
        OPERATOR_LABELS,
        "--prefix",
        "--tail=150",
    ];
    part(
        "log of the operator",
        &cluster.kubectl(&operator).unwrap_or_else(|error| error.to_string()),
    );
    eprintln!("{text}");
}

/// A line for each pod and each of its containers.
fn describe_pods(pods: &Value) -> String {
    let Some(items) = pods["items"].as_array() else {
        return pods.to_string();
    };
    let mut text = String::new();
    for pod in items {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let going = if metadata["deletionTimestamp"].is_null() {
            ""
        } else {
            ", being deleted"
        };
        let _infallible = writeln!(
            text,
            "{}: {}{going} at {}",
            text_or_dash(&metadata["name"]),
            text_or_dash(&status["phase"]),
            text_or_dash(&status["podIP"])
        );
        for container in containers(pod) {
            let _infallible = writeln!(
                text,
                "  {}: ready {}, restarts {}, {}",
                text_or_dash(&container["name"]),
                container["ready"],
                container["restartCount"],
                container["state"]
            );
        }
        let conditions = status["conditions"].as_array().into_iter().flatten();
        for condition in conditions.filter(|condition| condition["status"] != "True") {
            let (kind, message) = (text_or_dash(&condition["type"]), text_or_dash(&condition["message"]));
            let _infallible = writeln!(text, "  not {kind}: {message}");
        }
    }
    text
}

fn restarted(pod: &Value) -> bool {
    containers(pod).any(|container| container["restartCount"].as_i64() > Some(0))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let of = |kind: &str| pod["status"][kind].as_array().into_iter().flatten();
    of("initContainerStatuses").chain(of("containerStatuses"))
}

fn text_or_dash(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_described_with_the_states_of_its_containers() {
        let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        let container = json!({ "name": "engine", "ready": false, "restartCount": 2, "state": waiting });
        let conditions = json!([
            { "type": "Ready", "status": "False", "message": "containers with unready status: [engine]" },
            { "type": "PodScheduled", "status": "True" },
        ]);
        let pod = json!({
            "metadata": { "name": "a-g0-0", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "status": {
                "phase": "Running", "podIP": "10.244.0.9", "containerStatuses": [container], "conditions": conditions,
            },
        });
        let expected = "a-g0-0: Running, being deleted at 10.244.0.9\n  engine: ready false, restarts 2, \
                        {\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}\n  \
                        not Ready: containers with unready status: [engine]\n";
        assert_eq!(describe_pods(&json!({ "items": [pod] })), expected);
        assert!(restarted(&pod));
    }

    #[test]
    fn pods_that_cannot_be_had_are_no_reason_to_fail() {
        assert_eq!(describe_pods(&json!("connection refused")), "\"connection refused\"");
    }
}
