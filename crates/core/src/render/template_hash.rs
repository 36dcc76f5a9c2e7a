//! The template hash of an object: an annotation with a hash of the rendered object.

use firebolt_api::key::Annotation;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::canonical;

/// The object with a hash of itself, instead of an earlier one. The hash of the live object differs when a field is no longer rendered, which a
/// comparison of the fields cannot detect: it looks like a field that another client added.
#[must_use]
pub(crate) fn with_template_hash<K: Metadata<Ty = ObjectMeta> + Serialize>(mut object: K) -> K {
    if let Some(annotations) = &mut object.metadata_mut().annotations {
        annotations.remove(Annotation::TemplateHash.key());
        if annotations.is_empty() {
            object.metadata_mut().annotations = None;
        }
    }
    let hash = canonical::hash(&object);
    let annotations = object.metadata_mut().annotations.get_or_insert_default();
    annotations.insert(Annotation::TemplateHash.key().to_owned(), hash);
    object
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::render::differences;

    fn config(data: &serde_json::Value) -> ConfigMap {
        with_template_hash(
            serde_json::from_value(json!({ "metadata": { "name": "c" }, "data": data })).expect("a ConfigMap"),
        )
    }

    #[test]
    fn a_hash_of_a_hash_is_the_same_hash() {
        let once = config(&json!({ "a": "1" }));
        assert_eq!(with_template_hash(once.clone()), once);
    }

    #[test]
    fn a_field_that_is_no_longer_rendered_is_detected() {
        let (before, after) = (config(&json!({ "a": "1", "b": "2" })), config(&json!({ "a": "1" })));
        assert_eq!(
            differences(&after, &before),
            ["metadata.annotations.firebolt.io/fingerprint"]
        );
        assert!(differences(&after, &after.clone()).is_empty());
    }
}
