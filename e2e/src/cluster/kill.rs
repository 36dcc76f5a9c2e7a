//! Pods that fail without warning: their processes are killed, or they are deleted without a grace period.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use super::operator::processes;
use super::testenv::TestEnv;

impl TestEnv {
    /// Kills all processes of a pod. The kubelet restarts its containers.
    pub async fn kill_processes(&self, pod: &str) {
        let pod: Pod = self.get(pod).await;
        let running = processes(&pod);
        assert!(!running.is_empty(), "find the processes of {pod:?}");
        for process in running {
            match pidfd_send_signal(&process, Signal::KILL) {
                // The other processes of a container end with the first one.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => panic!("kill a process of a pod: {error}"),
            }
        }
    }

    /// Deletes a pod without a grace period. Its controller creates another one.
    pub async fn kill_pod(&self, pod: &str) {
        let (api, at_once) = (self.api::<Pod>(), DeleteParams::default().grace_period(0));
        let deleted = api.delete(pod, &at_once).await;
        deleted.unwrap_or_else(|error| panic!("delete pod {pod}: {error}"));
    }
}
