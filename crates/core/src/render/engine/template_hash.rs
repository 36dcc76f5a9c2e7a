//! The template hash of a generation: a hash of everything that its pods depend on.

use serde_json::json;

use super::{config_map, pods};
use crate::canonical;
use crate::resolve::engine::EffectiveEngine;

/// Version of the hashed fields and of the algorithm. Raise it when one of them changes: hashes of different versions
/// cannot be compared.
const VERSION: &str = "1";

/// The template hash of the desired state: the pods, the claims, the configuration and the number of replicas.
///
/// It is computed from the rendered objects and not from live ones, so that defaults of the API server cannot change it.
/// It does not depend on the number of the generation.
#[must_use]
pub fn template_hash(engine: &EffectiveEngine) -> String {
    const ANY_GENERATION: i64 = 0;
    let parts = json!({
        "template": canonical::to_json(&pods::pod_template(engine, ANY_GENERATION)),
        "claims": canonical::to_json(&pods::claims(engine, ANY_GENERATION)),
        "config": config_map::config(engine, ANY_GENERATION),
        "replicas": engine.replicas,
    });
    format!("{VERSION}-{}", canonical::hash(&parts))
}
