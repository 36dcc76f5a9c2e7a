//! The settings of users, and the operator's defaults for unset fields.

use std::time::Duration;

use firebolt_api::ConfigFormat;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn instance(metadata: &Value, gateway: &Value) -> FireboltInstance {
    serde_json::from_value(json!({
        "apiVersion": "v", "kind": "FireboltInstance", "metadata": { "name": "main", "namespace": "data", "uid": "u" },
        "spec": { "metadata": metadata, "gateway": gateway },
    }))
    .expect("an instance")
}

fn effective(metadata: &Value, gateway: &Value) -> EffectiveInstance {
    resolve(&instance(metadata, gateway), &Defaults::example(), false)
}

/// The pods of the metadata service with this template.
fn metadata_pod(template: &Value) -> Value {
    let effective = effective(&json!({ "template": template }), &json!({}));
    serde_json::to_value(effective.metadata.template.spec).expect("a spec is JSON")
}

/// The pods of the gateway with this template.
fn gateway_pod(template: &Value) -> Value {
    let effective = effective(&json!({}), &json!({ "template": template }));
    serde_json::to_value(effective.gateway.template.spec).expect("a spec is JSON")
}

#[test]
fn a_bare_instance_has_the_defaults_of_the_operator() {
    let effective = effective(&json!({}), &json!({}));
    let place = (&*effective.namespace, &*effective.name, &*effective.uid, &*effective.id);
    assert_eq!(place, ("data", "main", "u", ""));
    assert_eq!(effective.cluster_domain, "cluster.local");
    assert_eq!(effective.metadata.config_format, ConfigFormat::Xml);
    assert_eq!((effective.gateway.replicas, effective.gateway.metrics_port), (2, 9090));
    assert_eq!(effective.gateway.service_account.as_deref(), Some("main-gateway"));
    assert_eq!(effective.gateway.wake_agent_image, "registry.example/wake-agent:1.2.3");
    assert_eq!(effective.gateway.hold_timeout, Duration::from_mins(2));
    let Postgres::Internal { image, .. } = &effective.postgres else {
        panic!("an internal database");
    };
    assert_eq!(image, "registry.example/postgres:1.2.3");
}

#[test]
fn an_external_database_is_taken_as_it_is() {
    let postgres = json!({ "host": "db", "database": "d", "credentialsSecretRef": { "name": "s" } });
    let effective = effective(&json!({ "postgres": postgres }), &json!({}));
    let Postgres::External(external) = &effective.postgres else {
        panic!("an external database");
    };
    assert_eq!((external.port, external.schema.as_str()), (5432, "public"));
}

#[rstest]
#[case::silent(json!({ "name": "NAME" }), "registry.example/DEFAULT:1.2.3", "IfNotPresent")]
#[case::empty(json!({ "name": "NAME", "image": "", "imagePullPolicy": "" }), "registry.example/DEFAULT:1.2.3", "IfNotPresent")]
#[case::image(json!({ "name": "NAME", "image": "mine:latest" }), "mine:latest", "Always")]
#[case::policy(json!({ "name": "NAME", "image": "mine:latest", "imagePullPolicy": "Never" }), "mine:latest", "Never")]
fn the_image_is_the_users_or_the_operators(#[case] container: Value, #[case] image: &str, #[case] policy: &str) {
    for (own, default, pod) in [
        ("metadata", "metadata", metadata_pod as fn(&Value) -> Value),
        ("envoy", "envoy", gateway_pod),
    ] {
        let container: Value = serde_json::from_str(&container.to_string().replace("NAME", own)).expect("a container");
        let spec = pod(&json!({ "spec": { "containers": [{ "name": "proxy" }, container] } }));
        let found = &spec["containers"][0];
        assert_eq!(found["name"], own);
        assert_eq!(found["image"], image.replace("DEFAULT", default));
        assert_eq!(found["imagePullPolicy"], policy);
        assert_eq!(spec["containers"][1]["name"], "proxy");
    }
}

