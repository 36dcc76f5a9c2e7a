//! A record on an object of what it was rendered as.

use firebolt_api::key::Annotation;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::canonical;

/// The object with a hash of itself. It shows in the live object when we no longer render something, which no comparison
/// of the rest can: a field that others might have added looks the same.
#[must_use]
pub fn stamped<K: Metadata<Ty = ObjectMeta> + Serialize>(mut object: K) -> K {
    let hash = canonical::hash(&object);
    let annotations = object.metadata_mut().annotations.get_or_insert_default();
    annotations.insert(Annotation::Fingerprint.key().to_owned(), hash);
    object
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::render::differences;

    fn config(data: &serde_json::Value) -> ConfigMap {
        stamped(serde_json::from_value(json!({ "metadata": { "name": "c" }, "data": data })).expect("a ConfigMap"))
    }

    #[test]
    fn what_is_no_longer_rendered_shows() {
        let (before, after) = (config(&json!({ "a": "1", "b": "2" })), config(&json!({ "a": "1" })));
        assert_eq!(
            differences(&after, &before),
            ["metadata.annotations.firebolt.io/fingerprint"]
        );
        assert!(differences(&after, &after.clone()).is_empty());
    }
}
