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

fn pending(change: impl FnOnce(&mut Value)) -> Value {
    let mut engine = json!({ "name": "engine", "ready": false, "restartCount": 0, "image": "", "imageID": "",
        "state": { "waiting": { "reason": "ContainerCreating" } }, "lastState": {} });
    change(&mut engine);
    json!({ "phase": "Pending", "containerStatuses": [engine] })
}

#[rstest]
#[case::unscheduled(json!({ "phase": "Pending" }), true)]
#[case::creating(pending(|_| ()), true)]
#[case::without_an_image(pending(|engine| engine["state"]["waiting"]["reason"] = json!("ImagePullBackOff")), true)]
#[case::restarted(pending(|engine| engine["restartCount"] = json!(1)), false)]
#[case::ran_before(pending(|engine| engine["lastState"] = json!({ "terminated": { "exitCode": 255 } })), false)]
#[case::has_ended(pending(|engine| engine["state"] = json!({ "terminated": { "exitCode": 1 } })), false)]
#[case::beside_one_that_waits(pending(|engine| engine["state"] = json!({ "running": {} })), false)]
#[case::running(running(), false)]
#[case::evicted(json!({ "phase": "Failed", "reason": "Evicted" }), false)]
#[case::unknown(json!({}), false)]
fn only_an_engine_that_certainly_never_ran_was_never_started(#[case] status: Value, #[case] never: bool) {
    assert_eq!(never_started(&pod(&status)), never);
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

/// A pod whose engine was killed for its memory and is in this state now.
fn killed(state: &Value, limit: Option<&str>) -> Pod {
    let engine = json!({ "name": "engine", "ready": false, "restartCount": 3, "image": "", "imageID": "", "state": state,
        "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } });
    let mut pod = pod(&json!({ "phase": "Running", "containerStatuses": [engine] }));
    let resources = limit.map(|limit| json!({ "limits": { "cpu": "1", "memory": limit } }));
    let container = json!({ "name": "engine", "resources": resources.unwrap_or_default() });
    pod.spec = Some(serde_json::from_value(json!({ "containers": [container] })).unwrap());
    pod
}

#[rstest]
#[case::in_a_crash_loop(json!({ "waiting": { "reason": "CrashLoopBackOff" } }))]
#[case::has_just_ended(json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } }))]
#[case::runs_again(json!({ "running": {} }))]
fn a_container_that_was_killed_for_its_memory_says_so(#[case] state: Value) {
    let expected = "Pod a-g0-0 ran out of memory: container engine was killed (OOMKilled) at its limit of 2Gi, 3 restarts; raise \
                    resources.limits.memory of container engine in spec.template of the engine or its class, or reduce the \
                    memory that it needs.";
    assert_eq!(causes([&killed(&state, Some("2Gi"))]), [expected]);
    let unlimited = causes([&killed(&state, None)]).remove(0);
    let parts = [
        "container engine, which has no memory limit, was killed (OOMKilled) because its node ran out of memory",
        "set resources.requests.memory of container engine",
    ];
    assert!(parts.iter().all(|part| unlimited.contains(part)), "{unlimited}");
}

#[test]
fn an_old_kill_for_memory_is_not_the_cause_of_what_happened_since() {
    let ended_otherwise = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    let expected = "Pod a-g0-0 is not running: container engine exited with code 1.";
    assert_eq!(causes([&killed(&ended_otherwise, Some("2Gi"))]), [expected]);
    let mut unready = killed(&json!({ "running": {} }), Some("2Gi"));
    unready.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = true;
    assert!(causes([&unready]).is_empty(), "another condition of the pod is missing");
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
