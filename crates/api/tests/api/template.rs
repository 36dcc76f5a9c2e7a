//! Embedded pod templates: what is stored, pruned and rejected. The four places share one schema.

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Edit, assert_rejected, at, engine, engine_class, instance, kube};

/// Stores the template in each of the four places and returns the stored objects.
async fn in_every_place(template: &Value) -> Vec<Value> {
    let kube = kube().await;
    let mut results = Vec::new();
    for (manifest, path) in places() {
        let stored = kube
            .try_create(&manifest.with(path, template.clone()))
            .await
            .expect("accept");
        decode(&stored);
        results.push(at(&stored, path).expect("keep the template").clone());
    }
    results
}

fn places() -> [(Value, &'static str); 4] {
    [
        (engine(), "spec.template"),
        (engine_class(), "spec.template"),
        (instance(), "spec.metadata.template"),
        (instance(), "spec.gateway.template"),
    ]
}

/// Our types must be able to deserialize whatever the API server stores.
fn decode(stored: &Value) {
    let stored = stored.clone();
    let decoded = match stored["kind"].as_str().expect("a kind") {
        "FireboltEngine" => serde_json::from_value::<FireboltEngine>(stored).map(drop),
        "FireboltEngineClass" => serde_json::from_value::<FireboltEngineClass>(stored).map(drop),
        _ => serde_json::from_value::<FireboltInstance>(stored).map(drop),
    };
    decoded.expect("decode what the API server stored");
}

#[rstest]
#[case::nothing(json!({}))]
#[case::no_containers(json!({ "spec": { "tolerations": [{ "key": "dedicated", "operator": "Exists" }] } }))]
#[case::labels_and_annotations(json!({ "metadata": { "labels": { "team": "data" }, "annotations": { "a.example/b": "c" } } }))]
// A template may not set these fields, but they must reach the webhook, which reports them.
#[case::metadata_for_the_webhook_to_refuse(json!({ "metadata": {
    "name": "n", "generateName": "g-", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 2,
    "finalizers": ["example.com/f"], "deletionGracePeriodSeconds": 1,
    "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" }],
} }))]
// Go programs write this into every template.
#[case::no_creation_time(json!({ "metadata": { "creationTimestamp": null, "labels": { "a": "b" } } }))]
#[case::numbers_as_quantities(json!({ "spec": { "containers": [
    { "name": "engine", "resources": { "limits": { "cpu": 2, "memory": "4Gi" }, "requests": { "cpu": "500m" } } },
] } }))]
#[case::ports_and_probes(json!({ "spec": { "containers": [{
    "name": "proxy", "image": "proxy:1",
    "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 80, "protocol": "UDP" }],
    "readinessProbe": { "httpGet": { "path": "/", "port": "http" } },
    "livenessProbe": { "tcpSocket": { "port": 80 } },
}] } }))]
#[case::volumes(json!({ "spec": { "volumes": [
    { "name": "a", "emptyDir": { "sizeLimit": "1Gi" } },
    { "name": "b", "secret": { "secretName": "s", "items": [{ "key": "k", "path": "p" }] } },
    { "name": "c", "ephemeral": { "volumeClaimTemplate": { "metadata": { "labels": { "x": "y" } }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } } } },
] } }))]
#[case::scheduling(json!({ "spec": {
    "nodeSelector": { "pool": "engines" }, "serviceAccountName": "sa", "priorityClassName": "high",
    "imagePullSecrets": [{ "name": "registry" }], "securityContext": { "runAsUser": 1000, "fsGroup": 1000 },
    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "a": "b" } },
    }] } },
    "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }],
} }))]
#[tokio::test]
async fn keeps_known_fields(#[case] template: Value) {
    for stored in in_every_place(&template).await {
        assert_eq!(stored, template);
    }
}

#[tokio::test]
async fn prunes_unknown_fields_at_every_depth() {
    let template = json!({
        "flavour": 1,
        "metadata": { "labels": { "a": "b" }, "flavour": 1 },
        "spec": { "flavour": 1, "containers": [{ "name": "engine", "flavour": 1, "env": [{ "name": "A", "flavour": 1 }] }] },
    });
    for stored in in_every_place(&template).await {
        let expected = json!({
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "engine", "env": [{ "name": "A" }] }] },
        });
        assert_eq!(stored, expected);
    }
}

#[rstest]
#[case::container_without_name(json!({ "spec": { "containers": [{ "image": "a:1" }] } }), "spec.containers[0].name", "Required value")]
#[case::container_twice(json!({ "spec": { "containers": [{ "name": "a" }, { "name": "a" }] } }), "spec.containers[1]", "Duplicate value")]
#[case::env_twice(json!({ "spec": { "containers": [{ "name": "a", "env": [{ "name": "E" }, { "name": "E" }] }] } }), "spec.containers[0].env[1]", "Duplicate value")]
#[case::volume_twice(json!({ "spec": { "volumes": [{ "name": "v" }, { "name": "v" }] } }), "spec.volumes[1]", "Duplicate value")]
#[case::label_number(json!({ "metadata": { "labels": { "a": 1 } } }), "metadata.labels.a", "must be of type string")]
#[case::quantity(json!({ "spec": { "containers": [{ "name": "a", "resources": { "limits": { "cpu": "two" } } }] } }), "spec.containers[0].resources.limits.cpu", "should match")]
#[case::port_out_of_range(json!({ "spec": { "containers": [{ "name": "a", "livenessProbe": { "tcpSocket": { "port": 99_999_999_999_i64 } } }] } }), "spec.containers[0].livenessProbe.tcpSocket.port", "less than or equal to 2147483647")]
#[case::priority_text(json!({ "spec": { "priority": "high" } }), "spec.priority", "must be of type integer")]
#[tokio::test]
async fn rejects_invalid_values(#[case] template: Value, #[case] field: &str, #[case] message: &str) {
    for (manifest, path) in places() {
        assert_rejected(
            manifest.with(path, template.clone()),
            &format!("{path}.{field}"),
            message,
        )
        .await;
    }
}
