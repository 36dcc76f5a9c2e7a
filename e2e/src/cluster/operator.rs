//! The processes of the operator, which tests stop and kill directly: a deletion through Kubernetes would let them run
//! for a while.

use std::fs;
use std::os::fd::OwnedFd;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::installation::{LEASE, OPERATOR_LABELS, OPERATOR_NAMESPACE, REPLICAS};
use super::pods::is_ready;
use super::testenv::TestEnv;

/// All replicas of the operator, each ready.
pub struct Operator<'env> {
    env: &'env TestEnv,
    pods: Vec<String>,
    processes: Vec<OwnedFd>,
}

impl<'env> Operator<'env> {
    /// Waits until all replicas are ready, and finds their processes on this machine.
    pub async fn running(env: &'env TestEnv) -> Self {
        let replicas = async || {
            let mut pods = all(env).await?;
            pods.retain(is_ready);
            (pods.len() == REPLICAS).then_some(pods)
        };
        let pods = env.eventually("all replicas of the operator are ready", replicas).await;
        let processes: Vec<OwnedFd> = pods.iter().flat_map(processes).collect();
        assert!(processes.len() >= REPLICAS, "find the processes of {pods:?}");
        Self {
            env,
            pods: pods.iter().map(ResourceExt::name_any).collect(),
            processes,
        }
    }

    /// Stops all processes until they are [killed](Self::kill).
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Kills all processes, and makes Kubernetes start others immediately.
    pub async fn kill(self) {
        self.signal(Signal::KILL);
        // The containers would be started again after pauses that get longer, and the dead hold a lease for 15 seconds
        // more. Neither is what a test of this tier is about.
        let now = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::namespaced(self.env.client(), OPERATOR_NAMESPACE);
        for pod in &self.pods {
            pods.delete(pod, &now).await.expect("delete a dead pod");
        }
        let leases: Api<Lease> = Api::namespaced(self.env.client(), OPERATOR_NAMESPACE);
        leases.delete(LEASE, &now).await.expect("delete the lease of the dead");
    }

    fn signal(&self, signal: Signal) {
        for process in &self.processes {
            pidfd_send_signal(process, signal).expect("signal a process of the operator");
        }
    }
}

async fn all(env: &TestEnv) -> Option<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(env.client(), OPERATOR_NAMESPACE);
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
        // A process that has exited in the meantime has no group any more.
        let groups = fs::read_to_string(format!("/proc/{number}/cgroup")).unwrap_or_default();
        containers.iter().any(|container| groups.contains(container))
    };
    // The handle is opened before the group is read: if the process ID has been reused, that process is not in the
    // group.
    let handles = numbers.filter(belongs).filter_map(|number| {
        let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
        belongs(&number).then_some(handle)
    });
    handles.collect()
}
