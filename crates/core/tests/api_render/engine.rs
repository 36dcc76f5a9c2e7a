//! The objects of an engine.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_core::render::engine::{config_map, headless_service, routing_service, stateful_set};
use firebolt_core::resolve::engine::{EffectiveEngine, InstanceFacts, resolve};
use localkube::Cluster;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::cluster::{RESTRICTED, namespace, namespace_with};

use crate::support::{UID, admit, defaulted_fields, defaults, stored_differences};

fn effective(namespace: &str, spec: &Value, class: Option<&Value>) -> EffectiveEngine {
    let mut full = json!({ "instanceRef": "main", "replicas": 1 });
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    let object = |kind: &str, spec: &Value| {
        let metadata = json!({ "name": "analytics", "namespace": namespace, "uid": UID });
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
    resolve(&engine, class.as_ref(), &instance, &defaults())
}

/// A template for an engine that leaves to the API server what it can.
fn defaulted_template() -> Value {
    let own = json!({
        "env": [
            { "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1000m" } } },
            { "name": "EMPTY" },
        ],
        "lifecycle": { "preStop": { "httpGet": { "port": 80 } } },
    });
    json!({ "template": defaulted_fields("engine", own) })
}

/// A template with empty values that the API server keeps.
fn empty_values() -> Value {
    let anything = json!({ "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {} });
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "",
        "selector": {},
    });
    json!({ "template": {
        "metadata": { "labels": { "example.com/label": "" }, "annotations": { "example.com/annotation": "" } },
        "spec": {
            "nodeSelector": { "example.com/role": "" }, "automountServiceAccountToken": false,
            "securityContext": { "runAsUser": 0, "runAsGroup": 0, "fsGroup": 0 },
            "tolerations": [{ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [anything] } },
            "topologySpreadConstraints": [
                { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {} },
            ],
            "volumes": [
                { "name": "claim", "ephemeral": { "volumeClaimTemplate": { "spec": claim } } },
                { "name": "scratch", "emptyDir": {} },
            ],
            "containers": [{
                "name": "side", "image": "side",
                "securityContext": { "allowPrivilegeEscalation": false, "runAsUser": 0, "runAsGroup": 0 },
            }],
        },
    } })
}

#[rstest]
#[case::bare(json!({}), None)]
#[case::stopped(json!({ "replicas": 0 }), None)]
#[case::claim(json!({ "storage": { "persistentVolumeClaim": { "size": "1024Mi" } } }), None)]
#[case::host_path(json!({ "storage": { "hostPath": { "path": "/data" } } }), None)]
#[case::memory(json!({ "storage": { "emptyDir": { "medium": "Memory", "sizeLimit": "1000Ki" } } }), None)]
#[case::ui(json!({ "uiSidecar": true }), None)]
#[case::defaults(defaulted_template(), None)]
#[case::defaults_of_a_class(json!({}), Some(defaulted_template()))]
#[case::empty_values(empty_values(), None)]
#[case::claim_without_a_class(json!({ "storage": { "persistentVolumeClaim": { "storageClassName": "" } } }), None)]
#[case::claim_without_access_modes(json!({ "storage": { "persistentVolumeClaim": { "accessModes": [] } } }), None)]
#[tokio::test]
async fn defaults_of_the_api_server_are_not_drift(#[case] spec: Value, #[case] class: Option<Value>) {
    let client = Cluster::attach().client().await.expect("connect as admin");
    let engine = effective(&namespace(&client, "render").await, &spec, class.as_ref());
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
    let namespace = namespace_with(&client, "render", &[RESTRICTED]).await;
    let set = stateful_set(&effective(&namespace, &spec, None), 0);
    admit(&cluster, &namespace, &set.spec.expect("a spec").template).expect("admit the pod");
}
