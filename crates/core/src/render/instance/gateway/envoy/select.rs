//! Which engine a request is for: the script that finds out, and the mark by which the route knows that it did.

use firebolt_api::name::MAX_ENGINE_NAME;
use serde::Serialize;

use super::Envoy;

/// Where the script leaves its findings. Clients cannot write there, unlike to headers.
pub(super) const METADATA: &str = "firebolt.gateway";
/// The name of the engine, once it is selected.
pub(super) const ENGINE_KEY: &str = "engine";
/// Whether the script has answered the request itself.
pub(super) const REFUSED_KEY: &str = "refused";

/// The port on which engines take queries.
const QUERY_PORT: u16 = 3473;

const SOURCE: &str = include_str!("select.lua");

/// A condition on what the script left.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SelectionMatch {
    filter: &'static str,
    path: Vec<PathSegment>,
    value: ValueMatch,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct PathSegment {
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
        path: vec![PathSegment { key }],
        value: ValueMatch { present_match: true },
    }
}

/// What follows the name of an engine in the authority of a request to it.
pub(super) fn authority_suffix(envoy: &Envoy) -> String {
    format!("-service.{}.svc.{}:{QUERY_PORT}", envoy.namespace, envoy.cluster_domain)
}

/// What the script has to know about this gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Context {
    authority_suffix: String,
    longest_name: usize,
}

pub(super) fn context(envoy: &Envoy) -> Context {
    Context {
        authority_suffix: authority_suffix(envoy),
        longest_name: MAX_ENGINE_NAME,
    }
}

/// The script as Envoy gets it.
pub(super) fn script() -> String {
    bare(SOURCE)
}

/// The script without comments, indentation and empty lines: what people read in it does not change what Envoy runs,
/// and so does not restart gateways. Comments stand on lines of their own, since a `--` after code may be in a text.
fn bare(source: &str) -> String {
    let lines = source
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_indentation_and_empty_lines_are_left_out() {
        let source = "-- what it does\n\nlocal a = 1\n  -- why\n\tif a then\n    b(\"--\")\n  end\n";
        assert_eq!(bare(source), "local a = 1\nif a then\nb(\"--\")\nend\n");
    }

    #[test]
    fn the_script_has_no_comment_behind_code_and_no_long_text() {
        for line in bare(SOURCE).lines() {
            assert!(!line.contains("--") && !line.contains("[["), "{line}");
        }
    }
}
