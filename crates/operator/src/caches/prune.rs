//! Which parts of an object the caches keep: those that plans read. The rest is dropped when it arrives, so that memory grows
//! with the number of engines and instances and not with the size of their objects.

use firebolt_api::key::{FIELD_MANAGER, RESERVED_PREFIX};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_core::pods;
use firebolt_runtime::informer::{Guarded, Watched};
use firebolt_runtime::write::FieldOwnership;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements, Service, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use super::owner_kind::OwnerKind;

/// The copy of the object that `kubectl apply` stores, which the operator does not read.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Drops the parts of an object that the operator does not read.
pub(crate) fn prune<K: Prune>(object: &mut Guarded<K>, owner_kind: OwnerKind) {
    match owner_kind {
        OwnerKind::None | OwnerKind::Engine => object.managed_fields_mut().clear(),
        // Whether there are fields to hand over before the object is applied.
        OwnerKind::Instance => FieldOwnership::prune(object.managed_fields_mut(), FIELD_MANAGER),
    }
    object.annotations_mut().remove(LAST_APPLIED);
    if let Ok(object) = &mut object.0 {
        object.prune(owner_kind);
    }
}

/// A kind in the caches.
pub(crate) trait Prune: Watched {
    /// Drops what is large or secret and never read, of an object in a cache of this owner kind.
    fn prune(&mut self, owner_kind: OwnerKind);
}

