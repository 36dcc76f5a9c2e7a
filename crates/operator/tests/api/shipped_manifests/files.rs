//! The shipped files, and what is in them.

use serde_json::Value;

pub(super) const OPERATOR: &str = include_str!("../../../../../deploy/operator.yaml");
pub(super) const POLICY: &str = include_str!("../../../../../deploy/admission-policy.yaml");
pub(super) const WEBHOOKS: &str = include_str!("../../../../../deploy/webhooks.yaml");

/// The documents of a manifest.
pub(super) fn documents<const COUNT: usize>(manifest: &str) -> [Value; COUNT] {
    let documents: Vec<Value> = manifest
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect();
    documents.try_into().unwrap()
}
