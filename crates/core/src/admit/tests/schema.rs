//! Values that conform to the schema of a pod template. Other crates include this file in their tests.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The schema of a pod template, as the API server enforces it. Building it is slow.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let crd = firebolt_api::crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == "FireboltEngine");
    let crd = serde_json::to_value(crd.expect("the definition of engines")).expect("a definition is JSON");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"].clone()
});

/// Source of the choices for values of a schema.
pub(super) trait Choose {
    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize;
    /// Whether an optional field is set.
    fn set(&mut self) -> bool;
    /// How many entries a list has.
    fn entries(&mut self) -> usize {
        self.below(3)
    }
}

/// Every field, each with the last of its values, which is not empty.
pub(super) struct Everything;

impl Choose for Everything {
    fn below(&mut self, count: usize) -> usize {
        count - 1
    }
    fn set(&mut self) -> bool {
        true
    }
    /// Two entries would be duplicates, which lists of named entries reject.
    fn entries(&mut self) -> usize {
        1
    }
}

/// Choices from bytes; minimal values once they are exhausted.
pub(super) struct Bytes(pub std::vec::IntoIter<u8>);

impl Choose for Bytes {
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().unwrap_or_default()) % count
    }
    fn set(&mut self) -> bool {
        self.below(8) == 7
    }
}

const TEXTS: [&str; 20] = [
    "",
    "engine",
    "engine-web",
    "metadata",
    "envoy",
    "wake-agent",
    "data",
    "nodes-config",
    "config",
    "postgres-creds",
    "wake-agent-token",
    "main-metadata-postgres-creds",
    "POD_INDEX",
    "/a",
    "proxy",
    "warm",
    "Always",
    "\u{1f525} \0 of the kind that no name has",
    "9.9e99Gi",
    "x",
];

/// A value that conforms to the schema.
pub(super) fn sample(schema: &Value, choose: &mut impl Choose) -> Value {
    let pick = |values: &[Value], choose: &mut dyn FnMut(usize) -> usize| values[choose(values.len())].clone();
    let mut below = |count| choose.below(count);
    match schema["type"].as_str() {
        Some("object") => object(schema, choose),
        Some("array") => {
            let count = choose.entries();
            (0..count).map(|_| sample(&schema["items"], choose)).collect()
        }
        Some("boolean") => pick(&[json!(false), json!(true)], &mut below),
        Some("integer") => pick(&[json!(0), json!(-1), json!(i32::MAX), json!(1)], &mut below),
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

/// An arbitrary template. Each part has its own bytes, so that no part exhausts those of the others, and no bytes half
/// of the time, so that some templates are accepted.
pub(super) fn any_template() -> impl Strategy<Value = Value> {
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
    parts.prop_map(|(metadata, mut spec, volumes, containers, init_containers)| {
        spec["volumes"] = volumes;
        spec["containers"] = containers;
        spec["initContainers"] = init_containers;
        json!({ "metadata": metadata, "spec": spec })
    })
}
