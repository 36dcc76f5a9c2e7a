//! Properties of all rules together, for every field in the schema of a pod template.

mod edits;
mod engine_with_class;
mod every_rule;
mod large_lists;
mod path;
mod schema;

use firebolt_api::FireboltEngine;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::fixture::{self, Target, rejects};
use super::*;
use crate::render::engine as render_engine;
use crate::render::instance as render_instance;
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};
use crate::resolve::instance;
use path::leads_somewhere;
use schema::{Everything, SCHEMA, any_template, sample};

/// The pod template that is rendered for a component with the given one.
fn rendered(of: Target, template: &Value) -> Value {
    let defaults = Defaults::example();
    let effective = || instance::resolve(&of.instance(template), &defaults, false);
    let pods = match of {
        Target::Engine => {
            let facts = InstanceFacts {
                id: "id".to_owned(),
                metadata_endpoint: "metadata:7000".to_owned(),
            };
            let effective = resolve(&fixture::engine(template), None, &facts, &defaults);
            render_engine::stateful_set(&effective, 0)
                .spec
                .map(|spec| spec.template)
        }
        Target::Metadata => render_instance::metadata_deployment(&effective(), "hash")
            .spec
            .map(|spec| spec.template),
        Target::Gateway => render_instance::gateway_deployment(&effective())
            .spec
            .map(|spec| spec.template),
    };
    serde_json::to_value(pods).expect("a template is JSON")
}

/// Whether everything that the user wrote is rendered. Lists may have more entries, in another order.
fn is_forwarded(written: &Value, rendered: &Value) -> bool {
    match (written, rendered) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().all(|(key, field)| is_forwarded(field, &rendered[key]))
        }
        (Value::Array(items), Value::Array(others)) => items
            .iter()
            .all(|item| others.iter().any(|other| is_forwarded(item, other))),
        (_, Value::Null) => is_empty_value(written),
        // The operator may replace an empty text.
        (Value::String(text), Value::String(_)) if text.is_empty() => true,
        // Quantities may be written as numbers.
        (Value::Number(number), Value::String(text)) => number.to_string() == *text,
        _ => written == rendered,
    }
}

/// Whether the value means the same as no value.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty_value),
    }
}

/// The fields of a part of the template that are rejected if they are set. All others must reach the pods.
fn refused_fields(of: Target, part: &Value, template: impl Fn(&str, Value) -> Value) -> Vec<String> {
    let fields = part["properties"].as_object().expect("an object");
    assert!(fields.len() > 10);
    let mut refused = Vec::new();
    for (field, schema) in fields {
        let template = template(field, sample(schema, &mut Everything));
        let violations = of.violations(&template);
        if violations.is_empty() {
            assert!(
                is_forwarded(&template, &rendered(of, &template)),
                "{field} is silently dropped"
            );
        } else {
            refused.push(field.clone());
        }
    }
    refused
}

#[rstest]
fn every_field_of_the_metadata_is_forwarded_or_refused(
    #[values(Target::Engine, Target::Metadata, Target::Gateway)] of: Target,
) {
    let refused = refused_fields(
        of,
        &SCHEMA["properties"]["metadata"],
        |field, value| json!({ "metadata": { field: value } }),
    );
    let expected = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    assert_eq!(refused, expected);
}

#[rstest]
#[case(Target::Engine, &["serviceAccount"])]
// The user in its security context differs from that of the image.
#[case(Target::Metadata, &["automountServiceAccountToken", "securityContext", "serviceAccount"])]
#[case(Target::Gateway, &["automountServiceAccountToken", "serviceAccount"])]
fn every_field_of_the_pod_is_forwarded_or_refused(#[case] of: Target, #[case] more: &[&str]) {
    let refused = refused_fields(
        of,
        &SCHEMA["properties"]["spec"],
        |field, value| json!({ "spec": { field: value } }),
    );
    let everywhere = [
        "activeDeadlineSeconds",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "restartPolicy",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
    ];
    let mut expected = [&everywhere, more].concat();
    expected.sort_unstable();
    assert_eq!(refused, expected);
}

#[rstest]
#[case(Target::Engine, &[])]
#[case(Target::Metadata, &["runAsGroup", "runAsUser"])]
#[case(Target::Gateway, &[])]
fn every_field_of_the_security_context_is_forwarded_or_refused(#[case] of: Target, #[case] expected: &[&str]) {
    let context = &SCHEMA["properties"]["spec"]["properties"]["securityContext"];
    let refused = refused_fields(
        of,
        context,
        |field, value| json!({ "spec": { "securityContext": { field: value } } }),
    );
    assert_eq!(refused, expected);
}

#[rstest]
#[case(Target::Engine, &[])]
#[case(Target::Metadata, &SETTINGS)]
#[case(Target::Gateway, &SETTINGS)]
fn every_field_of_the_container_is_forwarded_or_refused(#[case] of: Target, #[case] more: &[&str]) {
    let container = &SCHEMA["properties"]["spec"]["properties"]["containers"]["items"];
    let refused = refused_fields(of, container, |field, value| {
        let mut container = json!({ field: value });
        container["name"] = json!(of.container());
        json!({ "spec": { "containers": [container] } })
    });
    let everywhere = [
        "args",
        "command",
        "livenessProbe",
        "ports",
        "readinessProbe",
        "restartPolicy",
        "restartPolicyRules",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "tty",
    ];
    let mut expected = [&everywhere, more].concat();
    expected.sort_unstable();
    assert_eq!(refused, expected);
}

