//! Reads the status of pods.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition};

use crate::resolve::engine::ENGINE_CONTAINER;

/// How long after the end of its grace period a pod that is being deleted is certainly not running any more: its
/// kubelet has killed it, or its node is lost.
const AFTER_GRACE: SignedDuration = SignedDuration::from_secs(30);
/// The maximum number of causes in a message.
const MOST_CAUSES: usize = 3;
/// The maximum length of a message of Kubernetes that is quoted.
const LONGEST_MESSAGE: usize = 200;

/// Whether this StatefulSet controls the pod, by UID: a later StatefulSet may have the same name.
#[must_use]
pub fn is_of(pod: &Pod, stateful_set_uid: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|owner| owner.controller == Some(true) && owner.uid == stateful_set_uid)
}

/// Whether the pod is being deleted.
#[must_use]
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// The pods of a StatefulSet that are not being deleted: how many there are, and how many of them are ready.
pub fn count<'a>(stateful_set_uid: &str, pods: impl IntoIterator<Item = &'a Pod>) -> (i32, i32) {
    let (mut total, mut ready) = (0, 0);
    for pod in pods {
        if is_of(pod, stateful_set_uid) && !is_terminating(pod) {
            total += 1;
            ready += i32::from(is_ready(pod));
        }
    }
    (total, ready)
}

/// Whether the pod accepts queries: it runs, is not being deleted, and is ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let running = phase(pod) == "Running";
    running && !is_terminating(pod) && condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Whether the engine in the pod can be running queries. If it is certain that it cannot, there is nothing to wait for:
/// the container does not run, or the node is gone.
#[must_use]
pub fn may_run_queries(pod: &Pod, now: Timestamp) -> bool {
    let killed = pod
        .metadata
        .deletion_timestamp
        .as_ref()
        .is_some_and(|deadline| now.duration_since(deadline.0) > AFTER_GRACE);
    let node_gone = condition(pod, "DisruptionTarget")
        .is_some_and(|target| target.status == "True" && target.reason.as_deref() == Some("DeletionByPodGC"));
    let lost = reason(pod) == Some("NodeLost");
    let running = engine_state(pod).is_some_and(|state| state.running.is_some());
    running && phase(pod) == "Running" && !killed && !node_gone && !lost
}

/// Why pods are not ready, one sentence for each cause, in the order of the pods. Pods that are ready or starting
/// normally are left out.
#[must_use]
pub(crate) fn causes<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<String> {
    let mut found: Vec<(String, &str, usize)> = Vec::new();
    for pod in pods {
        let Some(why) = cause(pod) else { continue };
        match found.iter_mut().find(|(known, _, _)| *known == why) {
            Some((_, _, others)) => *others += 1,
            None => found.push((why, pod.metadata.name.as_deref().unwrap_or_default(), 0)),
        }
    }
    let sentence = |(why, first, others): (String, &str, usize)| match others {
        0 => format!("Pod {first} {why}."),
        others => format!("Pod {first} (and {others} more) {why}."),
    };
    found.into_iter().take(MOST_CAUSES).map(sentence).collect()
}

fn cause(pod: &Pod) -> Option<String> {
    if is_ready(pod) {
        return None;
    }
    unschedulable(pod).or_else(|| evicted(pod)).or_else(|| containers(pod))
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let scheduled = condition(pod, "PodScheduled").filter(|condition| condition.status == "False")?;
    let message = scheduled.message.as_deref().unwrap_or("no node fits");
    Some(format!("cannot be scheduled: {}", sentence(message)))
}

fn evicted(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|_| phase(pod) == "Failed")?;
    let reason = status.reason.as_deref().unwrap_or("no reason given");
    Some(format!("has failed: {}", sentence(reason)))
}

fn containers(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let groups = [&status.init_container_statuses, &status.container_statuses];
    groups.into_iter().flatten().flatten().find_map(container)
}

