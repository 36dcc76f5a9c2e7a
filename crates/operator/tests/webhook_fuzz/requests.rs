//! Questions as the API server asks them.

use serde_json::{Value, json};

const ENGINE: &str = "/validate-compute-firebolt-io-v1alpha1-fireboltengine";
const CLASS: &str = "/validate-compute-firebolt-io-v1alpha1-fireboltengineclass";
const INSTANCE: &str = "/validate-compute-firebolt-io-v1alpha1-fireboltinstance";
const IDENTITY: &str = "/mutate-compute-firebolt-io-v1alpha1-fireboltinstance";
/// Where something, or nothing, is asked.
pub(crate) const PATHS: [&str; 7] = [ENGINE, CLASS, INSTANCE, IDENTITY, "/", "/healthz", "/%00/../x?y=%ff"];

/// One question of each kind, with where it is asked.
pub(crate) fn requests() -> Vec<(&'static str, Value)> {
    let (engine, class, instance) = (engine(), class(), instance());
    let ask = |operation: &str, object: &Value, old: &Value| {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": operation, "name": "a", "namespace": "ns",
                "kind": { "group": "compute.firebolt.io", "version": "v1alpha1", "kind": "K" },
                "userInfo": { "username": "admin", "groups": ["system:masters"] },
                "object": object, "oldObject": old, "dryRun": false, "options": null,
            },
        })
    };
    let mut changed = engine.clone();
    changed["spec"]["replicas"] = json!(5);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other:1");
    let mut external = instance.clone();
    external["spec"]["metadata"]["postgres"] =
        json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } });
    vec![
        (ENGINE, ask("CREATE", &engine, &Value::Null)),
        (ENGINE, ask("UPDATE", &changed, &engine)),
        (CLASS, ask("CREATE", &class, &Value::Null)),
        (CLASS, ask("DELETE", &Value::Null, &class)),
        (INSTANCE, ask("CREATE", &instance, &Value::Null)),
        (INSTANCE, ask("UPDATE", &external, &instance)),
        (INSTANCE, ask("DELETE", &Value::Null, &instance)),
        (IDENTITY, ask("CREATE", &instance, &Value::Null)),
    ]
}

/// What the API server has of this name.
pub(crate) fn stored(name: &str) -> Option<Value> {
    let object = match name {
        "c" => class(),
        "main" => instance(),
        "fireboltengines" => {
            json!({ "kind": "FireboltEngineList", "apiVersion": "compute.firebolt.io/v1alpha1", "metadata": {}, "items": [engine()] })
        }
        _ => return None,
    };
    Some(object)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": kind, "metadata": { "name": name, "namespace": "ns" },
        "spec": spec,
    })
}

fn engine() -> Value {
    let template = json!({
        "metadata": { "labels": { "team": "sales" } },
        "spec": {
            "volumes": [{ "name": "cache", "emptyDir": { "sizeLimit": "1Gi" } }],
            "tolerations": [{ "key": "a", "operator": "Exists" }],
            "containers": [
                { "name": "proxy", "image": "p:1", "ports": [{ "containerPort": 80 }] },
                {
                    "name": "engine", "env": [{ "name": "A", "value": "1" }],
                    "resources": { "limits": { "cpu": "2", "memory": "1Gi" } },
                    "volumeMounts": [{ "name": "cache", "mountPath": "/cache" }],
                },
            ],
        },
    });
    let spec = json!({
        "instanceRef": "main", "engineClassRef": "c", "replicas": 2, "template": template, "uiSidecar": true,
        "storage": { "persistentVolumeClaim": { "size": "1Gi" } }, "customEngineConfig": { "a": [1] },
        "drainCheckInterval": "5s",
    });
    object("FireboltEngine", "a", &spec)
}

fn class() -> Value {
    let template =
        json!({ "spec": { "containers": [{ "name": "shipper", "image": "s:1" }], "nodeSelector": { "a": "b" } } });
    object(
        "FireboltEngineClass",
        "c",
        &json!({ "template": template, "storage": { "emptyDir": {} } }),
    )
}

fn instance() -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "extra", "image": "e:1" }] } });
    object(
        "FireboltInstance",
        "main",
        &json!({ "metadata": { "template": template }, "gateway": { "replicas": 2, "template": template } }),
    )
}
