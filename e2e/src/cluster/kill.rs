//! Pods that end without a warning, in two ways: what they run is killed where it stands, or they are deleted at once.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

use super::operator::processes;
use super::scene::Scene;

impl Scene {
    /// Kills everything that runs in a pod. Kubernetes starts it again in the same pod.
    pub async fn kill_processes(&self, pod: &str) {
        let pod: Pod = self.get(pod).await;
        let running = processes(&pod);
        assert!(!running.is_empty(), "find the processes of {pod:?}");
        for process in running {
            match pidfd_send_signal(&process, Signal::KILL) {
                // The first process of a container takes the others along.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => panic!("kill a process of a pod: {error}"),
            }
        }
    }

    /// Deletes a pod without any time to end. Whatever it belongs to makes another.
    pub async fn kill_pod(&self, pod: &str) {
        let (api, at_once) = (self.api::<Pod>(), DeleteParams::default().grace_period(0));
        let deleted = api.delete(pod, &at_once).await;
        deleted.unwrap_or_else(|error| panic!("delete pod {pod}: {error}"));
    }
}