#[test]
fn pull_secrets_of_the_operator_come_first() {
    let defaults = Defaults {
        image_pull_secrets: vec!["mirror".to_owned()],
        ..Defaults::example()
    };
    let template = json!({ "template": { "spec": { "imagePullSecrets": [{ "name": "own" }] } } });
    let effective = resolve(&instance(&template, &template), &defaults, false);
    for template in [effective.metadata.template, effective.gateway.template] {
        let secrets = template.spec.expect("a spec").image_pull_secrets.expect("secrets");
        let names: Vec<&str> = secrets.iter().map(|secret| secret.name.as_str()).collect();
        assert_eq!(names, ["mirror", "own"]);
    }
    let Postgres::Internal { image_pull_secrets, .. } = effective.postgres else {
        panic!("an internal database");
    };
    assert_eq!(image_pull_secrets, ["mirror"]);
}

#[test]
fn security_defaults_apply_below_user_settings() {
    let template =
        json!({ "spec": { "securityContext": { "fsGroup": 5, "seccompProfile": { "type": "Unconfined" } } } });
    let metadata = metadata_pod(&template);
    assert_eq!(
        metadata["securityContext"],
        json!({
            "fsGroup": 5, "runAsGroup": 1111, "runAsNonRoot": true, "runAsUser": 1111,
            "seccompProfile": { "type": "Unconfined" },
        })
    );
    let gateway = gateway_pod(&template);
    assert_eq!(
        gateway["securityContext"],
        json!({ "fsGroup": 5, "runAsNonRoot": true, "seccompProfile": { "type": "Unconfined" } })
    );
    let weakened = gateway_pod(&json!({ "spec": { "securityContext": { "runAsNonRoot": false } } }));
    assert_eq!(weakened["securityContext"]["runAsNonRoot"], false);
    assert_eq!(weakened["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
}

#[rstest]
#[case::silent(json!({}), "main-gateway", json!(false), Some("main-gateway"))]
#[case::empty(json!({ "serviceAccountName": "" }), "main-gateway", json!(false), Some("main-gateway"))]
#[case::of_the_user(json!({ "serviceAccountName": "edge" }), "edge", json!(false), None)]
#[case::with_token(json!({ "serviceAccountName": "edge", "automountServiceAccountToken": true }), "edge", json!(true), None)]
#[case::without_token(json!({ "serviceAccountName": "edge", "automountServiceAccountToken": false }), "edge", json!(false), None)]
#[case::token_where_admission_was_bypassed(json!({ "automountServiceAccountToken": true }), "main-gateway", json!(false), Some("main-gateway"))]
fn the_gateway_runs_under_the_users_account_or_the_operators(
    #[case] spec: Value,
    #[case] account: &str,
    #[case] token: Value,
    #[case] made: Option<&str>,
) {
    let template = json!({ "template": { "spec": spec } });
    let gateway = effective(&json!({}), &template).gateway;
    assert_eq!(gateway.service_account.as_deref(), made);
    let pod = gateway.template.spec.expect("a spec");
    assert_eq!(pod.service_account_name.as_deref(), Some(account));
    assert_eq!(json!(pod.automount_service_account_token), token);
}

#[test]
fn the_metadata_service_has_no_token() {
    for spec in [
        json!({}),
        json!({ "serviceAccountName": "reader", "automountServiceAccountToken": true }),
    ] {
        let pod = metadata_pod(&json!({ "spec": spec }));
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(
            pod["serviceAccountName"],
            spec.get("serviceAccountName").cloned().unwrap_or(json!("default"))
        );
    }
}

#[rstest]
#[case::silent(json!({}), true)]
#[case::empty(json!({ "affinity": {}, "topologySpreadConstraints": [] }), true)]
#[case::selector(json!({ "nodeSelector": { "a": "b" } }), true)]
#[case::affinity(json!({ "affinity": { "nodeAffinity": {} } }), false)]
#[case::spread(json!({ "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "x" }] }), false)]
fn gateway_pods_are_spread_unless_the_user_places_them(#[case] spec: Value, #[case] spread: bool) {
    let pod = gateway_pod(&json!({ "spec": spec }));
    let constraints = pod["topologySpreadConstraints"].as_array().cloned().unwrap_or_default();
    let keys: Vec<&str> = constraints
        .iter()
        .filter_map(|one| one["topologyKey"].as_str())
        .collect();
    if spread {
        assert_eq!(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
        assert!(
            constraints
                .iter()
                .all(|one| one["whenUnsatisfiable"] == "ScheduleAnyway")
        );
    } else {
        assert!(!keys.contains(&"kubernetes.io/hostname"), "{keys:?}");
    }
    // The metadata service is one pod: there is nothing to spread.
    let metadata = metadata_pod(&json!({ "spec": { "nodeSelector": { "a": "b" } } }));
    assert_eq!(metadata["topologySpreadConstraints"], json!(null));
}

#[rstest]
#[case::silent(json!({}), true)]
#[case::empty(json!({ "limits": {}, "requests": {} }), true)]
#[case::requests(json!({ "requests": { "cpu": "1" } }), false)]
#[case::limits(json!({ "limits": { "memory": "1Gi" } }), false)]
fn resources_of_the_gateway_are_the_users_whole_or_the_operators(#[case] resources: Value, #[case] default: bool) {
    let container = json!({ "name": "envoy", "resources": resources });
    let pod = gateway_pod(&json!({ "spec": { "containers": [container] } }));
    let expected = json!({ "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "512Mi" } });
    let found = &pod["containers"][0]["resources"];
    assert_eq!(*found, if default { expected } else { resources });
}

#[rstest]
#[case(json!({ "replicas": 0 }), 0, 9090)]
#[case(json!({ "replicas": 7, "metricsPort": 9100 }), 7, 9100)]
#[case::no_port(json!({ "metricsPort": 0 }), 2, 9090)]
#[case::no_number(json!({ "metricsPort": 70_000 }), 2, 9090)]
fn size_and_port_of_the_gateway_are_the_users(#[case] spec: Value, #[case] replicas: i32, #[case] port: u16) {
    let gateway = effective(&json!({}), &spec).gateway;
    assert_eq!((gateway.replicas, gateway.metrics_port), (replicas, port));
}

#[test]
fn queries_are_held_for_the_configured_time() {
    let gateway = effective(&json!({}), &json!({ "wakeTimeout": "1m30.5s" })).gateway;
    assert_eq!(gateway.hold_timeout, Duration::from_millis(90_500));
}

#[rstest]
#[case::of_the_operator(json!({}), 128 << 20)]
#[case::quarter(json!({ "limits": { "memory": "1Gi" } }), 256 << 20)]
#[case::otherwise_written(json!({ "limits": { "memory": "1073741824" } }), 256 << 20)]
#[case::rounded_down(json!({ "limits": { "memory": "100000003" } }), 25_000_000)]
#[case::little(json!({ "limits": { "memory": "16Mi" } }), 8 << 20)]
#[case::no_limit(json!({ "requests": { "memory": "1Gi" } }), 128 << 20)]
#[case::limit_of_something_else(json!({ "limits": { "cpu": "1" } }), 128 << 20)]
#[case::limit_of_nothing(json!({ "limits": { "memory": "0" } }), 128 << 20)]
#[case::unreadable(json!({ "limits": { "memory": "a lot" } }), 128 << 20)]
fn held_queries_may_take_a_quarter_of_the_memory_of_envoy(#[case] resources: Value, #[case] bytes: u64) {
    let container = |name: &str, resources: &Value| json!({ "name": name, "resources": resources });
    let other = json!({ "limits": { "memory": "64Gi" } });
    let containers = [container("proxy", &other), container("envoy", &resources)];
    let gateway = json!({ "template": { "spec": { "containers": containers } } });
    assert_eq!(effective(&json!({}), &gateway).gateway.hold_memory, bytes);
}
