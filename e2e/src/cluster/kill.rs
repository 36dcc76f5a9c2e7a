//! Pods that end without a warning, in two ways: what they run is killed where it stands, or they are deleted in a hurry.

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

use super::operator::processes;
use super::scene::Scene;

/// As long as Kubernetes lets a pod that is to be gone at once. With none at all it only forgets the pod, whose processes
/// then go on for as long as the pod itself allows: two of them might use one volume.
const GRACE: u32 = 1;

impl Scene {
    /// Kills everything that runs in a pod. Kubernetes starts it again in the same pod.
    pub async fn kill_processes(&self, pod: &str) {
        let pod: Pod = self.get(pod).await;
        let running = processes(&pod);
        assert!(!running.is_empty(), "find the processes of {pod:?}");
        for process in running {
            match kill_process(process, Signal::KILL) {
                // The first process of a container takes the others along.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => panic!("kill process {process:?}: {error}"),
            }
        }
    }

    /// Deletes a pod in a hurry, without waiting until it is gone. Whatever it belongs to makes another.
    pub async fn kill_pod(&self, pod: &str) {
        let (api, parameters) = (self.api::<Pod>(), DeleteParams::default().grace_period(GRACE));
        let deleted = api.delete(pod, &parameters).await;
        deleted.unwrap_or_else(|error| panic!("delete pod {pod}: {error}"));
    }
}