impl Prune for FireboltEngine {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Prune for FireboltInstance {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Prune for FireboltEngineClass {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Prune for StatefulSet {
    fn prune(&mut self, owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        match owner_kind {
            OwnerKind::Instance => {
                if !is_controlled_by::<FireboltInstance>(&self.metadata) {
                    (self.spec, self.status) = (None, None);
                }
            }
            // The operator never changes the StatefulSet of an engine, so its spec matters only if another client did:
            // `metadata.generation` shows that. Its pods are watched themselves.
            OwnerKind::None | OwnerKind::Engine => {
                let revisions = self.status.take().map(|status| StatefulSetStatus {
                    observed_generation: status.observed_generation,
                    current_revision: status.current_revision,
                    update_revision: status.update_revision,
                    ..StatefulSetStatus::default()
                });
                self.status = revisions.filter(|_| self.metadata.generation != Some(1));
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

impl Prune for Deployment {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        if !is_controlled_by::<FireboltInstance>(&self.metadata) {
            (self.spec, self.status) = (None, None);
        }
    }
}

impl Prune for Service {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
    }
}

impl Prune for ConfigMap {
    /// A ConfigMap of any size may have our label.
    fn prune(&mut self, owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        self.binary_data = None;
        let is_ours = match owner_kind {
            OwnerKind::Instance => is_controlled_by::<FireboltInstance>(&self.metadata),
            OwnerKind::None | OwnerKind::Engine => is_controlled_by::<FireboltEngine>(&self.metadata),
        };
        if !is_ours {
            self.data = None;
        }
    }
}

impl Prune for ServiceAccount {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        // Kubernetes adds its own list here.
        self.secrets = None;
    }
}

impl Prune for Role {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Prune for RoleBinding {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
    }
}

impl Prune for PodDisruptionBudget {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        keep_own_annotations(&mut self.metadata);
        self.status = None;
    }
}

impl Prune for Pod {
    fn prune(&mut self, _owner_kind: OwnerKind) {
        self.metadata.annotations = None;
        let is_controlled = self
            .metadata
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.controller == Some(true));
        let statuses = self.status.iter();
        let statuses = statuses.flat_map(|status| [&status.container_statuses, &status.init_container_statuses]);
        let killed: Vec<&ContainerStatus> = statuses
            .flatten()
            .flatten()
            .filter(|status| pods::is_oom_killed(status))
            .collect();
        self.spec = self.spec.take().map(|spec| PodSpec {
            node_name: spec.node_name,
            // It shows where a pod comes from that has no owner any more.
            subdomain: spec.subdomain.filter(|_| !is_controlled),
            containers: memory_limits(spec.containers, &killed),
            init_containers: spec
                .init_containers
                .map(|containers| memory_limits(containers, &killed))
                .filter(|limits| !limits.is_empty()),
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

/// The memory limits of those containers that were killed for their memory: few pods of a cluster have any.
fn memory_limits(containers: Vec<Container>, killed: &[&ContainerStatus]) -> Vec<Container> {
    let is_killed = |container: &Container| killed.iter().any(|status| status.name == container.name);
    let memory = |resources: ResourceRequirements| {
        let mut limits = resources.limits?;
        limits.retain(|resource, _| resource == "memory");
        Some(ResourceRequirements {
            limits: Some(limits),
            ..ResourceRequirements::default()
        })
    };
    let limited = containers.into_iter().filter(is_killed).map(|container| Container {
        name: container.name,
        resources: container.resources.and_then(memory),
        ..Container::default()
    });
    limited.collect()
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

/// Annotations of others can be large, and are never read.
pub(super) fn keep_own_annotations(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| key.starts_with(RESERVED_PREFIX));
    }
}

/// The controller of the object, if it is of this kind.
fn controller<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true) && owner.kind == K::kind(&()))
}

fn is_controlled_by<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> bool {
    controller::<K>(metadata).is_some()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pruned<K: Prune>(object: Value, owner_kind: OwnerKind) -> K {
        let mut object: K = serde_json::from_value(object).unwrap();
        object.prune(owner_kind);
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
    fn the_spec_of_a_stateful_set_of_an_engine_is_kept_only_if_it_was_changed() {
        let set = |generation| -> StatefulSet { pruned(workload(generation, &json!([])), OwnerKind::Engine) };
        assert_eq!(
            (set(1).status, set(2).status),
            (None, Some(StatefulSetStatus::default()))
        );
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
    fn spec_and_status_are_kept_only_of_objects_that_an_instance_controls(#[case] owners: Value, #[case] kept: bool) {
        let set: StatefulSet = pruned(workload(1, &owners), OwnerKind::Instance);
        let deployment: Deployment = pruned(workload(1, &owners), OwnerKind::Instance);
        assert_eq!(set.spec.is_some_and(|spec| spec.service_name.is_some()), kept);
        assert_eq!((set.status.is_some(), deployment.status.is_some()), (kept, kept));
        assert_eq!(deployment.spec.is_some(), kept);
        assert_eq!(deployment.metadata.annotations, Some([].into()));
    }

    #[rstest]
    #[case(OwnerKind::Engine, owner("FireboltEngine", true), true)]
    #[case(OwnerKind::Engine, owner("FireboltEngine", false), false)]
    #[case(OwnerKind::Engine, owner("Deployment", true), false)]
    #[case(OwnerKind::Engine, owner("FireboltInstance", true), false)]
    #[case(OwnerKind::Instance, owner("FireboltInstance", true), true)]
    #[case(OwnerKind::Instance, json!([]), false)]
    fn data_is_kept_only_of_config_maps_that_the_owner_controls(
        #[case] owner_kind: OwnerKind,
        #[case] owners: Value,
        #[case] kept: bool,
    ) {
        let metadata = json!({ "name": "c", "annotations": { "a": "b" }, "ownerReferences": owners });
        let config_map = json!({ "metadata": metadata, "data": { "k": "v" }, "binaryData": { "k": "" } });
        let config_map: ConfigMap = pruned(config_map, owner_kind);
        assert_eq!(config_map.binary_data, None);
        assert_eq!(config_map.metadata.annotations, Some([].into()));
        assert_eq!(config_map.data.is_some(), kept);
    }

    #[test]
    fn only_the_state_of_a_pod_is_kept() {
        let pod = json!({
            "metadata": { "name": "p", "annotations": { "a": "b" } },
            "spec": { "nodeName": "n", "containers": [{ "name": "engine", "image": "i" }] },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.0.0.2",
                "containerStatuses": [{ "name": "engine", "ready": true, "restartCount": 1, "image": "i", "imageID": "d" }] },
        });
        let pod: Pod = pruned(pod, OwnerKind::Engine);
        assert_eq!(pod.metadata.annotations, None);
        assert!(pod.spec.as_ref().unwrap().containers.is_empty());
        let status = pod.status.unwrap();
        assert_eq!((status.pod_ip.as_deref(), status.host_ip), (Some("10.0.0.1"), None));
        let container = &status.container_statuses.unwrap()[0];
        assert_eq!((container.name.as_str(), container.image.as_str()), ("engine", ""));
    }

    #[rstest]
    #[case::orphan(json!([]), Some("a-g0-hl"))]
    #[case::controlled(owner("StatefulSet", true), None)]
    fn the_subdomain_is_kept_only_of_a_pod_without_a_controller(#[case] owners: Value, #[case] kept: Option<&str>) {
        let pod = json!({ "metadata": { "name": "p", "ownerReferences": owners }, "spec": { "subdomain": "a-g0-hl", "containers": [] } });
        let pod: Pod = pruned(pod, OwnerKind::Engine);
        assert_eq!(pod.spec.unwrap().subdomain.as_deref(), kept);
    }

    #[test]
    fn the_memory_limit_is_kept_only_of_a_container_that_was_killed_for_its_memory() {
        let limits = json!({ "limits": { "cpu": "1", "memory": "2Gi" }, "requests": { "memory": "1Gi" } });
        let container = |name: &str| json!({ "name": name, "image": "i", "resources": limits });
        let status = |name: &str, reason: &str| {
            json!({ "name": name, "ready": false, "restartCount": 1, "image": "i", "imageID": "d",
                "lastState": { "terminated": { "exitCode": 137, "reason": reason } } })
        };
        let pod: Pod = pruned(
            json!({
                "metadata": { "name": "p" },
                "spec": { "containers": [container("engine"), container("proxy")], "initContainers": [container("fetch")] },
                "status": { "containerStatuses": [status("engine", "OOMKilled"), status("proxy", "Error")] },
            }),
            OwnerKind::Engine,
        );
        let spec = serde_json::to_value(pod.spec).unwrap();
        let kept = json!({ "containers": [{ "name": "engine", "resources": { "limits": { "memory": "2Gi" } } }] });
        assert_eq!(spec, kept);
    }
}
