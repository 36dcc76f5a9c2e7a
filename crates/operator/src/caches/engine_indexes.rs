//! The indexes of engines by what they reference.

use firebolt_api::FireboltEngine;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::Index;

/// Engines by the instance that they reference.
pub(crate) const ENGINES_BY_INSTANCE: Index<FireboltEngine> = Index {
    name: "instanceRef",
    value: |engine| {
        let engine = engine.0.as_ref().ok()?;
        let namespace = engine.metadata.namespace.as_ref()?;
        Some(ObjectKey::new(namespace, &engine.spec.instance_ref))
    },
};

/// Engines by the class that they reference.
pub(crate) const ENGINES_BY_CLASS: Index<FireboltEngine> = Index {
    name: "engineClassRef",
    value: |engine| {
        let engine = engine.0.as_ref().ok()?;
        let class = engine.spec.engine_class_ref.as_ref()?;
        Some(ObjectKey::new(engine.metadata.namespace.as_ref()?, class))
    },
};

/// A store of engines with all indexes, for tests that have no watch.
#[cfg(test)]
pub(crate) fn engine_store() -> firebolt_runtime::informer::Store<FireboltEngine> {
    firebolt_runtime::informer::Store::new([ENGINES_BY_INSTANCE, ENGINES_BY_CLASS])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn engines_are_found_by_the_instance_and_by_the_class_that_they_reference() {
        let store = engine_store();
        let put = |name: &str, spec: serde_json::Value| {
            let engine = json!({
                "apiVersion": FireboltEngine::api_version(&()),
                "kind": "FireboltEngine",
                "metadata": { "namespace": "n", "name": name },
                "spec": spec,
            });
            store.put(Arc::new(serde_json::from_value(engine).unwrap()));
        };
        put("a", json!({ "instanceRef": "i", "engineClassRef": "i", "replicas": 1 }));
        put("b", json!({ "instanceRef": "j", "engineClassRef": "c", "replicas": 1 }));
        put("d", json!({ "instanceRef": "j", "replicas": 1 }));
        put("odd", json!({ "instanceRef": "i", "replicas": "many" }));
        let names = |index, value| store.names_by_index(index, &ObjectKey::new("n", value));
        assert_eq!(names(ENGINES_BY_INSTANCE, "i"), ["a"]);
        assert_eq!(names(ENGINES_BY_INSTANCE, "j"), ["b", "d"]);
        assert_eq!(names(ENGINES_BY_CLASS, "i"), ["a"]);
        assert_eq!(names(ENGINES_BY_CLASS, "c"), ["b"]);
    }
}
