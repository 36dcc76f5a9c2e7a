//! What is watched of each kind, and what is kept of an object.
//!
//! Kept is what decisions read. The rest is dropped when it arrives, so that memory follows the number of engines and
//! instances and not the size of what Kubernetes says about them.

use std::fmt::Debug;

use firebolt_api::key::RESERVED_PREFIX;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod, PodSpec, PodStatus, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::family::Family;
use super::guard::Guarded;
use crate::key::ObjectKey;

/// A kind that the operator watches.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Debug + Clone + Send + Sync + 'static
{
    /// What an object belongs to, by which it is found.
    #[must_use]
    fn owner(object: &Guarded<Self>, family: Family) -> Option<ObjectKey> {
        family.owner(object.meta())
    }

    /// The class that an object is of, by which it is found too.
    #[must_use]
    fn class(_object: &Guarded<Self>) -> Option<ObjectKey> {
        None
    }

    /// Drops what is large or secret and never read.
    fn prune(&mut self, family: Family);
}

impl Watched for FireboltEngine {
    /// The instance that it refers to.
    fn owner(object: &Guarded<Self>, _family: Family) -> Option<ObjectKey> {
        let engine = object.0.as_ref().ok()?;
        Some(ObjectKey::new(
            engine.metadata.namespace.as_ref()?,
            &engine.spec.instance_ref,
        ))
    }

    fn class(object: &Guarded<Self>) -> Option<ObjectKey> {
        let engine = object.0.as_ref().ok()?;
        let class = engine.spec.engine_class_ref.as_ref()?;
        Some(ObjectKey::new(engine.metadata.namespace.as_ref()?, class))
    }

    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for FireboltInstance {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for FireboltEngineClass {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for StatefulSet {
    fn prune(&mut self, family: Family) {
        keep_own_annotations(&mut self.metadata);
        match family {
            Family::OfInstances => {
                if !is_made_by::<FireboltInstance>(&self.metadata) {
                    (self.spec, self.status) = (None, None);
                }
            }
            // One of an engine is never changed after it was created, so its specification matters only if somebody did:
            // Kubernetes counts that. Its pods are watched themselves.
            Family::Root | Family::OfEngines => {
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
    }
}

impl Watched for Deployment {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
        if !is_made_by::<FireboltInstance>(&self.metadata) {
            (self.spec, self.status) = (None, None);
        }
    }
}

impl Watched for Service {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
    }
}

impl Watched for ConfigMap {
    /// Anybody may put our label on a ConfigMap of any size.
    fn prune(&mut self, family: Family) {
        keep_own_annotations(&mut self.metadata);
        self.binary_data = None;
        let is_ours = match family {
            Family::OfInstances => is_made_by::<FireboltInstance>(&self.metadata),
            Family::Root | Family::OfEngines => is_made_by::<FireboltEngine>(&self.metadata),
        };
        if !is_ours {
            self.data = None;
        }
    }
}

impl Watched for ServiceAccount {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
        // Kubernetes keeps its own list here.
        self.secrets = None;
    }
}

impl Watched for Role {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for RoleBinding {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Watched for PodDisruptionBudget {
    fn prune(&mut self, _family: Family) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
    }
}

impl Watched for Pod {
    fn prune(&mut self, _family: Family) {
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
pub(super) fn keep_own_annotations(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.starts_with(RESERVED_PREFIX));
    }
}

/// What made the object, if it is of this kind and as far as the object says.
pub(super) fn maker<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true) && owner.kind == K::kind(&()))
}

