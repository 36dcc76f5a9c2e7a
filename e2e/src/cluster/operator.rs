//! The processes of the operator, to be stopped and killed where they stand: a deletion through Kubernetes would let them
//! go on for a moment of its own choice.

use std::fs;
use std::os::fd::OwnedFd;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::pods::is_ready;
use super::scene::Scene;

/// Where the operator is installed.
pub(super) const OPERATOR_NAMESPACE: &str = "firebolt-system";
/// What its pods are found by.
pub(super) const OPERATOR_LABELS: &str = "app.kubernetes.io/name=firebolt-operator";
const LEASE: &str = "firebolt-operator";
/// What `deploy/operator.yaml` asks for.
const REPLICAS: usize = 2;

/// All replicas of the operator, each ready.
pub struct Operator<'scene> {
    scene: &'scene Scene,
    pods: Vec<String>,
    processes: Vec<OwnedFd>,
}

impl<'scene> Operator<'scene> {
    /// Waits until all replicas are ready, and finds their processes on this machine.
    pub async fn running(scene: &'scene Scene) -> Self {
        let replicas = async || {
            let mut pods = all(scene).await?;
            pods.retain(is_ready);
            (pods.len() == REPLICAS).then_some(pods)
        };
        let pods = scene
            .eventually("all replicas of the operator are ready", replicas)
            .await;
        let processes: Vec<OwnedFd> = pods.iter().flat_map(processes).collect();
        assert!(processes.len() >= REPLICAS, "find the processes of {pods:?}");
        Self {
            scene,
            pods: pods.iter().map(ResourceExt::name_any).collect(),
            processes,
        }
    }

    /// Stops all processes as they are; [`Self::thaw`] lets them go on.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets the processes go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills all processes, and has Kubernetes start others at once.
    pub async fn kill(self) {
        self.signal(Signal::KILL);
        // The containers would be started again after pauses that get longer, and the dead hold a lease for 15 seconds
        // more. Neither is what a test of this tier is about.
        let now = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::namespaced(self.scene.client(), OPERATOR_NAMESPACE);
        for pod in &self.pods {
            pods.delete(pod, &now).await.expect("delete a dead pod");
        }
        let leases: Api<Lease> = Api::namespaced(self.scene.client(), OPERATOR_NAMESPACE);
        leases.delete(LEASE, &now).await.expect("delete the lease of the dead");
    }

    fn signal(&self, signal: Signal) {
        for process in &self.processes {
            pidfd_send_signal(process, signal).expect("signal a process of the operator");
        }
    }
}

async fn all(scene: &Scene) -> Option<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(scene.client(), OPERATOR_NAMESPACE);
    let listed = pods.list(&ListParams::default().labels(OPERATOR_LABELS)).await;
    Some(listed.ok()?.items)
}

/// Handles of the processes of a pod's containers. The control group of each is named after its container.
pub(super) fn processes(pod: &Pod) -> Vec<OwnedFd> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let containers: Vec<&str> = statuses
        .filter_map(|status| Some(status.container_id.as_deref()?.rsplit_once('/')?.1))
        .collect();
    let folders = fs::read_dir("/proc").expect("list the processes of this machine");
    let numbers = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let belongs = |number: &i32| {
        // A process that ends meanwhile has no group any more.
        let groups = fs::read_to_string(format!("/proc/{number}/cgroup")).unwrap_or_default();
        containers.iter().any(|container| groups.contains(container))
    };
    // The handle comes before the look at the group: should the number have gone to another process, that is not in it.
    let handles = numbers.filter(belongs).filter_map(|number| {
        let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
        belongs(&number).then_some(handle)
    });
    handles.collect()
}
