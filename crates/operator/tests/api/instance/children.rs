//! The objects that belong to an instance, and access to objects of any kind.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiGroup, Discovery, Scope};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::testenv::InstanceEnv;

/// Kind, rest of the name and component of everything that is made for an instance, in the order in which it is made.
pub(super) const CHILDREN: [(&str, &str, &str); 13] = [
    ("Secret", "metadata-postgres-creds", "postgres"),
    ("StatefulSet", "metadata-pg", "postgres"),
    ("Service", "metadata-pg", "postgres"),
    ("ConfigMap", "metadata-config", "metadata"),
    ("Deployment", "metadata", "metadata"),
    ("Service", "metadata", "metadata"),
    ("Service", "gateway", "gateway"),
    ("ServiceAccount", "gateway", "gateway"),
    ("Role", "gateway-wake", "gateway"),
    ("RoleBinding", "gateway-wake", "gateway"),
    ("ConfigMap", "gateway-config", "gateway"),
    ("Deployment", "gateway", "gateway"),
    ("PodDisruptionBudget", "gateway", "gateway"),
];

/// What Kubernetes itself puts into every namespace, and what tells of things.
const FURNITURE: [&str; 3] = ["Event ", "ConfigMap kube-root-ca.crt", "ServiceAccount default"];

fn resource(kind: &str) -> ApiResource {
    let group = match kind {
        "StatefulSet" | "Deployment" | "ReplicaSet" => "apps",
        "Role" | "RoleBinding" => "rbac.authorization.k8s.io",
        "PodDisruptionBudget" => "policy",
        "FireboltInstance" => return ApiResource::erase::<firebolt_api::FireboltInstance>(&()),
        "Secret" | "Service" | "ConfigMap" | "ServiceAccount" | "PersistentVolumeClaim" | "Pod" => "",
        other => panic!("which group has {other}?"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

impl InstanceEnv {
    /// All objects of a kind in the namespace.
    pub(super) fn any(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind))
    }

    /// The object, if it is there.
    pub(super) async fn find(&self, kind: &str, name: &str) -> Option<DynamicObject> {
        self.any(kind).get_opt(name).await.unwrap()
    }

    /// The object, which has to be there.
    pub(super) async fn known(&self, kind: &str, name: &str) -> DynamicObject {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    /// Deletes an object, and says which one it was.
    pub(super) async fn remove(&self, kind: &str, name: &str) -> String {
        let uid = self.known(kind, name).await.uid().expect("a stored object has a UID");
        self.any(kind).delete(name, &DeleteParams::default()).await.unwrap();
        uid
    }

    /// Changes one value of an object, given by its path.
    pub(super) async fn change(&self, kind: &str, name: &str, path: &str, value: &Value) {
        let change = json!([{ "op": "replace", "path": path, "value": value }]);
        let change: Patch<()> = Patch::Json(serde_json::from_value(change).expect("a patch"));
        let done = self.any(kind).patch(name, &PatchParams::default(), &change).await;
        done.unwrap_or_else(|error| panic!("set {path} of {kind} {name}: {error}"));
    }

    /// Changes an object with a merge patch.
    pub(super) async fn merge(&self, kind: &str, name: &str, patch: Value) {
        let done = self
            .any(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        done.unwrap_or_else(|error| panic!("merge {patch} into {kind} {name}: {error}"));
    }

    /// Everything that is made for the instance, by kind and name.
    pub(super) async fn children(&self, instance: &str) -> BTreeMap<String, DynamicObject> {
        let mut found = BTreeMap::new();
        for (kind, rest, _) in CHILDREN {
            let name = format!("{instance}-{rest}");
            if let Some(object) = self.find(kind, &name).await {
                found.insert(format!("{kind} {name}"), object);
            }
        }
        found
    }

    /// Waits until nothing is left of what Kubernetes makes of our objects and clears away in its own time.
    pub(super) async fn wait_until_cleared(&self) {
        let cleared = async || {
            let slices = self.list::<EndpointSlice>().await.len();
            let revisions = self.list::<ControllerRevision>().await.len();
            (slices + revisions + self.list::<Pod>().await.len() == 0).then_some(())
        };
        self.eventually("Kubernetes has cleared up", cleared).await;
    }

    /// Kind and name of everything in the namespace, of whatever kind, but for what is in every namespace.
    pub(super) async fn inventory(&self) -> BTreeSet<String> {
        static KINDS: OnceCell<Vec<ApiResource>> = OnceCell::const_new();
        let kinds = KINDS.get_or_init(|| listable(&self.client)).await;
        let lists = kinds.iter().map(async |kind| {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, kind);
            let found = api.list_metadata(&ListParams::default()).await.unwrap().items;
            let names = found
                .iter()
                .map(|object| format!("{} {}", kind.kind, object.name_any()));
            names.collect::<Vec<_>>()
        });
        let found = futures::future::join_all(lists).await.concat();
        let is_furniture = |name: &String| FURNITURE.iter().any(|known| name.starts_with(known));
        found.into_iter().filter(|name| !is_furniture(name)).collect()
    }
}

/// Every kind of object that lives in namespaces.
async fn listable(client: &Client) -> Vec<ApiResource> {
    let all = Discovery::new(client.clone()).run().await.unwrap();
    let kinds = all.groups().flat_map(ApiGroup::recommended_resources);
    let in_namespaces = kinds.filter(|(_, can)| can.scope == Scope::Namespaced && can.supports_operation("list"));
    in_namespaces.map(|(kind, _)| kind).collect()
}

/// The value at a path of an object.
pub(super) fn at(object: &DynamicObject, path: &str) -> Value {
    let object = serde_json::to_value(object).unwrap();
    object.pointer(path).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::fixtures::credentials;

    /// Without this, a test in which nothing stays behind could not fail.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_inventory_lists_every_object() {
        let env = InstanceEnv::without_operator().await;
        assert_eq!(env.inventory().await, BTreeSet::new());
        let secret = env.create(&credentials("open sesame")).await;
        let expected = format!("Secret {}", secret.name_any());
        assert_eq!(env.inventory().await, BTreeSet::from([expected]));
    }
}
