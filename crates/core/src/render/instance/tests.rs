//! Snapshots of complete sets of rendered objects, and properties of every rendered object.

use std::fmt::Write;

use firebolt_api::FireboltInstance;
use firebolt_api::key::{Annotation, Label, RESERVED_PREFIX};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use rstest::rstest;
use serde::Serialize;
use serde_json::{Value, json};

use super::*;
use crate::resolve::Defaults;
use crate::resolve::instance::{Postgres, resolve};

const HASH: &str = "credentialshash0";
const PASSWORD: &str = "0123456789abcdef01234567";

/// An instance called `main`, with the given settings.
fn instance(spec: &Value) -> FireboltInstance {
    let mut full = json!({ "id": "01J00000000000000000000000", "metadata": {}, "gateway": {} });
    for (key, value) in spec.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "v", "kind": "FireboltInstance",
        "metadata": { "name": "main", "namespace": "data", "uid": "instance-uid" }, "spec": full,
    }))
    .expect("an instance")
}

/// The instance with the operator's defaults, in a cluster with IPv4 addresses.
pub(super) fn effective(spec: &Value) -> EffectiveInstance {
    resolve(&instance(spec), &Defaults::example(), false)
}

/// Every object of the instance.
fn objects(instance: &EffectiveInstance) -> Vec<Value> {
    fn json(object: &impl Serialize) -> Value {
        serde_json::to_value(object).expect("an object is JSON")
    }
    let postgres = [
        json(&postgres_credentials(instance, PASSWORD)),
        json(&postgres_stateful_set(instance)),
        json(&postgres_service(instance)),
    ];
    let metadata = [
        json(&metadata_config_map(instance)),
        json(&metadata_deployment(instance, HASH)),
        json(&metadata_service(instance)),
    ];
    let rights = [
        json(&gateway_service_account(instance)),
        json(&gateway_role(instance)),
        json(&gateway_role_binding(instance)),
    ];
    let gateway = [
        json(&gateway_config_map(instance)),
        json(&gateway_deployment(instance)),
        json(&gateway_service(instance)),
        json(&gateway_disruption_budget(instance)),
    ];
    let postgres = matches!(instance.postgres, Postgres::Internal { .. }).then_some(postgres);
    let rights = instance.gateway.service_account.as_ref().map(|_| rights);
    let mut objects: Vec<_> = postgres.into_iter().flatten().chain(metadata).collect();
    objects.extend(rights.into_iter().flatten().chain(gateway));
    objects
}

/// All objects, without the configuration of Envoy, which is shown elsewhere.
fn everything(instance: &EffectiveInstance) -> String {
    let mut text = String::new();
    for mut object in objects(instance) {
        if let Some(envoy) = object.pointer_mut("/data/envoy.yaml") {
            *envoy = json!("(not shown here)");
        }
        let of_gateway = object["metadata"]["labels"][Label::Component.key()] == Component::Gateway.key();
        let annotations = object.pointer_mut("/spec/template/metadata/annotations");
        if let Some(annotations) = annotations.filter(|_| of_gateway) {
            annotations[Annotation::ConfigHash.key()] = json!("(not shown here)");
        }
        write!(text, "---\n{}", firebolt_api::to_yaml(&object)).expect("write to a text");
    }
    text
}

