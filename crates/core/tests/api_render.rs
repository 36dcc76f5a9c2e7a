//! What we render against the real API server: it accepts it, and nothing that it fills in looks like tampering.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write to the cluster as the operator would"
)]

use std::fmt::Debug;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::render::differences;
use firebolt_core::render::engine::{config_map, headless_service, routing_service, stateful_set};
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::engine::{EffectiveEngine, InstanceFacts, resolve};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use localkube::Cluster;
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn effective(namespace: &str, spec: &Value, class: Option<&Value>) -> EffectiveEngine {
    let mut full = json!({ "instanceRef": "main", "replicas": 1 });
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    let object = |kind: &str, spec: &Value| {
        let uid = "00000000-0000-0000-0000-000000000001";
        let metadata = json!({ "name": "analytics", "namespace": namespace, "uid": uid });
        json!({ "apiVersion": "v", "kind": kind, "metadata": metadata, "spec": spec })
    };
    let engine: FireboltEngine = serde_json::from_value(object("FireboltEngine", &full)).expect("an engine");
    let class = class.map(|spec| {
        let class: FireboltEngineClass = serde_json::from_value(object("FireboltEngineClass", spec)).expect("a class");
        class
    });
    let instance = InstanceFacts {
        id: "01J".to_owned(),
        metadata_endpoint: "main-metadata:7000".to_owned(),
    };
    let defaults = Defaults {
        engine_image: "registry.example/engine:1".to_owned(),
        ui_image: "registry.example/ui:1".to_owned(),
        image_pull_secrets: vec!["mirror".to_owned()],
        cluster_domain: "cluster.local".to_owned(),
    };
    resolve(&engine, class.as_ref(), &instance, &defaults)
}

async fn namespace(client: &Client) -> String {
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "generateName": "render-" } })).expect("a namespace");
    let created = Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await;
    created.expect("create a namespace").name_any()
}

/// Applies the object and returns the paths at which the stored one differs from it.
async fn stored_differences<K>(client: &Client, object: &K) -> Vec<String>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().expect("a namespace"));
    let apply = PatchParams::apply(firebolt_api::key::FIELD_MANAGER).force();
    let stored = api.patch(&object.name_any(), &apply, &Patch::Apply(object)).await;
    differences(
        object,
        &stored.unwrap_or_else(|error| panic!("apply {}: {error}", object.name_any())),
    )
}

/// Every field for which the API server has a default, left out or in a form that it rewrites.
fn defaulted_fields() -> Value {
    json!({ "template": { "spec": {
        "securityContext": { "runAsUser": 1000 },
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
            {
                "name": "engine",
                "env": [
                    { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
                    { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1000m" } } },
                    { "name": "EMPTY" },
                ],
                "lifecycle": { "preStop": { "httpGet": { "port": 80 } } },
                "resources": { "limits": { "cpu": 2, "memory": "2048Mi" } },
            },
            {
                "name": "side", "image": "side", "ports": [{ "containerPort": 80 }], "resources": {},
                "readinessProbe": { "httpGet": { "port": 80 } }, "livenessProbe": { "grpc": { "port": 80 } },
                "startupProbe": { "tcpSocket": { "port": 80 } },
                "lifecycle": { "postStart": { "exec": { "command": ["true"] } } },
            },
        ],
    } } })
}

#[rstest]
#[case::bare(json!({}), None)]
#[case::stopped(json!({ "replicas": 0 }), None)]
#[case::claim(json!({ "storage": { "persistentVolumeClaim": { "size": "1024Mi" } } }), None)]
#[case::host_path(json!({ "storage": { "hostPath": { "path": "/data" } } }), None)]
#[case::memory(json!({ "storage": { "emptyDir": { "medium": "Memory", "sizeLimit": "1000Ki" } } }), None)]
#[case::ui(json!({ "uiSidecar": true }), None)]
#[case::defaults(defaulted_fields(), None)]
#[case::defaults_of_a_class(json!({}), Some(defaulted_fields()))]
#[tokio::test]
async fn what_the_api_server_fills_in_is_no_tampering(#[case] spec: Value, #[case] class: Option<Value>) {
    let client = Cluster::attach().client().await.expect("connect as admin");
    let engine = effective(&namespace(&client).await, &spec, class.as_ref());
    let nothing = Vec::<String>::new();
    // Twice: what is applied over itself is still the same.
    for _ in 0..2 {
        assert_eq!(stored_differences(&client, &config_map(&engine, 0)).await, nothing);
        assert_eq!(
            stored_differences(&client, &headless_service(&engine, 0)).await,
            nothing
        );
        assert_eq!(stored_differences(&client, &routing_service(&engine, 0)).await, nothing);
        assert_eq!(stored_differences(&client, &stateful_set(&engine, 0)).await, nothing);
    }
}

/// The pods of the bare engine and of one with every part of ours are admitted where only hardened pods are.
#[rstest]
#[case::bare(json!({}))]
#[case::with_ui_and_claim(json!({ "uiSidecar": true, "storage": { "persistentVolumeClaim": {} } }))]
#[tokio::test]
async fn pods_pass_the_standard_restricted(#[case] spec: Value) {
    let cluster = Cluster::attach();
    let client = cluster.client().await.expect("connect as admin");
    let namespace = namespace(&client).await;
    let enforce = "pod-security.kubernetes.io/enforce=restricted";
    cluster
        .kubectl(&["label", "namespace", &namespace, enforce])
        .expect("enforce the standard");
    let template = stateful_set(&effective(&namespace, &spec, None), 0)
        .spec
        .expect("a spec")
        .template;
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": template.metadata, "spec": template.spec });
    pod["metadata"]["name"] = json!("probe");
    // The claims of a StatefulSet become volumes of its pods.
    let volumes = pod["spec"]["volumes"].as_array_mut().expect("volumes");
    if !volumes.iter().any(|volume| volume["name"] == "data") {
        volumes.push(json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }));
    }
    let create = ["create", "--dry-run=server", "-n", &namespace, "-f", "-"];
    cluster
        .kubectl_with_input(&create, &pod.to_string())
        .expect("admit the pod");
}
