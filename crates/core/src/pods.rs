//! Reads the status of pods.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition};

use crate::resolve::engine::ENGINE_CONTAINER;

/// How long after the end of its grace period a pod that is being deleted is certainly not running any more: its
/// kubelet has killed it, or its node is lost.
pub(crate) const AFTER_GRACE: SignedDuration = SignedDuration::from_secs(30);
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

/// Whether the engine in the pod was never started, so that it cannot have had a query. A container that has run before
/// and is restarting may have had some.
#[must_use]
pub fn never_started(pod: &Pod) -> bool {
    let is_new = |engine: &ContainerStatus| {
        let waits = engine.state.as_ref().is_some_and(|state| state.waiting.is_some());
        let has_ended = engine
            .last_state
            .as_ref()
            .is_some_and(|state| state.terminated.is_some());
        waits && !has_ended && engine.restart_count == 0
    };
    phase(pod) == "Pending" && engine_status(pod).is_none_or(is_new)
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
    let mut statuses = groups.into_iter().flatten().flatten();
    statuses.find_map(|status| out_of_memory(pod, status).or_else(|| container(status)))
}

/// The latest end of the container was that it was killed for its memory.
#[must_use]
pub fn is_oom_killed(status: &ContainerStatus) -> bool {
    let mut latest_first = [&status.state, &status.last_state].into_iter().flatten();
    let end = latest_first.find_map(|state| state.terminated.as_ref());
    end.is_some_and(|ended| ended.reason.as_deref() == Some("OOMKilled"))
}

/// Also of a container that runs again: until it is ready, that it was killed is all there is to say about it.
fn out_of_memory(pod: &Pod, status: &ContainerStatus) -> Option<String> {
    if status.ready || !is_oom_killed(status) {
        return None;
    }
    let (name, restarts) = (&status.name, restarts(status));
    Some(match memory_limit(pod, name) {
        Some(limit) => format!(
            "ran out of memory: container {name} was killed (OOMKilled) at its limit of {limit}, {restarts}; raise \
             resources.limits.memory of container {name} in spec.template of the engine or its class, or reduce the \
             memory that it needs"
        ),
        None => format!(
            "ran out of memory: container {name}, which has no memory limit, was killed (OOMKilled) because its node \
             ran out of memory, {restarts}; set resources.requests.memory of container {name} in spec.template of the \
             engine or its class to what it needs, so that it gets a node with enough memory"
        ),
    })
}

fn memory_limit<'a>(pod: &'a Pod, container: &str) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let found = all.find(|found| found.name == container)?;
    let limits = found.resources.as_ref()?.limits.as_ref()?;
    limits.get("memory").map(|limit| limit.0.as_str())
}

fn restarts(status: &ContainerStatus) -> String {
    match status.restart_count {
        1 => "1 restart".to_owned(),
        restarts => format!("{restarts} restarts"),
    }
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
                "is in a crash loop: container {name} {}, {}",
                last_end(status),
                restarts(status)
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
    engine_status(pod)?.state.as_ref()
}

fn engine_status(pod: &Pod) -> Option<&ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == ENGINE_CONTAINER)
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
mod tests;