/// A template that says something about everything.
fn template(own: &str) -> Value {
    json!({
        "metadata": { "labels": { "team": "data" }, "annotations": { "a.example/b": "c" } },
        "spec": {
            "nodeSelector": { "pool": "system" }, "priorityClassName": "high", "runtimeClassName": "sandbox",
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
            "topologySpreadConstraints": [{ "maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule" }],
            "dnsConfig": { "options": [{ "name": "ndots", "value": "1" }] },
            "imagePullSecrets": [{ "name": "own" }],
            "securityContext": { "fsGroup": 2000, "supplementalGroups": [3000] },
            "volumes": [{ "name": "cache", "emptyDir": {} }],
            "initContainers": [{ "name": "warm", "image": "warm:1" }],
            "containers": [
                { "name": "proxy", "image": "proxy:1", "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }] },
                { "name": own, "image": "own:latest", "resources": { "limits": { "cpu": 4, "memory": "16Gi" } } },
            ],
        },
    })
}

#[rstest]
#[case::bare(json!({}), Defaults::example(), false)]
#[case::external(json!({ "metadata": { "postgres": {
    "host": "[2001:db8::1]", "port": 6432, "database": "meta", "schema": "own", "credentialsSecretRef": { "name": "own-database" },
} } }), Defaults::example(), false)]
#[case::template(json!({
    "metadata": { "template": template("metadata") },
    "gateway": { "replicas": 5, "metricsPort": 9100, "wakeTimeout": "90s", "template": template("envoy") },
}), Defaults::example(), false)]
#[case::service_accounts(json!({
    "metadata": { "template": { "spec": { "serviceAccountName": "reader" } } },
    "gateway": { "template": { "spec": { "serviceAccountName": "edge", "automountServiceAccountToken": true } } },
}), Defaults::example(), false)]
#[case::mirrored_yaml_ipv6(json!({ "metadata": { "configFormat": "yaml", "template": template("metadata") } }), elsewhere(), true)]
fn renders(#[case] spec: Value, #[case] defaults: Defaults, #[case] ipv6: bool) {
    let name = std::thread::current().name().expect("a test has a name").to_owned();
    // The name of the case, after the number that orders it.
    let case = name
        .rsplit("case_")
        .next()
        .and_then(|case| case.split_once('_'))
        .expect("a case")
        .1;
    let instance = resolve(&instance(&spec), &defaults, ipv6);
    insta::assert_snapshot!(case, everything(&instance));
}

/// An operator in another kind of cluster: images from a mirror, and another domain.
fn elsewhere() -> Defaults {
    Defaults {
        image_pull_secrets: vec!["mirror".to_owned()],
        cluster_domain: "example.internal".to_owned(),
        ..Defaults::example()
    }
}

#[test]
fn every_object_has_its_place_its_labels_and_its_owner() {
    let instance = effective(&json!({}));
    let objects = objects(&instance);
    assert_eq!(objects.len(), 13);
    for object in objects {
        let metadata = &object["metadata"];
        assert_eq!(metadata["namespace"], "data", "{object}");
        assert!(
            metadata["name"].as_str().is_some_and(|name| name.starts_with("main-")),
            "{object}"
        );
        assert_eq!(metadata["labels"][Label::Instance.key()], "main", "{object}");
        assert!(metadata["labels"][Label::Component.key()].is_string(), "{object}");
        let owner = &metadata["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["uid"], &owner["controller"]),
            (&json!("FireboltInstance"), &json!("instance-uid"), &json!(true)),
            "{object}"
        );
    }
}

#[test]
fn the_cluster_domain_is_nowhere_written_out() {
    let instance = resolve(&instance(&json!({})), &elsewhere(), false);
    let text = json!(objects(&instance)).to_string();
    assert!(text.contains("main-metadata-pg.data.svc.example.internal"), "{text}");
    assert!(!text.contains("cluster.local"), "{text}");
    assert_eq!(
        instance.metadata_endpoint(),
        "main-metadata.data.svc.example.internal:7000"
    );
    assert_eq!(instance.gateway_endpoint(), "main-gateway.data.svc.example.internal");
}

fn metadata_pods(instance: &EffectiveInstance, hash: &str) -> PodTemplateSpec {
    metadata_deployment(instance, hash).spec.expect("a spec").template
}

fn gateway_pods(instance: &EffectiveInstance) -> PodTemplateSpec {
    gateway_deployment(instance).spec.expect("a spec").template
}

