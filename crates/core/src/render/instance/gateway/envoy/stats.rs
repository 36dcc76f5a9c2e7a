//! Names of metrics: one name for all engines, with the engine as a label.

use serde::Serialize;

use super::{Envoy, select};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct StatsConfig {
    stats_tags: Vec<TagSpecifier>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct TagSpecifier {
    tag_name: &'static str,
    regex: String,
}

/// Envoy names the cluster of an engine after its address. Of that, the name of the engine becomes a label, and the rest
/// is dropped: a dashboard works in every namespace.
pub(super) fn stats_config(envoy: &Envoy) -> StatsConfig {
    let suffix = select::authority_suffix(envoy).replace(':', "_").replace('.', "\\.");
    StatsConfig {
        stats_tags: vec![TagSpecifier {
            tag_name: "firebolt.engine",
            regex: format!("^cluster\\.(DFPCluster_([^.]+){suffix}\\.)"),
        }],
    }
}
