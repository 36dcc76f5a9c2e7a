//! Engines and classes with a given template, and what admission says to it.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use serde_json::{Value, json};

use super::{Kind, Violation};

/// The name of the class.
pub const CLASS: &str = "large";

/// An engine with this template.
pub fn engine(template: &Value) -> FireboltEngine {
    let spec = json!({ "instanceRef": "main", "replicas": 1, "template": template });
    let engine = json!({ "apiVersion": "v", "kind": "FireboltEngine", "metadata": { "name": "a" }, "spec": spec });
    serde_json::from_value(engine).expect("an engine")
}

/// A class with this template.
pub fn engine_class(template: &Value) -> FireboltEngineClass {
    let spec = json!({ "template": template });
    let class =
        json!({ "apiVersion": "v", "kind": "FireboltEngineClass", "metadata": { "name": CLASS }, "spec": spec });
    serde_json::from_value(class).expect("a class")
}

/// What is wrong with the template, which is the same whether an engine or a class has it.
pub fn violations(template: &Value) -> Vec<Violation> {
    let violations = super::engine(&engine(template));
    assert_eq!(super::engine_class(&engine_class(template)), violations);
    violations
}

/// Asserts that the template is refused for exactly these paths, which start at the template, each in this way and with
/// a message that has this text in it.
pub fn refuses(template: &Value, expected: &[(&str, Kind, &str)]) {
    let found = violations(template);
    let places: Vec<(&str, Kind)> = found
        .iter()
        .map(|violation| (violation.path.as_str(), violation.kind))
        .collect();
    let paths: Vec<String> = expected
        .iter()
        .map(|(path, ..)| format!("spec.template.{path}"))
        .collect();
    let wanted: Vec<(&str, Kind)> = paths
        .iter()
        .zip(expected)
        .map(|(path, (_, kind, _))| (path.as_str(), *kind))
        .collect();
    assert_eq!(places, wanted, "{template}");
    for (violation, (_, _, text)) in found.iter().zip(expected) {
        assert!(violation.message.contains(text), "{violation}");
    }
}

/// Asserts that nothing is wrong with the template.
pub fn accepts(template: &Value) {
    assert_eq!(violations(template), [], "{template}");
}
