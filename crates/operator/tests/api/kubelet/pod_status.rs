//! The status that a kubelet reports for each behaviour of a pod.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The address in the status of the node.
pub(crate) const HOST_ADDRESS: &str = "127.0.0.1";

/// How a pod behaves. A failure is one of the first container; the others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Runs and is ready; terminates at once when it is deleted.
    Ready,
    /// Is bound to the node, and no container starts.
    Pending,
    /// Runs, and is not ready.
    Unready,
    /// The image has just failed to be pulled.
    ErrImagePull,
    /// The image failed to be pulled, and the pull is retried.
    ImagePullBackOff,
    /// Exits with this code each time it is started.
    CrashLoop {
        /// What the process exits with.
        exit_code: i32,
    },
    /// Runs and is ready, also while it is terminating.
    HoldTermination,
}

impl Behaviour {
    /// Whether the first container runs, so that its ports are served.
    pub(crate) fn runs(self) -> bool {
        match self {
            Self::Ready | Self::Unready | Self::HoldTermination => true,
            Self::Pending | Self::ErrImagePull | Self::ImagePullBackOff | Self::CrashLoop { .. } => false,
        }
    }
}

/// The values that do not change while a pod is on the node.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub address: Ipv4Addr,
    pub started: Time,
}

/// The state of a container.
enum ContainerFate {
    Running {
        ready: bool,
    },
    Waiting {
        reason: &'static str,
        message: Option<String>,
    },
    Crashing {
        exit_code: i32,
        message: String,
    },
    Finished,
}

/// The status that the pod should have. `now` is the time of whatever changes.
pub(crate) fn desired(pod: &Pod, behaviour: Behaviour, life: &Life, now: &Time) -> PodStatus {
    let spec = pod.spec.clone().unwrap_or_default();
    let started = behaviour != Behaviour::Pending;
    let main = spec.containers.first().map(|container| container.name.clone());
    let status = |container: &Container| {
        let fate = fate(pod, container, behaviour, main.as_ref() == Some(&container.name));
        container_status(container, &fate, life)
    };
    let containers: Vec<ContainerStatus> = spec.containers.iter().map(status).collect();
    let init = spec.init_containers.unwrap_or_default();
    let init = init.iter().map(|container| init_status(container, started, life));
    let ready = containers.iter().all(|container| container.ready);
    let pulled = containers.iter().all(|container| container.started.is_some());
    PodStatus {
        observed_generation: pod.metadata.generation,
        phase: Some(if pulled { "Running" } else { "Pending" }.to_owned()),
        conditions: Some(conditions(pod, started, ready, now)),
        host_ip: Some(HOST_ADDRESS.to_owned()),
        host_ips: Some(vec![HostIP {
            ip: HOST_ADDRESS.to_owned(),
        }]),
        pod_ip: started.then(|| life.address.to_string()),
        pod_ips: started.then(|| {
            vec![PodIP {
                ip: life.address.to_string(),
            }]
        }),
        start_time: Some(life.started.clone()),
        container_statuses: Some(containers),
        init_container_statuses: Some(init.collect()).filter(|init: &Vec<_>| !init.is_empty()),
        ..PodStatus::default()
    }
}

/// Whether the status of the pod already contains this.
pub(crate) fn matches(live: &PodStatus, desired: &PodStatus) -> bool {
    // Others write the rest of a condition too: the API server notes which generation it is about.
    let is_live = |desired: &PodCondition| {
        let mut conditions = live.conditions.iter().flatten();
        let key = |it: &PodCondition| (it.type_.clone(), it.status.clone(), it.reason.clone());
        conditions.any(|live| key(live) == key(desired))
    };
    live.phase == desired.phase
        && live.observed_generation == desired.observed_generation
        && (live.pod_ip == desired.pod_ip || desired.pod_ip.is_none())
        && live.container_statuses == desired.container_statuses
        && live.init_container_statuses == desired.init_container_statuses
        && desired.conditions.iter().flatten().all(is_live)
}

