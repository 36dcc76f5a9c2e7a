//! The rendering hash of a generation: hashes of its rendered parts.
//!
//! With the same template hash, another rendering hash means that another version of the operator rendered the generation.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

use super::{config_map, pods};
use crate::canonical;
use crate::resolve::engine::EffectiveEngine;

/// Any number of a generation, and any number of replicas: the hash depends on neither.
const ANY_GENERATION: i64 = 0;
const ANY_REPLICAS: i32 = 0;

/// The parts, in the order of the annotation, and what messages call them.
const PARTS: [(&str, &str); 4] = [
    ("engine", "container `engine`"),
    ("pod", "the other parts of the pod template"),
    ("claims", "the volume claims"),
    ("config", "the configuration file"),
];

/// The rendering hash of the desired state, such as `engine=…,pod=…,claims=…,config=…`.
///
/// It is computed from the rendered objects and not from live ones, so that defaults of the API server cannot change it.
#[must_use]
pub fn rendering_hash(engine: &EffectiveEngine) -> String {
    let PodTemplateSpec { metadata, mut spec } = pods::pod_template(engine, ANY_GENERATION);
    let mut containers = spec
        .as_mut()
        .map(|spec| std::mem::take(&mut spec.containers))
        .unwrap_or_default();
    let sidecars = containers.split_off(containers.len().min(1));
    let hashes = [
        canonical::hash(&containers),
        canonical::hash(&json!([metadata, spec, sidecars])),
        canonical::hash(&pods::claims(engine, ANY_GENERATION)),
        canonical::hash(&config_map::config(engine, ANY_GENERATION, ANY_REPLICAS)),
    ];
    let entries: Vec<String> = PARTS
        .iter()
        .zip(hashes)
        .map(|((part, _), hash)| format!("{part}={hash}"))
        .collect();
    entries.join(",")
}

/// The parts that differ between a recorded rendering hash and that of the desired state, as messages call them. All of them
/// if there is no record.
pub(crate) fn outdated_parts(recorded: Option<&str>, desired: &str) -> Vec<&'static str> {
    let hash_of = |hashes: &str, part: &str| -> Option<String> {
        let mut entries = hashes.split(',').filter_map(|entry| entry.split_once('='));
        entries
            .find(|(known, _)| *known == part)
            .map(|(_, hash)| hash.to_owned())
    };
    let differs = |part: &str| recorded.and_then(|recorded| hash_of(recorded, part)) != hash_of(desired, part);
    let parts = PARTS.iter().filter(|(part, _)| differs(part));
    parts.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_differ_are_named() {
        let desired = "engine=1,pod=2,claims=3,config=4";
        assert_eq!(outdated_parts(Some(desired), desired), [""; 0]);
        assert_eq!(
            outdated_parts(Some("engine=0,pod=2,claims=3,config=0"), desired),
            ["container `engine`", "the configuration file"]
        );
        assert_eq!(outdated_parts(None, desired).len(), PARTS.len());
    }
}
