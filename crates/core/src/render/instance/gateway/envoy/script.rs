//! The script that Envoy runs for each request: selection and wake, as one text.

use firebolt_api::name::MAX_ENGINE_NAME;
use serde::Serialize;

use super::{Envoy, clusters, select, wake};

/// What the selection calls comes before it.
const SOURCES: [&str; 2] = [wake::SOURCE, select::SOURCE];

/// The settings of the gateway that the script depends on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Context {
    authority_suffix: String,
    longest_name: usize,
    agent: &'static str,
    answer_timeout_ms: u128,
}

pub(super) fn context(envoy: &Envoy) -> Context {
    Context {
        authority_suffix: select::authority_suffix(envoy),
        longest_name: MAX_ENGINE_NAME,
        agent: clusters::WAKE_AGENT,
        answer_timeout_ms: wake::answer_timeout(envoy).as_millis(),
    }
}

/// The script in Envoy's configuration.
pub(super) fn script() -> String {
    SOURCES.map(bare).concat()
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
        for line in script().lines() {
            assert!(!line.contains("--") && !line.contains("[["), "{line}");
        }
    }
}
