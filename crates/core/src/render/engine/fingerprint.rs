//! Everything that makes a generation what it is, in one short text.

use serde_json::json;

use super::{config_map, stateful_set};
use crate::canonical;
use crate::resolve::engine::EffectiveEngine;

/// Which fields the fingerprint is made of, and how. Raise it when that changes: a text with another number cannot be
/// compared, and says so.
const VERSION: &str = "1";

/// The fingerprint of what is wanted: the pods, the claims, the configuration and the number of replicas.
///
/// It is made of the rendering and not of the live object, so that nothing the API server fills in can change it. The
/// number of the generation does not count: the same wish has the same fingerprint in every generation.
#[must_use]
pub fn fingerprint(engine: &EffectiveEngine) -> String {
    const ANY_GENERATION: i64 = 0;
    let parts = json!({
        "template": canonical::to_json(&stateful_set::pod_template(engine, ANY_GENERATION)),
        "claims": canonical::to_json(&stateful_set::claims(engine, ANY_GENERATION)),
        "config": config_map::config(engine, ANY_GENERATION),
        "replicas": engine.replicas,
    });
    format!("{VERSION}-{}", canonical::hash(&parts))
}