fn container(status: &ContainerStatus) -> Option<String> {
    let name = &status.name;
    let state = status.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        return match reason {
            // Every pod passes through both.
            "" | "ContainerCreating" | "PodInitializing" => None,
            "CrashLoopBackOff" => Some(format!(
                "is in a crash loop: container {name} {}, {} restarts",
                last_end(status),
                status.restart_count
            )),
            reason => {
                let message = waiting.message.as_deref().unwrap_or_default();
                Some(format!(
                    "cannot start container {name}: {}",
                    sentence(&format!("{reason}: {message}"))
                ))
            }
        };
    }
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    Some(format!(
        "is not running: container {name} exited with code {}",
        ended.exit_code
    ))
}

fn last_end(status: &ContainerStatus) -> String {
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let Some(last) = last else {
        return "exited".to_owned();
    };
    let message = last
        .message
        .as_deref()
        .map(str::trim)
        .filter(|message| !message.is_empty());
    match (last.reason.as_deref(), message) {
        (_, Some(message)) => format!("exited with code {} ({})", last.exit_code, sentence(message)),
        (Some(reason), None) if reason != "Error" => format!("exited with code {} ({reason})", last.exit_code),
        (_, None) => format!("exited with code {}", last.exit_code),
    }
}

fn engine_state(pod: &Pod) -> Option<&ContainerState> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let engine = statuses.iter().find(|status| status.name == ENGINE_CONTAINER)?;
    engine.state.as_ref()
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn reason(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.reason.as_deref()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// A message as part of a sentence: one line of bounded length, without its own end.
fn sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(['.', ':', ' ']);
    match line.char_indices().nth(LONGEST_MESSAGE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn pod(status: &Value) -> Pod {
        let owner = |uid: &str, controller: bool| json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid, "controller": controller });
        let metadata = json!({ "name": "a-g0-0", "ownerReferences": [owner("u", true), owner("v", false)] });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    fn running() -> Value {
        json!({
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{ "name": "engine", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": { "running": {} } }],
        })
    }

    fn with(change: impl FnOnce(&mut Value)) -> Value {
        let mut status = running();
        change(&mut status);
        status
    }

    fn going(deadline: &str) -> Pod {
        let mut pod = pod(&running());
        pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!(deadline)).unwrap());
        pod
    }

    #[test]
    fn a_pod_is_controlled_by_the_owner_with_the_same_uid() {
        assert!(is_of(&pod(&running()), "u"));
        assert!(!is_of(&pod(&running()), "v"));
        assert!(!is_of(&pod(&running()), "s"));
    }

    #[rstest]
    #[case::ready(running(), true)]
    #[case::unready(with(|status| status["conditions"][0]["status"] = json!("False")), false)]
    #[case::unknown(with(|status| status["conditions"] = json!([])), false)]
    #[case::pending(with(|status| status["phase"] = json!("Pending")), false)]
    #[case::empty(json!({}), false)]
    fn a_pod_is_ready_when_it_runs_and_says_so(#[case] status: Value, #[case] ready: bool) {
        assert_eq!(is_ready(&pod(&status)), ready);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_ready() {
        assert!(!is_ready(&going("2026-11-16T12:00:30Z")));
    }

    #[rstest]
    #[case::running(pod(&running()), true)]
    #[case::unready_but_running(pod(&with(|status| status["conditions"][0]["status"] = json!("False"))), true)]
    #[case::waiting(pod(&with(|status| status["containerStatuses"][0]["state"] = json!({ "waiting": {} }))), false)]
    #[case::another_container(pod(&with(|status| status["containerStatuses"][0]["name"] = json!("sidecar"))), false)]
    #[case::finished(pod(&with(|status| status["phase"] = json!("Failed"))), false)]
    #[case::node_lost(pod(&with(|status| status["reason"] = json!("NodeLost"))), false)]
    #[case::node_gone(pod(&with(|status| status["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC" }]))), false)]
    #[case::preempted(pod(&with(|status| status["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }]))), true)]
    #[case::finishing(going("2026-11-16T12:00:30Z"), true)]
    #[case::just_over(going("2026-11-16T11:59:40Z"), true)]
    #[case::killed(going("2026-11-16T11:59:00Z"), false)]
    fn only_a_pod_that_certainly_does_not_run_is_not_waited_for(#[case] pod: Pod, #[case] may: bool) {
        assert_eq!(may_run_queries(&pod, now()), may);
    }

    fn waiting(state: &Value) -> Value {
        json!({ "phase": "Pending", "containerStatuses": [{
            "name": "engine", "ready": false, "restartCount": 7, "image": "", "imageID": "", "state": { "waiting": state },
            "lastState": { "terminated": { "exitCode": 3, "reason": "Error", "message": "no such\nfile. " } },
        }] })
    }

    #[rstest]
    #[case::ready(running(), None)]
    #[case::on_its_way(waiting(&json!({ "reason": "ContainerCreating" })), None)]
    #[case::silent(json!({ "phase": "Pending" }), None)]
    #[case::image(
        waiting(&json!({ "reason": "ImagePullBackOff", "message": "Back-off pulling image \"x:1\"." })),
        Some("Pod a-g0-0 cannot start container engine: ImagePullBackOff: Back-off pulling image \"x:1\".")
    )]
    #[case::crash(
        waiting(&json!({ "reason": "CrashLoopBackOff", "message": "back-off 5m0s" })),
        Some("Pod a-g0-0 is in a crash loop: container engine exited with code 3 (no such file), 7 restarts.")
    )]
    #[case::unschedulable(
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available." }] }),
        Some("Pod a-g0-0 cannot be scheduled: 0/3 nodes are available.")
    )]
    #[case::evicted(json!({ "phase": "Failed", "reason": "Evicted" }), Some("Pod a-g0-0 has failed: Evicted."))]
    #[case::down(
        json!({ "phase": "Running", "containerStatuses": [{ "name": "engine", "ready": false, "restartCount": 1, "image": "", "imageID": "",
            "state": { "terminated": { "exitCode": 137 } } }] }),
        Some("Pod a-g0-0 is not running: container engine exited with code 137.")
    )]
    fn a_pod_says_why_it_is_not_ready(#[case] status: Value, #[case] expected: Option<&str>) {
        assert_eq!(causes([&pod(&status)]), expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn pods_with_the_same_cause_are_counted_and_not_repeated() {
        let image = waiting(&json!({ "reason": "ErrImagePull", "message": "no such image" }));
        let crash = waiting(&json!({ "reason": "CrashLoopBackOff" }));
        let pods = [pod(&image), pod(&crash), pod(&image), pod(&running()), pod(&image)];
        let reported = causes(&pods);
        assert_eq!(reported.len(), 2);
        assert_eq!(
            reported[0],
            "Pod a-g0-0 (and 2 more) cannot start container engine: ErrImagePull: no such image."
        );
        assert!(reported[1].starts_with("Pod a-g0-0 is in a crash loop"), "{reported:?}");
    }

    #[test]
    fn an_init_container_is_named_before_those_that_wait_for_it() {
        let mut status = waiting(&json!({ "reason": "PodInitializing" }));
        status["initContainerStatuses"] = json!([{ "name": "fetch", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": { "waiting": { "reason": "CreateContainerConfigError", "message": "secret \"s\" not found" } } }]);
        let expected = "Pod a-g0-0 cannot start container fetch: CreateContainerConfigError: secret \"s\" not found.";
        assert_eq!(causes([&pod(&status)]), [expected]);
    }

    #[test]
    fn a_message_of_any_length_stays_one_line() {
        let cause = cause(&pod(&waiting(
            &json!({ "reason": "ErrImagePull", "message": "ü\n".repeat(9_999) }),
        )))
        .unwrap();
        assert!(cause.chars().count() < 300 && !cause.contains('\n'), "{cause}");
    }
}
