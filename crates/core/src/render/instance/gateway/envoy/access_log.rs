//! One line of JSON per request on standard output.
//!
//! The query string is left out, since statements and secrets may be in it, and so are headers that carry credentials.

use serde::Serialize;

use super::message::{Empty, Extension};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct AccessLog {
    #[serde(flatten)]
    logger: Extension<StdoutAccessLog>,
    filter: LogFilter,
}

/// Probes are not logged: they would outnumber queries.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LogFilter {
    not_health_check_filter: Empty,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
)]
struct StdoutAccessLog {
    log_format: LogFormat,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LogFormat {
    json_format: Line,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Line {
    time: &'static str,
    client: &'static str,
    engine: &'static str,
    wake: &'static str,
    server_timing: &'static str,
    method: &'static str,
    path: &'static str,
    protocol: &'static str,
    status: &'static str,
    flags: &'static str,
    details: &'static str,
    upstream: &'static str,
    upstream_failure: &'static str,
    attempts: &'static str,
    duration_ms: &'static str,
    bytes_received: &'static str,
    bytes_sent: &'static str,
    request_id: &'static str,
}

pub(super) fn access_log() -> AccessLog {
    AccessLog {
        logger: Extension {
            name: "envoy.access_loggers.stdout",
            typed_config: StdoutAccessLog {
                log_format: LogFormat { json_format: line() },
            },
        },
        filter: LogFilter {
            not_health_check_filter: Empty {},
        },
    }
}

const fn line() -> Line {
    Line {
        time: "%START_TIME%",
        client: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        engine: "%DYNAMIC_METADATA(firebolt.gateway:engine)%",
        wake: "%DYNAMIC_METADATA(firebolt.gateway:wake)%",
        server_timing: "%DYNAMIC_METADATA(firebolt.gateway:server_timing)%",
        method: "%REQ(:METHOD)%",
        path: "%PATH(NQ)%",
        protocol: "%PROTOCOL%",
        status: "%RESPONSE_CODE%",
        flags: "%RESPONSE_FLAGS%",
        details: "%RESPONSE_CODE_DETAILS%",
        upstream: "%UPSTREAM_HOST%",
        upstream_failure: "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
        attempts: "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        duration_ms: "%DURATION%",
        bytes_received: "%BYTES_RECEIVED%",
        bytes_sent: "%BYTES_SENT%",
        request_id: "%REQ(X-REQUEST-ID)%",
    }
}
