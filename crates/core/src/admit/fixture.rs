//! Objects with a given pod template, and assertions about their violations.

use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use serde_json::{Value, json};

use super::{Violation, ViolationKind};

/// The name of the class.
pub(super) const CLASS: &str = "large";
/// The name of the instance.
pub(super) const INSTANCE: &str = "main";
/// The Secret with the credentials of the external database of an instance that has one.
pub(super) const EXTERNAL_SECRET: &str = "own-database";

/// The namespace of the engine.
pub(super) const NAMESPACE: &str = "prod";

/// An engine of the class with this template.
pub(super) fn engine(template: &Value) -> FireboltEngine {
    let spec = json!({ "instanceRef": INSTANCE, "engineClassRef": CLASS, "replicas": 1, "template": template });
    let metadata = json!({ "name": "a", "namespace": NAMESPACE });
    let engine = json!({ "apiVersion": "v", "kind": "FireboltEngine", "metadata": metadata, "spec": spec });
    serde_json::from_value(engine).expect("an engine")
}

/// A class with this template.
pub(super) fn engine_class(template: &Value) -> FireboltEngineClass {
    let spec = json!({ "template": template });
    let class =
        json!({ "apiVersion": "v", "kind": "FireboltEngineClass", "metadata": { "name": CLASS }, "spec": spec });
    serde_json::from_value(class).expect("a class")
}

/// An instance with these settings of its metadata service and its gateway.
pub(super) fn instance(metadata: &Value, gateway: &Value) -> FireboltInstance {
    let spec = json!({ "metadata": metadata, "gateway": gateway });
    let instance =
        json!({ "apiVersion": "v", "kind": "FireboltInstance", "metadata": { "name": INSTANCE }, "spec": spec });
    serde_json::from_value(instance).expect("an instance")
}

/// A kind of pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Engine,
    Metadata,
    Gateway,
}

impl Target {
    pub(super) const ALL: [Self; 3] = [Self::Engine, Self::Metadata, Self::Gateway];

    /// Path of the template.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Engine => "spec.template",
            Self::Metadata => "spec.metadata.template",
            Self::Gateway => "spec.gateway.template",
        }
    }

    /// Name of the main container.
    pub(super) fn container(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Metadata => "metadata",
            Self::Gateway => "envoy",
        }
    }

    /// An instance with this template, for components of instances.
    pub(super) fn instance(self, template: &Value) -> FireboltInstance {
        match self {
            Self::Engine => panic!("an engine is no component of an instance"),
            Self::Metadata => instance(&json!({ "template": template }), &json!({})),
            Self::Gateway => instance(&json!({}), &json!({ "template": template })),
        }
    }

    /// Violations of the template.
    pub(super) fn violations(self, template: &Value) -> Vec<Violation> {
        match self {
            // The violations are the same for an engine and a class, except those that depend on the instance of the
            // engine.
            Self::Engine => {
                let mut engine = engine(template);
                let violations = super::engine_template(&engine, None);
                "another".clone_into(&mut engine.spec.instance_ref);
                let elsewhere = super::engine_template(&engine, None);
                assert_eq!(super::engine_class(&engine_class(template)), elsewhere);
                violations
            }
            Self::Metadata => {
                let instance = self.instance(template);
                assert_eq!(super::instance(&instance), super::metadata_template(&instance));
                super::metadata_template(&instance)
            }
            Self::Gateway => {
                let instance = self.instance(template);
                assert_eq!(super::instance(&instance), super::gateway_template(&instance));
                super::gateway_template(&instance)
            }
        }
    }

    /// Asserts that the template is rejected for exactly these paths, which start at the template, each with this kind
    /// and with a message that contains this text.
    pub(super) fn rejects(self, template: &Value, expected: &[(&str, ViolationKind, &str)]) {
        assert_rejected(&self.violations(template), self.path(), expected, template);
    }

    /// Asserts that the template has no violations.
    pub(super) fn accepts(self, template: &Value) {
        assert_eq!(self.violations(template), [], "{template}");
    }
}

/// Asserts that these are the violations, at paths that start with `base`.
pub(super) fn assert_rejected(
    found: &[Violation],
    base: &str,
    expected: &[(&str, ViolationKind, &str)],
    template: &Value,
) {
    let places: Vec<(&str, ViolationKind)> = found
        .iter()
        .map(|violation| (violation.path.as_str(), violation.kind))
        .collect();
    let paths: Vec<String> = expected.iter().map(|(path, ..)| format!("{base}.{path}")).collect();
    let expected_places: Vec<(&str, ViolationKind)> = paths
        .iter()
        .zip(expected)
        .map(|(path, (_, kind, _))| (path.as_str(), *kind))
        .collect();
    assert_eq!(places, expected_places, "{template}");
    for (violation, (_, _, text)) in found.iter().zip(expected) {
        assert!(violation.message.contains(text), "{violation}");
    }
}

/// Asserts that the template is rejected for an engine.
pub(super) fn rejects(template: &Value, expected: &[(&str, ViolationKind, &str)]) {
    Target::Engine.rejects(template, expected);
}

/// Asserts that the template is accepted for an engine.
pub(super) fn accepts(template: &Value) {
    Target::Engine.accepts(template);
}

/// Asserts that the template is rejected for every kind of template.
pub(super) fn all_reject(template: &Value, expected: &[(&str, ViolationKind, &str)]) {
    for of in Target::ALL {
        of.rejects(template, expected);
    }
}

/// Asserts that the template is accepted for every kind of template.
pub(super) fn all_accept(template: &Value) {
    for of in Target::ALL {
        of.accepts(template);
    }
}
