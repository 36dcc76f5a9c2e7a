//! When a request is sent once more: only if no engine can have begun to run it.

use serde::Serialize;

use super::message::{Empty, Extension, Span};

/// What an engine that shuts down puts on its answer when it refuses a query before running any of it.
const DRAINED_HEADER: &str = "X-Firebolt-Drained";

/// The cases in which a request goes to another pod. In each of them the request was not sent, or the engine says that it
/// left the request alone. `reset`, `5xx` and `gateway-error` are not among them: there the query may have run.
const RETRY_ON: [&str; 4] = [
    "connect-failure",
    "refused-stream",
    "reset-before-request",
    "retriable-headers",
];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RetryPolicy {
    retry_on: String,
    retriable_headers: Vec<PresentHeader>,
    num_retries: u32,
    retry_back_off: BackOff,
    retry_host_predicate: Vec<Extension<PreviousHosts>>,
    host_selection_retry_max_attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct PresentHeader {
    name: &'static str,
    present_match: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct BackOff {
    base_interval: Span,
    max_interval: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
)]
struct PreviousHosts {
    #[serde(flatten)]
    nothing: Empty,
}

/// Patient enough for the pods of an engine to be replaced: fifty attempts take about six seconds.
pub(super) fn policy() -> RetryPolicy {
    RetryPolicy {
        retry_on: RETRY_ON.join(","),
        retriable_headers: vec![PresentHeader {
            name: DRAINED_HEADER,
            present_match: true,
        }],
        num_retries: 50,
        retry_back_off: BackOff {
            base_interval: Span::milliseconds(25),
            max_interval: Span::milliseconds(250),
        },
        retry_host_predicate: vec![Extension {
            name: "envoy.retry_host_predicates.previous_hosts",
            typed_config: PreviousHosts { nothing: Empty {} },
        }],
        host_selection_retry_max_attempts: 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_repeated_for_exactly_these_reasons() {
        assert_eq!(
            policy().retry_on,
            "connect-failure,refused-stream,reset-before-request,retriable-headers"
        );
    }
}