fn is_made_by<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> bool {
    maker::<K>(metadata).is_some()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pruned<K: Watched>(object: Value, family: Family) -> K {
        let mut object: K = serde_json::from_value(object).unwrap();
        object.prune(family);
        object
    }

    fn owner(kind: &str, controller: bool) -> Value {
        json!([{ "apiVersion": "x", "kind": kind, "name": "a", "uid": "u", "controller": controller }])
    }

    fn workload(generation: i64, owners: &Value) -> Value {
        json!({
            "metadata": { "name": "s", "generation": generation, "ownerReferences": owners, "annotations": { "a": "b" } },
            "spec": { "replicas": 2, "serviceName": "x", "selector": {}, "template": { "spec": { "containers": [] } } },
            "status": { "replicas": 2 },
        })
    }

    #[test]
    fn the_specification_of_a_stateful_set_of_an_engine_is_kept_only_if_somebody_changed_it() {
        let set = |generation| -> StatefulSet {
            let set: StatefulSet = pruned(workload(generation, &json!([])), Family::OfEngines);
            assert_eq!(set.status, None);
            set
        };
        let (untouched, changed) = (set(1).spec.unwrap(), set(2).spec.unwrap());
        assert_eq!((untouched.replicas, untouched.service_name), (Some(2), None));
        assert_eq!(
            (changed.replicas, changed.service_name.as_deref()),
            (Some(2), Some("x"))
        );
    }

    #[rstest]
    #[case(owner("FireboltInstance", true), true)]
    #[case(owner("FireboltInstance", false), false)]
    #[case(owner("FireboltEngine", true), false)]
    #[case(json!([]), false)]
    fn what_an_instance_made_is_kept_with_its_state_and_what_others_made_is_not(
        #[case] owners: Value,
        #[case] kept: bool,
    ) {
        let set: StatefulSet = pruned(workload(1, &owners), Family::OfInstances);
        let deployment: Deployment = pruned(workload(1, &owners), Family::OfInstances);
        assert_eq!(set.spec.is_some_and(|spec| spec.service_name.is_some()), kept);
        assert_eq!((set.status.is_some(), deployment.status.is_some()), (kept, kept));
        assert_eq!(deployment.spec.is_some(), kept);
        assert_eq!(deployment.metadata.annotations, Some([].into()));
    }

    #[rstest]
    #[case(Family::OfEngines, owner("FireboltEngine", true), true)]
    #[case(Family::OfEngines, owner("FireboltEngine", false), false)]
    #[case(Family::OfEngines, owner("Deployment", true), false)]
    #[case(Family::OfEngines, owner("FireboltInstance", true), false)]
    #[case(Family::OfInstances, owner("FireboltInstance", true), true)]
    #[case(Family::OfInstances, json!([]), false)]
    fn of_a_config_map_that_is_not_ours_only_its_name_is_kept(
        #[case] family: Family,
        #[case] owners: Value,
        #[case] kept: bool,
    ) {
        let metadata = json!({ "name": "c", "annotations": { "a": "b" }, "ownerReferences": owners });
        let config_map = json!({ "metadata": metadata, "data": { "k": "v" }, "binaryData": { "k": "" } });
        let config_map: ConfigMap = pruned(config_map, family);
        assert_eq!(config_map.binary_data, None);
        assert_eq!(config_map.metadata.annotations, Some([].into()));
        assert_eq!(config_map.data.is_some(), kept);
    }

    #[test]
    fn of_a_pod_only_its_state_is_kept() {
        let pod = json!({
            "metadata": { "name": "p", "annotations": { "a": "b" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "engine", "image": "i" }] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2",
                "containerStatuses": [{ "name": "engine", "ready": true, "restartCount": 1, "image": "i", "imageID": "d" }] },
        });
        let pod: Pod = pruned(pod, Family::OfEngines);
        assert_eq!(pod.metadata.annotations, None);
        assert!(pod.spec.as_ref().unwrap().containers.is_empty());
        let status = pod.status.unwrap();
        assert_eq!((status.pod_ip.as_deref(), status.host_ip), (Some("10.0.0.1"), None));
        let container = &status.container_statuses.unwrap()[0];
        assert_eq!((container.name.as_str(), container.image.as_str()), ("engine", ""));
    }
}
