//! Pods of an instance, and what a pod says of itself.

use firebolt_api::key::{Component, Label};
use k8s_openapi::api::core::v1::Pod;

use super::scene::{INSTANCE, Scene};

impl Scene {
    /// Waits until a part of the instance has so many pods, each ready and none going, and returns them.
    pub async fn pods_of<const COUNT: usize>(&self, component: Component) -> [Pod; COUNT] {
        let labels = format!("{}={INSTANCE},{}={component}", Label::Instance, Label::Component);
        let all_ready = async || {
            // Those that are being deleted are among them, and not ready: they serve for a while, and then they end.
            let pods: [Pod; COUNT] = self.list::<Pod>(&labels).await.try_into().ok()?;
            pods.iter().all(is_ready).then_some(pods)
        };
        let sentence = format!("{COUNT} pods of the {component} are ready");
        self.eventually(&sentence, all_ready).await
    }
}

/// Whether a pod says that it is ready, and stays.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// How often the containers of a pod were started again.
#[must_use]
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).sum()
}
