//! What holds of all rules together, for every field that the schema of a pod template has.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::fixture::{self, refuses, violations};
use super::*;
use crate::render::engine as render;
use crate::resolve::Defaults;
use crate::resolve::engine::{InstanceFacts, resolve};

/// The schema of the template of an engine, as the API server enforces it. Building it takes a while.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let crd = firebolt_api::crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "FireboltEngine");
    let crd = serde_json::to_value(crd.expect("the definition of engines")).expect("a definition is JSON");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"].clone()
});

/// The pod template that is rendered for an engine with the given one.
fn rendered(template: &Value) -> Value {
    let instance = InstanceFacts {
        id: "id".to_owned(),
        metadata_endpoint: "metadata:7000".to_owned(),
    };
    let effective = resolve(&fixture::engine(template), None, &instance, &Defaults::example());
    let set = render::stateful_set(&effective, 0);
    serde_json::to_value(set.spec.expect("a spec").template).expect("a template is JSON")
}

/// Whether everything that the user wrote stands in what is rendered. Lists may have more entries, in another order.
fn is_forwarded(written: &Value, rendered: &Value) -> bool {
    match (written, rendered) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().all(|(key, field)| is_forwarded(field, &rendered[key]))
        }
        (Value::Array(items), Value::Array(others)) => items
            .iter()
            .all(|item| others.iter().any(|other| is_forwarded(item, other))),
        (_, Value::Null) => says_nothing(written),
        // Quantities may be written as numbers.
        (Value::Number(number), Value::String(text)) => number.to_string() == *text,
        _ => written == rendered,
    }
}

/// Whether leaving the value out says the same.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

/// Where values of a schema come from.
trait Choose {
    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize;
    /// Whether an optional field is set.
    fn set(&mut self) -> bool;
}

/// Every field, each with the last of its values, which says something.
struct Everything;

impl Choose for Everything {
    fn below(&mut self, count: usize) -> usize {
        count - 1
    }
    fn set(&mut self) -> bool {
        true
    }
}

/// What the bytes say; where they end, as little as possible.
struct Bytes(std::vec::IntoIter<u8>);

impl Choose for Bytes {
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().unwrap_or_default()) % count
    }
    fn set(&mut self) -> bool {
        self.below(8) == 7
    }
}

const TEXTS: [&str; 11] = [
    "",
    "engine",
    "engine-web",
    "data",
    "nodes-config",
    "POD_INDEX",
    "/a",
    "proxy",
    "warm",
    "Always",
    "x",
];

/// A value that the schema allows.
fn sample(schema: &Value, choose: &mut impl Choose) -> Value {
    let pick = |values: &[Value], choose: &mut dyn FnMut(usize) -> usize| values[choose(values.len())].clone();
    let mut below = |count| choose.below(count);
    match schema["type"].as_str() {
        Some("object") => object(schema, choose),
        Some("array") => {
            let count = choose.below(3).min(2);
            (0..count).map(|_| sample(&schema["items"], choose)).collect()
        }
        Some("boolean") => pick(&[json!(false), json!(true)], &mut below),
        Some("integer") => pick(&[json!(0), json!(-1), json!(1)], &mut below),
        Some(_) if schema["format"] == "date-time" => pick(&[json!(null), json!("2026-01-01T00:00:00Z")], &mut below),
        Some(_) => json!(TEXTS[below(TEXTS.len())]),
        None => pick(&[json!("0"), json!(4), json!("4")], &mut below),
    }
}

fn object(schema: &Value, choose: &mut impl Choose) -> Value {
    let mut object = Map::new();
    if let Value::Object(values) = &schema["additionalProperties"] {
        for _ in 0..choose.below(2) {
            let prefixes = ["", firebolt_api::key::RESERVED_PREFIX, "example.com/"];
            let key = format!("{}x", prefixes[choose.below(prefixes.len())]);
            object.insert(key, sample(&Value::Object(values.clone()), choose));
        }
    }
    let required = |name: &str| {
        schema["required"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == name))
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if required(name) || choose.set() {
            object.insert(name.clone(), sample(property, choose));
        }
    }
    Value::Object(object)
}

/// The fields of a part of the template that are refused if they are set. All others must reach the pods.
fn refused_fields(part: &Value, template: impl Fn(&str, Value) -> Value) -> Vec<String> {
    let fields = part["properties"].as_object().expect("an object");
    assert!(fields.len() > 10);
    let mut refused = Vec::new();
    for (field, schema) in fields {
        let template = template(field, sample(schema, &mut Everything));
        let violations = violations(&template);
        if violations.is_empty() {
            assert!(
                is_forwarded(&template, &rendered(&template)),
                "{field} is dropped without a word"
            );
        } else {
            refused.push(field.clone());
        }
    }
    refused
}