/// Fields of a container that users of engines extend, and users of instances do not.
const SETTINGS: [&str; 10] = [
    "env",
    "envFrom",
    "lifecycle",
    "resizePolicy",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

#[test]
fn without_a_template_nothing_is_refused() {
    let around = EngineContext {
        class: ClassLookup::NotNamed,
        instance: None,
        bounds: &Bounds::default(),
    };
    assert_eq!(super::engine(&FireboltEngine::default(), &around), []);
    assert_eq!(super::instance(&FireboltInstance::default()), []);
}

#[test]
fn all_violations_are_reported_together_in_the_order_of_the_rules() {
    let key = format!("{}x", firebolt_api::key::RESERVED_PREFIX);
    let template = json!({
        "metadata": { "labels": { &key: "v" }, "annotations": { &key: "v" }, "finalizers": ["f"], "name": "n" },
        "spec": {
            "initContainers": [{ "name": "engine" }],
            "containers": [
                { "name": "engine-web" },
                {
                    "name": "engine", "tty": true, "command": ["c"], "env": [{ "name": "POD_INDEX" }],
                    "volumeMounts": [{ "name": "data", "mountPath": "/d" }],
                },
                { "name": "engine" },
            ],
            "hostNetwork": true, "subdomain": "s",
        },
    });
    let expected = [
        ("metadata.name", ViolationKind::Forbidden),
        ("metadata.finalizers", ViolationKind::Forbidden),
        (&format!("metadata.labels[{key}]"), ViolationKind::Forbidden),
        (&format!("metadata.annotations[{key}]"), ViolationKind::Forbidden),
        ("spec.subdomain", ViolationKind::Forbidden),
        ("spec.hostNetwork", ViolationKind::Forbidden),
        ("spec.containers[engine-web].name", ViolationKind::Forbidden),
        ("spec.containers[2].name", ViolationKind::Duplicate),
        ("spec.containers[engine].command", ViolationKind::Forbidden),
        ("spec.containers[engine].tty", ViolationKind::Forbidden),
        ("spec.containers[engine].env[0].name", ViolationKind::Forbidden),
        ("spec.containers[engine].volumeMounts[0].name", ViolationKind::Forbidden),
        ("spec.initContainers[engine].name", ViolationKind::Forbidden),
    ];
    rejects(&template, &expected.map(|(path, kind)| (path, kind, "")));
}

#[test]
fn all_violations_of_an_instance_are_reported_together_component_by_component() {
    let template = |own: &str, volume: &str| {
        let key = format!("{}x", firebolt_api::key::RESERVED_PREFIX);
        let secret = format!("{}-metadata-postgres-creds", fixture::INSTANCE);
        json!({
            "metadata": { "labels": { key: "v" }, "name": "n" },
            "spec": {
                "serviceAccount": "a", "automountServiceAccountToken": true, "hostNetwork": true,
                "securityContext": { "runAsUser": 1 },
                "volumes": [{ "name": "s", "secret": { "secretName": secret } }, { "name": "tmp" }],
                "initContainers": [{ "name": own }, { "name": "proxy" }],
                "containers": [
                    { "name": own, "env": [{ "name": "A" }], "command": ["c"] },
                    { "name": "proxy", "volumeMounts": [{ "name": volume, "mountPath": "/m" }], "envFrom": [{ "secretRef": { "name": secret } }] },
                    { "name": own },
                ],
            },
        })
    };
    let instance = fixture::instance(
        &json!({ "replicas": 2, "template": template("metadata", "postgres-creds") }),
        &json!({ "metricsPort": 8080, "template": template("envoy", "wake-agent-token") }),
    );
    let violations = super::instance(&instance);
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_is_dropped_is_not_forwarded() {
    for of in Target::ALL {
        let written = json!({ "spec": { "hostname": "h" } });
        assert!(!is_forwarded(&written, &rendered(of, &written)));
    }
    let volume = |name: &str| json!({ "spec": { "volumes": [{ "name": name, "hostPath": { "path": "/" } }] } });
    for (of, name) in [
        (Target::Engine, "data"),
        (Target::Metadata, "config"),
        (Target::Gateway, "config-volume"),
    ] {
        assert!(!is_forwarded(&volume(name), &rendered(of, &volume(name))));
    }
}

/// The template without the deprecated copy of `serviceAccountName`, which is accepted and not rendered.
fn without_copied_account(mut template: Value) -> Value {
    if template["spec"]["serviceAccount"] == template["spec"]["serviceAccountName"]
        && let Some(pod) = template["spec"].as_object_mut()
    {
        pod.remove("serviceAccount");
    }
    template
}

/// The template without the volumes that are replaced by volumes of the operator.
fn without_volumes_of_the_operator(mut template: Value) -> Value {
    if let Value::Array(volumes) = &mut template["spec"]["volumes"] {
        volumes.retain(|volume| {
            !render_engine::RESERVED_VOLUMES
                .iter()
                .any(|name| volume["name"] == *name)
        });
    }
    template
}

proptest! {
    #[test]
    fn a_template_is_refused_at_a_field_that_is_set_or_forwarded_whole(template in any_template()) {
        for of in Target::ALL {
            let template = match of {
                Target::Engine => without_volumes_of_the_operator(template.clone()),
                Target::Metadata | Target::Gateway => template.clone(),
            };
            let violations = of.violations(&template);
            for violation in &violations {
                let path = violation.path.strip_prefix(of.path());
                prop_assert!(path.is_some_and(|path| leads_somewhere(&template, path)), "{}", violation);
            }
            if violations.is_empty() {
                let rendered = rendered(of, &template);
                prop_assert!(is_forwarded(&without_copied_account(template.clone()), &rendered), "{:?}: {}", of, template);
            }
        }
    }
}
