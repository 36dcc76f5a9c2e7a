//! Pods of an instance, and their status.

use firebolt_api::key::{Component, Label};
use k8s_openapi::api::core::v1::Pod;

use super::fixture::INSTANCE;
use super::testenv::TestEnv;

impl TestEnv {
    /// Waits until a component of the instance has exactly this many pods, all of them ready, and returns them.
    pub async fn pods_of<const COUNT: usize>(&self, component: Component) -> [Pod; COUNT] {
        let labels = format!("{}={INSTANCE},{}={component}", Label::Instance, Label::Component);
        let all_ready = async || {
            // Terminating pods are counted as not ready: they serve for a while, and then they exit.
            let pods: [Pod; COUNT] = self.list::<Pod>(&labels).await.try_into().ok()?;
            pods.iter().all(is_ready).then_some(pods)
        };
        let sentence = format!("{COUNT} pods of the {component} are ready");
        self.eventually(&sentence, all_ready).await
    }
}

/// Whether a pod is ready and not terminating.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// The number of container restarts of a pod.
#[must_use]
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).sum()
}
