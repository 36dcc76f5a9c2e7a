//! The error bodies of responses that Envoy generates in place of an engine: the same JSON as everywhere, with a message
//! that says what to do.
//!
//! Envoy's own texts are replaced, because they name hosts and addresses of the cluster.

use serde::Serialize;

use super::select::{self, SelectionMatch};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LocalReplyConfig {
    mappers: Vec<Mapper>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Mapper {
    filter: Filter,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_format_override: Option<BodyFormat>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Filter {
    MetadataFilter {
        matcher: SelectionMatch,
        match_if_key_not_found: bool,
    },
    ResponseFlagFilter {
        flags: &'static [&'static str],
    },
    StatusCodeFilter {
        comparison: Comparison,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Comparison {
    op: &'static str,
    value: RuntimeNumber,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RuntimeNumber {
    default_value: u16,
    runtime_key: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct BodyFormat {
    json_format: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Body {
    error: ErrorBody,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ErrorBody {
    code: &'static str,
    message: &'static str,
}

/// When a reply is sent.
enum When {
    /// Envoy has set one of these flags.
    Flags(&'static [&'static str]),
    /// Envoy responds with this status.
    Status(u16),
    /// Envoy responds with this status or a higher one.
    StatusFrom(u16),
}

/// The body of one kind of response.
struct Reply {
    when: When,
    /// The status that the client gets in place of Envoy's.
    status: Option<u16>,
    code: &'static str,
    message: &'static str,
}

const REFUSED: &str = "The gateway does not support this request. Send a plain HTTP/1.1 or HTTP/2 request.";

/// The first match decides, so replies to queries that may have run come before those to queries that did not.
const REPLIES: [Reply; 12] = [
    Reply {
        when: When::Flags(&["NR"]),
        status: Some(500),
        code: "selection_failed",
        message: "The gateway could not determine the engine of the request. Send the header X-Firebolt-Engine; if you did, report this with the x-request-id of the response.",
    },
    Reply {
        when: When::Flags(&["UC", "UR", "LR", "UPE"]),
        status: Some(503),
        code: "engine_connection_lost",
        message: "The connection to the engine was lost during the query. The query may have run: check its effects before you send it again.",
    },
    Reply {
        when: When::Flags(&["SI"]),
        status: None,
        code: "stream_idle",
        message: "Nothing was sent in either direction for too long, so the gateway closed the request. The query may have run: check its effects before you send it again.",
    },
    Reply {
        when: When::Flags(&["UO"]),
        status: Some(503),
        code: "engine_overloaded",
        message: "Too many queries are waiting for the engine. The query did not run. Retry when some of them have finished.",
    },
    Reply {
        when: When::Flags(&["UH"]),
        status: Some(503),
        code: "engine_unavailable",
        message: "No engine of this name is running, or none of its pods is ready. Check the name, start the engine if it is stopped, or retry in a few seconds.",
    },
    Reply {
        when: When::Flags(&["UF", "URX"]),
        status: Some(503),
        code: "engine_unreachable",
        message: "The engine did not accept the query in several attempts. The query did not run. Retry in a few seconds.",
    },
    Reply {
        when: When::Status(400),
        status: None,
        code: "request_malformed",
        message: "The request is not valid HTTP, or a header has an underscore in its name. Correct the request before you send it again.",
    },
    Reply {
        when: When::Status(408),
        status: None,
        code: "request_timeout",
        message: "The headers of the request did not arrive in time. Send the request again.",
    },
    Reply {
        when: When::Status(431),
        status: None,
        code: "headers_too_large",
        message: "The path and the headers of the request are too large, or there are too many headers. Send long statements in the body.",
    },
    Reply {
        when: When::Status(501),
        status: None,
        code: "request_refused",
        message: REFUSED,
    },
    Reply {
        when: When::StatusFrom(500),
        status: Some(503),
        code: "gateway_unavailable",
        message: "The gateway could not forward the query. Retry in a few seconds.",
    },
    Reply {
        when: When::StatusFrom(400),
        status: None,
        code: "request_refused",
        message: REFUSED,
    },
];

pub(super) fn local_replies() -> LocalReplyConfig {
    let mut mappers = vec![from_script()];
    mappers.extend(REPLIES.iter().map(mapper));
    LocalReplyConfig { mappers }
}

/// Responses of the selection script stay as they are.
fn from_script() -> Mapper {
    Mapper {
        filter: Filter::MetadataFilter {
            matcher: select::refused(),
            match_if_key_not_found: false,
        },
        status_code: None,
        body_format_override: None,
    }
}

fn mapper(reply: &Reply) -> Mapper {
    let filter = match reply.when {
        When::Flags(flags) => Filter::ResponseFlagFilter { flags },
        When::Status(status) => status_filter("EQ", status),
        When::StatusFrom(status) => status_filter("GE", status),
    };
    let error = ErrorBody {
        code: reply.code,
        message: reply.message,
    };
    Mapper {
        filter,
        status_code: reply.status,
        body_format_override: Some(BodyFormat {
            json_format: Body { error },
        }),
    }
}

fn status_filter(op: &'static str, status: u16) -> Filter {
    let value = RuntimeNumber {
        default_value: status,
        // Envoy requires a name under which the number could be changed; nothing sets it.
        runtime_key: "firebolt.local_reply_status",
    };
    Filter::StatusCodeFilter {
        comparison: Comparison { op, value },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn no_message_contains_a_command_operator_of_envoy() {
        for reply in &REPLIES {
            assert!(!reply.message.contains('%'), "{}", reply.message);
        }
    }

    #[rstest]
    fn a_reply_that_cannot_know_does_not_claim_that_the_query_did_not_run(
        #[values("UC", "UR", "LR", "UPE", "SI")] flag: &str,
    ) {
        let reply = REPLIES
            .iter()
            .find(|reply| matches!(reply.when, When::Flags(flags) if flags.contains(&flag)))
            .expect("a reply for the flag");
        assert!(reply.message.contains("may have run"), "{}", reply.message);
    }
}
