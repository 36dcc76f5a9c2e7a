//! Which engine a request is for: the part of the script that finds out, and the mark by which the route knows that it did.

use serde::Serialize;

use super::Envoy;

/// The metadata namespace of the script's results. Unlike headers, clients cannot set it.
pub(super) const METADATA: &str = "firebolt.gateway";
/// The name of the engine, once it is selected.
pub(super) const ENGINE_KEY: &str = "engine";
/// Whether the script has responded to the request itself.
pub(super) const REFUSED_KEY: &str = "refused";

/// The query port of engines.
const QUERY_PORT: u16 = 3473;

pub(super) const SOURCE: &str = include_str!("select.lua");

/// A condition on the script's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SelectionMatch {
    filter: &'static str,
    path: Vec<MetadataPathSegment>,
    value: ValueMatch,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct MetadataPathSegment {
    key: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ValueMatch {
    present_match: bool,
}

/// Holds once the script has selected an engine.
pub(super) fn selected() -> SelectionMatch {
    has(ENGINE_KEY)
}

/// Holds once the script has answered in place of an engine.
pub(super) fn refused() -> SelectionMatch {
    has(REFUSED_KEY)
}

fn has(key: &'static str) -> SelectionMatch {
    SelectionMatch {
        filter: METADATA,
        path: vec![MetadataPathSegment { key }],
        value: ValueMatch { present_match: true },
    }
}

/// What follows the name of an engine in the authority of a request to it.
pub(in crate::render::instance::gateway) fn authority_suffix(envoy: &Envoy) -> String {
    format!("-service.{}.svc.{}:{QUERY_PORT}", envoy.namespace, envoy.cluster_domain)
}