fn fate(pod: &Pod, container: &Container, behaviour: Behaviour, is_main: bool) -> ContainerFate {
    let image = container.image.clone().unwrap_or_default();
    let not_found = format!("failed to resolve reference \"{image}\": not found");
    let name = pod.metadata.name.clone().unwrap_or_default();
    match behaviour {
        Behaviour::Pending => ContainerFate::Waiting {
            reason: "ContainerCreating",
            message: None,
        },
        Behaviour::ErrImagePull if is_main => ContainerFate::Waiting {
            reason: "ErrImagePull",
            message: Some(not_found),
        },
        Behaviour::ImagePullBackOff if is_main => ContainerFate::Waiting {
            reason: "ImagePullBackOff",
            message: Some(format!("Back-off pulling image \"{image}\": ErrImagePull: {not_found}")),
        },
        Behaviour::CrashLoop { exit_code } if is_main => ContainerFate::Crashing {
            exit_code,
            message: format!("back-off 10s restarting failed container={} pod={name}", container.name),
        },
        Behaviour::Ready
        | Behaviour::HoldTermination
        | Behaviour::ErrImagePull
        | Behaviour::ImagePullBackOff
        | Behaviour::CrashLoop { .. } => ContainerFate::Running { ready: true },
        Behaviour::Unready => ContainerFate::Running { ready: !is_main },
    }
}

fn init_status(container: &Container, started: bool, life: &Life) -> ContainerStatus {
    let stays = container.restart_policy.as_deref() == Some("Always");
    let fate = match (started, stays) {
        (false, _) => ContainerFate::Waiting {
            reason: "PodInitializing",
            message: None,
        },
        (true, true) => ContainerFate::Running { ready: true },
        (true, false) => ContainerFate::Finished,
    };
    container_status(container, &fate, life)
}

fn container_status(container: &Container, fate: &ContainerFate, life: &Life) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let id = format!("containerd://{}-{}", life.address, container.name);
    let waiting = |reason: &str, message: &Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: message.clone(),
        }),
        ..ContainerState::default()
    };
    let base = ContainerStatus {
        name: container.name.clone(),
        image: image.clone(),
        // The API server stores it even if it is empty.
        last_state: Some(ContainerState::default()),
        ..ContainerStatus::default()
    };
    let pulled = ContainerStatus {
        image_id: format!("{image}@sha256:{}", "0".repeat(64)),
        container_id: Some(id.clone()),
        ..base.clone()
    };
    match fate {
        ContainerFate::Running { ready } => ContainerStatus {
            ready: *ready,
            started: Some(true),
            state: Some(ContainerState {
                running: Some(ContainerStateRunning {
                    started_at: Some(life.started.clone()),
                }),
                ..ContainerState::default()
            }),
            ..pulled
        },
        ContainerFate::Waiting { reason, message } => ContainerStatus {
            state: Some(waiting(reason, message)),
            ..base
        },
        ContainerFate::Crashing { exit_code, message } => ContainerStatus {
            restart_count: 3,
            started: Some(false),
            state: Some(waiting("CrashLoopBackOff", &Some(message.clone()))),
            last_state: Some(terminated(*exit_code, id, life)),
            ..pulled
        },
        ContainerFate::Finished => ContainerStatus {
            ready: true,
            started: Some(false),
            state: Some(terminated(0, id, life)),
            ..pulled
        },
    }
}

fn terminated(exit_code: i32, container_id: String, life: &Life) -> ContainerState {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code,
            reason: Some(reason.to_owned()),
            started_at: Some(life.started.clone()),
            finished_at: Some(life.started.clone()),
            container_id: Some(container_id),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

fn conditions(pod: &Pod, started: bool, ready: bool, now: &Time) -> Vec<PodCondition> {
    let before = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = |type_: &str, holds: bool, reason: Option<&str>| {
        let status = if holds { "True" } else { "False" };
        let before = before.and_then(|before| before.iter().find(|condition| condition.type_ == type_));
        let unchanged = before.filter(|before| before.status == status);
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.filter(|_| !holds).map(str::to_owned),
            last_transition_time: unchanged.map_or_else(|| Some(now.clone()), |it| it.last_transition_time.clone()),
            ..PodCondition::default()
        }
    };
    vec![
        condition("PodScheduled", true, None),
        condition("PodReadyToStartContainers", started, None),
        condition("Initialized", started, Some("ContainersNotInitialized")),
        condition("ContainersReady", ready, Some("ContainersNotReady")),
        condition("Ready", ready, Some("ContainersNotReady")),
    ]
}