#[test]
fn every_field_of_the_metadata_is_forwarded_or_refused() {
    let refused = refused_fields(
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

#[test]
fn every_field_of_the_pod_is_forwarded_or_refused() {
    let refused = refused_fields(
        &SCHEMA["properties"]["spec"],
        |field, value| json!({ "spec": { field: value } }),
    );
    let expected = [
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
    assert_eq!(refused, expected);
}

#[test]
fn every_field_of_the_engine_container_is_forwarded_or_refused() {
    let container = &SCHEMA["properties"]["spec"]["properties"]["containers"]["items"];
    let refused = refused_fields(container, |field, value| {
        let mut container = json!({ field: value });
        container["name"] = json!("engine");
        json!({ "spec": { "containers": [container] } })
    });
    let expected = [
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
    assert_eq!(refused, expected);
}

#[test]
fn an_engine_without_a_template_is_accepted() {
    let engine = FireboltEngine::default();
    assert_eq!(super::engine(&engine), []);
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
        ("metadata.name", Kind::Forbidden),
        ("metadata.finalizers", Kind::Forbidden),
        (&format!("metadata.labels[{key}]"), Kind::Forbidden),
        (&format!("metadata.annotations[{key}]"), Kind::Forbidden),
        ("spec.subdomain", Kind::Forbidden),
        ("spec.hostNetwork", Kind::Forbidden),
        ("spec.containers[engine-web].name", Kind::Forbidden),
        ("spec.containers[2].name", Kind::Duplicate),
        ("spec.containers[engine].command", Kind::Forbidden),
        ("spec.containers[engine].tty", Kind::Forbidden),
        ("spec.containers[engine].env[0].name", Kind::Forbidden),
        ("spec.containers[engine].volumeMounts[0].name", Kind::Forbidden),
        ("spec.initContainers[engine].name", Kind::Forbidden),
    ];
    refuses(&template, &expected.map(|(path, kind)| (path, kind, "")));
}

/// Whether the path, read from here on, leads to something in the value.
fn leads_somewhere(value: &Value, path: &str) -> bool {
    let follow = |step: &str, child: &Value| path.strip_prefix(step).is_some_and(|rest| leads_somewhere(child, rest));
    path.is_empty()
        || match value {
            Value::Object(fields) => fields
                .iter()
                .any(|(key, child)| follow(&format!(".{key}"), child) || follow(&format!("[{key}]"), child)),
            Value::Array(items) => items.iter().enumerate().any(|(index, item)| {
                let by_name = item["name"].as_str().map(|name| format!("[{name}]"));
                follow(&format!("[{index}]"), item) || by_name.is_some_and(|step| follow(&step, item))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

#[test]
fn a_path_that_is_not_there_leads_nowhere() {
    let value = json!({ "a": { "b.c/d]": 1 }, "l": [{ "name": "n", "x": 1 }] });
    for path in [".a[b.c/d]]", ".l[0].x", ".l[n].x"] {
        assert!(leads_somewhere(&value, path), "{path}");
    }
    for path in [".b", ".a.b", ".l[1].x", ".l[m].x", ".l[n].y"] {
        assert!(!leads_somewhere(&value, path), "{path}");
    }
}

#[test]
fn what_is_dropped_is_not_forwarded() {
    let written = json!({ "spec": { "hostname": "h" } });
    assert!(!is_forwarded(&written, &rendered(&written)));
    let written = json!({ "spec": { "volumes": [{ "name": "data", "hostPath": { "path": "/" } }] } });
    assert!(!is_forwarded(&written, &rendered(&written)));
}

/// Any template. Each part has bytes of its own, so that none of them leaves nothing for the others, and none of them
/// half of the time, so that some templates are accepted. Volumes of the operator are left out, as they are when rendered.
fn any_template() -> impl Strategy<Value = Value> {
    let part = |schema: &'static Value| {
        let bytes = prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
        bytes.prop_map(|bytes| sample(schema, &mut Bytes(bytes.unwrap_or_default().into_iter())))
    };
    let pod = &SCHEMA["properties"]["spec"];
    let containers = &pod["properties"]["containers"];
    let parts = (
        part(&SCHEMA["properties"]["metadata"]),
        part(pod),
        part(&pod["properties"]["volumes"]),
        part(containers),
        part(containers),
    );
    parts.prop_map(|(metadata, mut spec, mut volumes, containers, init_containers)| {
        if let Value::Array(volumes) = &mut volumes {
            volumes.retain(|volume| !render::RESERVED_VOLUMES.iter().any(|name| volume["name"] == *name));
        }
        spec["volumes"] = volumes;
        spec["containers"] = containers;
        spec["initContainers"] = init_containers;
        json!({ "metadata": metadata, "spec": spec })
    })
}

proptest! {
    #[test]
    fn a_template_is_refused_where_it_says_something_or_forwarded_whole(template in any_template()) {
        let violations = violations(&template);
        let object = json!({ "spec": { "template": template } });
        for violation in &violations {
            prop_assert!(leads_somewhere(&object, &format!(".{}", violation.path)), "{}", violation);
        }
        if violations.is_empty() {
            prop_assert!(is_forwarded(&template, &rendered(&template)), "{}", template);
        }
    }
}