#[test]
fn other_credentials_make_other_pods() {
    let instance = effective(&json!({}));
    assert_ne!(metadata_pods(&instance, "a"), metadata_pods(&instance, "b"));
    let annotations = metadata_pods(&instance, "a").metadata.expect("metadata").annotations;
    assert_eq!(
        annotations.expect("annotations")[Annotation::CredentialsHash.key()],
        "a"
    );
}

#[test]
fn the_credentials_are_read_from_the_secret_that_the_instance_names() {
    let external =
        json!({ "postgres": { "host": "h", "database": "d", "credentialsSecretRef": { "name": "own-database" } } });
    for (metadata, secret) in [(json!({}), "main-metadata-postgres-creds"), (external, "own-database")] {
        let instance = effective(&json!({ "metadata": metadata }));
        assert_eq!(instance.credentials_secret(), secret);
        let volumes = metadata_pods(&instance, HASH)
            .spec
            .expect("a spec")
            .volumes
            .expect("volumes");
        let mounted = volumes.into_iter().find_map(|volume| volume.secret).expect("a Secret");
        assert_eq!(mounted.secret_name.as_deref(), Some(secret));
    }
}

#[test]
fn the_secret_holds_what_the_server_is_initialised_with() {
    let instance = effective(&json!({}));
    let data = postgres_credentials(&instance, PASSWORD).data.expect("data");
    let texts: Vec<(&str, &[u8])> = data
        .iter()
        .map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .collect();
    let expected: [(&str, &[u8]); 3] = [
        (DATABASE_KEY, POSTGRES_DATABASE.as_bytes()),
        (PASSWORD_KEY, PASSWORD.as_bytes()),
        (USERNAME_KEY, POSTGRES_USER.as_bytes()),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn the_claim_has_the_name_that_the_stateful_set_controller_gives_it() {
    let instance = effective(&json!({}));
    let set = postgres_stateful_set(&instance);
    let claims = set.spec.expect("a spec").volume_claim_templates.expect("claims");
    let (claim, set) = (claims[0].metadata.name.as_deref(), set.metadata.name.as_deref());
    let name = format!("{}-{}-0", claim.expect("a name"), set.expect("a name"));
    assert_eq!(postgres_claim_name(&instance.name), name);
    assert_eq!(name, "data-main-metadata-pg-0");
}

#[test]
fn the_gateway_restarts_when_its_configuration_changes_and_only_then() {
    let hash = |instance: &EffectiveInstance| {
        let annotations = gateway_pods(instance).metadata.expect("metadata").annotations;
        annotations.expect("annotations")[Annotation::ConfigHash.key()].clone()
    };
    let changed = |change: fn(&mut EffectiveInstance)| {
        let mut instance = effective(&json!({}));
        change(&mut instance);
        hash(&instance)
    };
    let before = changed(|_| {});
    let configuring: [fn(&mut EffectiveInstance); 4] = [
        |instance| instance.namespace = "elsewhere".to_owned(),
        |instance| instance.cluster_domain = "example.internal".to_owned(),
        |instance| instance.gateway.metrics_port = 9100,
        |instance| instance.gateway.ipv6 = true,
    ];
    for change in configuring {
        assert_ne!(changed(change), before);
    }
    let others: [fn(&mut EffectiveInstance); 4] = [
        |instance| instance.name = "other".to_owned(),
        |instance| instance.uid = "other".to_owned(),
        |instance| instance.id = "other".to_owned(),
        |instance| instance.gateway.replicas = 9,
    ];
    for change in others {
        assert_eq!(changed(change), before);
    }
}

#[test]
fn a_label_of_a_user_cannot_move_a_pod_into_another_component() {
    let labels = json!({ Label::Component.key(): "other", Label::Instance.key(): "other" });
    let annotations = json!({ Annotation::ConfigHash.key(): "same", format!("{RESERVED_PREFIX}x"): "kept" });
    let template = json!({ "metadata": { "labels": labels, "annotations": annotations } });
    let instance = effective(&json!({ "metadata": { "template": template }, "gateway": { "template": template } }));
    for (pods, component) in [
        (metadata_pods(&instance, HASH), Component::Metadata),
        (gateway_pods(&instance), Component::Gateway),
    ] {
        let metadata = pods.metadata.expect("metadata");
        assert_eq!(metadata.labels, Some(component_labels("main", component)));
        assert_ne!(
            metadata.annotations.expect("annotations")[Annotation::ConfigHash.key()],
            "same"
        );
    }
}

#[test]
fn volumes_of_the_operator_are_its_own_even_where_admission_was_bypassed() {
    let volume = |name: &str| json!({ "spec": { "volumes": [{ "name": name, "hostPath": { "path": "/" } }] } });
    let instance = effective(
        &json!({ "metadata": { "template": volume("config") }, "gateway": { "template": volume("config-volume") } }),
    );
    for pods in [metadata_pods(&instance, HASH), gateway_pods(&instance)] {
        let volumes = pods.spec.expect("a spec").volumes.expect("volumes");
        assert!(volumes.iter().all(|volume| volume.host_path.is_none()), "{volumes:?}");
    }
}

#[test]
fn containers_of_the_operator_are_its_own_even_where_admission_was_bypassed() {
    let container = json!({ "name": "wake-agent", "image": "mine:1" });
    let template = json!({ "spec": { "containers": [container] } });
    let pods = gateway_pods(&effective(&json!({ "gateway": { "template": template } })));
    let containers = pods.spec.expect("a spec").containers;
    let images: Vec<_> = containers.iter().filter_map(|one| one.image.as_deref()).collect();
    assert_eq!(
        images,
        ["registry.example/envoy:1.2.3", "registry.example/wake-agent:1.2.3"]
    );
}

/// A new text here makes the pods of every gateway outdated at the next upgrade. Change it only for that reason.
#[test]
fn the_config_hash_of_a_bare_gateway_never_changes() {
    let annotations = gateway_pods(&effective(&json!({})))
        .metadata
        .and_then(|metadata| metadata.annotations);
    insta::assert_snapshot!(annotations.expect("annotations")[Annotation::ConfigHash.key()], @"66ab51d1515587a3");
}

/// The same, of the metadata service.
#[test]
fn the_config_hash_of_a_bare_metadata_service_never_changes() {
    let annotations = metadata_pods(&effective(&json!({})), HASH)
        .metadata
        .and_then(|metadata| metadata.annotations);
    insta::assert_snapshot!(annotations.expect("annotations")[Annotation::ConfigHash.key()], @"633fe55571c611eb");
}

/// A new text here adopts the rendering of the operator in every instance at the next upgrade. Raise the version instead.
#[test]
fn the_inputs_hash_of_a_bare_component_never_changes() {
    let instance = effective(&json!({}));
    let hashes = [Component::Postgres, Component::Metadata, Component::Gateway]
        .map(|component| inputs_hash(&instance, component, Some(HASH)));
    insta::assert_snapshot!(hashes.join(" "), @"1-74234e98afe7498f 1-4e975de794f249af 1-f409cd2b41b7f4b4");
}

#[test]
fn defaults_of_the_operator_are_no_inputs() {
    let other = |defaults: &Defaults| {
        let instance = resolve(&instance(&json!({})), defaults, false);
        [Component::Postgres, Component::Metadata, Component::Gateway]
            .map(|component| inputs_hash(&instance, component, Some(HASH)))
    };
    let before = other(&Defaults::example());
    let after = other(&Defaults {
        postgres_image: "other".to_owned(),
        metadata_image: "other".to_owned(),
        envoy_image: "other".to_owned(),
        wake_agent_image: "other".to_owned(),
        image_pull_secrets: vec!["other".to_owned()],
        ..Defaults::example()
    });
    assert_eq!(after, before);
    let moved = other(&Defaults {
        cluster_domain: "other".to_owned(),
        ..Defaults::example()
    });
    assert_eq!(moved[0], before[0]);
    assert!(
        moved[1] != before[1] && moved[2] != before[2],
        "their addresses are others"
    );
}
