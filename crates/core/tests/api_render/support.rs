//! What tests render, and what the API server makes of what is rendered.

use std::fmt::Debug;

use firebolt_core::render::differences;
use firebolt_core::resolve::Defaults;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt};
use localkube::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The identity of the owner of all objects.
pub(crate) const UID: &str = "00000000-0000-0000-0000-000000000001";

/// The defaults that the administrator of the operator chose.
pub(crate) fn defaults() -> Defaults {
    Defaults {
        image_pull_secrets: vec!["mirror".to_owned()],
        ..testkit::defaults!()
    }
}

/// Applies the object as the operator does, and returns what is stored.
pub(crate) async fn apply<K>(client: &Client, object: &K) -> K
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().expect("a namespace"));
    let apply = PatchParams::apply(firebolt_api::key::FIELD_MANAGER).force();
    let stored = api.patch(&object.name_any(), &apply, &Patch::Apply(object)).await;
    stored.unwrap_or_else(|error| panic!("apply {}: {error}", object.name_any()))
}

/// Applies the object and returns the paths at which the stored one differs from it.
pub(crate) async fn stored_differences<K>(client: &Client, object: &K) -> Vec<String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    differences(object, &apply(client, object).await)
}

/// Creates a pod of the template, without keeping it.
pub(crate) fn admit(
    cluster: &Cluster,
    namespace: &str,
    template: &PodTemplateSpec,
) -> Result<String, localkube::Error> {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template.metadata, "spec": template.spec });
    pod["metadata"]["name"] = json!("probe");
    let volumes = pod["spec"]["volumes"].as_array_mut().expect("volumes");
    // The claims of a StatefulSet become volumes of its pods.
    if !volumes.iter().any(|volume: &Value| volume["name"] == "data") {
        volumes.push(json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }));
    }
    let create = ["create", "--dry-run=server", "-n", namespace, "-f", "-"];
    cluster.kubectl_with_input(&create, &pod.to_string())
}

/// A pod template with every field for which the API server has a default, left out or in a form that it rewrites. The
/// fields of `own` are those of the container of this name.
pub(crate) fn defaulted_fields(name: &str, own: Value) -> Value {
    let mut container = own;
    container["name"] = json!(name);
    container["resources"] = json!({ "limits": { "cpu": 2, "memory": "2048Mi" } });
    json!({ "spec": {
        "securityContext": { "fsGroup": 1000 },
        // One of them is the operator's too.
        "imagePullSecrets": [{ "name": "own" }, { "name": "mirror" }],
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" }],
        "tolerations": [{ "key": "a", "operator": "Exists" }],
        "volumes": [
            { "name": "v1", "configMap": { "name": "c" } },
            { "name": "v2", "secret": { "secretName": "s" } },
            { "name": "v3", "downwardAPI": { "items": [{ "path": "p", "fieldRef": { "fieldPath": "metadata.name" } }] } },
            { "name": "v4", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } },
            { "name": "v5", "emptyDir": { "sizeLimit": "1024Mi" } },
            { "name": "v6", "hostPath": { "path": "/v6" } },
            { "name": "v7", "ephemeral": { "volumeClaimTemplate": { "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Mi" } },
            } } } },
        ],
        "initContainers": [
            { "name": "init", "image": "init", "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } } },
        ],
        "containers": [
            container,
            {
                "name": "side", "image": "side", "ports": [{ "containerPort": 80 }], "resources": {},
                "readinessProbe": { "httpGet": { "port": 80 } }, "livenessProbe": { "grpc": { "port": 80 } },
                "startupProbe": { "tcpSocket": { "port": 80 } },
                "lifecycle": { "postStart": { "exec": { "command": ["true"] } } },
            },
        ],
    } })
}
