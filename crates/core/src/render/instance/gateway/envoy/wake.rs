//! Requests for engines that may be stopped are sent to the agent beside Envoy first, which may hold them.

use std::time::Duration;

use serde::Serialize;

use super::Envoy;
use super::message::StringMatch;
use super::select::METADATA;

/// The durations of the steps of a wake, as the agent reports them, in the metadata of the request.
pub(super) const TIMING_KEY: &str = "server_timing";

/// How the body of an HTTP/1 request is transferred, if it has one whose length is not known beforehand. Envoy takes the
/// client's own header away before the script runs.
pub(super) const FRAMING_HEADER: &str = "x-firebolt-transfer-encoding";

pub(super) const SOURCE: &str = include_str!("wake.lua");

/// Envoy waits this much longer for the response than the agent holds a request: the agent should report the timeout,
/// because it sends an error message.
const MARGIN: Duration = Duration::from_secs(5);

/// How long Envoy waits for the response of the agent.
pub(super) fn answer_timeout(envoy: &Envoy) -> Duration {
    envoy.hold_timeout + MARGIN
}

/// How long a request may stand still: longer than it can be held, and then time for the engine to take its body.
pub(super) fn longest_stillness(envoy: &Envoy) -> Duration {
    let (usual, after_a_hold) = (Duration::from_mins(5), Duration::from_mins(3));
    usual.max(envoy.hold_timeout + after_a_hold)
}

/// A header that Envoy adds to a request or a response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct AddedHeader {
    header: HeaderValue,
    append_action: &'static str,
    keep_empty_value: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct HeaderValue {
    key: &'static str,
    value: String,
}

impl AddedHeader {
    /// Stands beside others of its name. Without a value there is no header.
    fn new(key: &'static str, value: String) -> Self {
        Self {
            header: HeaderValue { key, value },
            append_action: "APPEND_IF_EXISTS_OR_ADD",
            keep_empty_value: false,
        }
    }
}

/// Adds a header to the response of the engine that says how long the query waited, and for what.
pub(super) fn timing() -> AddedHeader {
    AddedHeader::new("server-timing", format!("%DYNAMIC_METADATA({METADATA}:{TIMING_KEY})%"))
}

/// Keeps the header that Envoy removes, under a name that no client can use.
pub(super) fn framing() -> AddedHeader {
    AddedHeader::new(FRAMING_HEADER, "%REQ(TRANSFER-ENCODING)%".to_owned())
}

/// What a client sends under that name.
pub(super) fn framing_of_clients() -> StringMatch {
    StringMatch::Exact(FRAMING_HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn holding(seconds: u64) -> Envoy<'static> {
        Envoy {
            namespace: "data",
            cluster_domain: "cluster.local",
            metrics_port: 9090,
            ipv6: false,
            hold_timeout: Duration::from_secs(seconds),
        }
    }

    #[rstest]
    #[case::short(1, 6, 300)]
    #[case::usual(120, 125, 300)]
    #[case::long(3600, 3605, 3780)]
    fn nothing_ends_a_request_before_the_agent_does(#[case] hold: u64, #[case] answer: u64, #[case] stillness: u64) {
        let envoy = holding(hold);
        assert_eq!(answer_timeout(&envoy), Duration::from_secs(answer));
        assert_eq!(longest_stillness(&envoy), Duration::from_secs(stillness));
    }

    #[test]
    fn the_script_means_what_is_configured() {
        for (name, value) in [("METADATA", METADATA), ("FRAMING_HEADER", FRAMING_HEADER)] {
            let line = format!("local {name} = \"{value}\"\n");
            assert!(SOURCE.contains(&line), "{line}");
        }
    }
}
