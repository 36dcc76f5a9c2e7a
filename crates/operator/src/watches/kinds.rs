//! What is watched of each kind, and what is kept of an object.
//!
//! Kept is what decisions read. The rest is dropped when it arrives, so that memory follows the number of engines and
//! not the size of what Kubernetes says about them.

use std::fmt::Debug;

use firebolt_api::key::{Label, RESERVED_PREFIX};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod, PodSpec, PodStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::key::ObjectKey;
use crate::settings::Settings;

/// A kind that the operator watches.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug + Clone + Send + Sync + 'static
{
    /// Whether engines own objects of this kind. Then only those that carry the name of an engine are watched.
    const OF_ENGINES: bool = true;

    /// Which objects, as a label selector; none for all.
    #[must_use]
    fn selector(settings: &Settings) -> Option<String> {
        if Self::OF_ENGINES {
            Some(Label::Engine.key().to_owned())
        } else {
            settings.selector.to_parameter()
        }
    }

    /// The engine that an object with this metadata belongs to, as far as its labels say. Known even of an object that
    /// cannot be read.
    #[must_use]
    fn belongs_to(metadata: &ObjectMeta) -> Option<ObjectKey> {
        let engine = metadata
            .labels
            .as_ref()
            .filter(|_| Self::OF_ENGINES)?
            .get(Label::Engine.key())?;
        Some(ObjectKey::new(metadata.namespace.as_ref()?, engine))
    }

    /// Drops what is large and never read.
    fn prune(&mut self) {}
}

impl Watched for FireboltEngine {
    const OF_ENGINES: bool = false;

    fn prune(&mut self) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for FireboltInstance {
    const OF_ENGINES: bool = false;
}

impl Watched for FireboltEngineClass {
    const OF_ENGINES: bool = false;
}

impl Watched for StatefulSet {
    /// A StatefulSet is never changed after it was created, so its specification matters only if somebody did: Kubernetes
    /// counts that.
    fn prune(&mut self) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
        if self.metadata.generation == Some(1)
            && let Some(spec) = self.spec.take()
        {
            self.spec = Some(StatefulSetSpec {
                replicas: spec.replicas,
                ..StatefulSetSpec::default()
            });
        }
    }
}

impl Watched for Service {
    fn prune(&mut self) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
    }
}

impl Watched for ConfigMap {
    /// Anybody may put our label on a ConfigMap of any size.
    fn prune(&mut self) {
        keep_own_annotations(&mut self.metadata);
        self.binary_data = None;
        if !is_made_by_an_engine(&self.metadata) {
            self.data = None;
        }
    }
}

impl Watched for Pod {
    fn prune(&mut self) {
        self.metadata.annotations = None;
        self.spec = self.spec.take().map(|spec| PodSpec {
            node_name: spec.node_name,
            ..PodSpec::default()
        });
        self.status = self.status.take().map(|status| PodStatus {
            phase: status.phase,
            reason: status.reason,
            conditions: status.conditions,
            pod_ip: status.pod_ip,
            container_statuses: status.container_statuses.map(pruned),
            init_container_statuses: status.init_container_statuses.map(pruned),
            ..PodStatus::default()
        });
    }
}

fn pruned(statuses: Vec<ContainerStatus>) -> Vec<ContainerStatus> {
    let keep = |status: ContainerStatus| ContainerStatus {
        name: status.name,
        ready: status.ready,
        restart_count: status.restart_count,
        state: status.state,
        last_state: status.last_state,
        ..ContainerStatus::default()
    };
    statuses.into_iter().map(keep).collect()
}

/// Annotations of others are of any number and size, and never read.
fn keep_own_annotations(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.starts_with(RESERVED_PREFIX));
    }
}

/// Whether an engine made it, as far as the object says.
fn is_made_by_an_engine(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == FireboltEngine::kind(&()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(generation: i64) -> StatefulSet {
        let set = json!({
            "metadata": { "name": "s", "generation": generation },
            "spec": { "replicas": 2, "serviceName": "x", "selector": {}, "template": { "spec": { "containers": [] } } },
            "status": { "replicas": 2 },
        });
        let mut set: StatefulSet = serde_json::from_value(set).unwrap();
        set.prune();
        set
    }

    #[test]
    fn the_specification_of_a_stateful_set_is_kept_only_if_somebody_changed_it() {
        let (untouched, changed) = (set(1).spec.unwrap(), set(2).spec.unwrap());
        assert_eq!((untouched.replicas, untouched.service_name), (Some(2), None));
        assert_eq!(
            (changed.replicas, changed.service_name.as_deref()),
            (Some(2), Some("x"))
        );
    }

    #[test]
    fn of_a_config_map_that_no_engine_made_only_its_name_is_kept() {
        let pruned = |owners: serde_json::Value| {
            let metadata = json!({ "name": "c", "annotations": { "a": "b" }, "ownerReferences": owners });
            let config_map = json!({ "metadata": metadata, "data": { "k": "v" }, "binaryData": { "k": "" } });
            let mut config_map: ConfigMap = serde_json::from_value(config_map).unwrap();
            config_map.prune();
            assert_eq!(config_map.binary_data, None);
            assert_eq!(config_map.metadata.annotations, Some([].into()));
            config_map.data.is_some()
        };
        let owner = |kind: &str, controller: bool| json!([{ "apiVersion": "x", "kind": kind, "name": "a", "uid": "u", "controller": controller }]);
        assert!(pruned(owner("FireboltEngine", true)));
        assert!(!pruned(owner("FireboltEngine", false)));
        assert!(!pruned(owner("Deployment", true)));
        assert!(!pruned(json!([])));
    }

    #[test]
    fn of_a_pod_only_its_state_is_kept() {
        let pod = json!({
            "metadata": { "name": "p", "annotations": { "a": "b" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "engine", "image": "i" }] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2",
                "containerStatuses": [{ "name": "engine", "ready": true, "restartCount": 1, "image": "i", "imageID": "d" }] },
        });
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        pod.prune();
        assert_eq!(pod.metadata.annotations, None);
        assert!(pod.spec.as_ref().unwrap().containers.is_empty());
        let status = pod.status.unwrap();
        assert_eq!((status.pod_ip.as_deref(), status.host_ip), (Some("10.0.0.1"), None));
        let container = &status.container_statuses.unwrap()[0];
        assert_eq!((container.name.as_str(), container.image.as_str()), ("engine", ""));
    }
}
