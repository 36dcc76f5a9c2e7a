//! What a client reads when Envoy answers in place of an engine: the same JSON as everywhere, in words that say what to do.
//!
//! Envoy's own texts are replaced, since they name hosts and addresses of the cluster.

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

/// When an answer is given.
enum When {
    /// Envoy has set one of these flags.
    Flags(&'static [&'static str]),
    /// Envoy answers with this status.
    Status(u16),
    /// Envoy answers with this status or a higher one.
    StatusFrom(u16),
}

/// One answer.
struct Reply {
    when: When,
    /// The status that the client gets in place of Envoy's.
    status: Option<u16>,
    code: &'static str,
    message: &'static str,
}

const REFUSED: &str = "The gateway does not take requests of this kind. Send a plain HTTP/1.1 or HTTP/2 request.";

/// The first that matches counts, so what may have run comes before what did not.
const REPLIES: [Reply; 12] = [
    Reply {
        when: When::Flags(&["NR"]),
        status: Some(500),
        code: "selection_failed",
        message: "The gateway could not tell which engine the request is for. Send the header X-Firebolt-Engine; if you did, report this with the x-request-id of the answer.",
    },
    Reply {
        when: When::Flags(&["UC", "UR", "LR", "UPE"]),
        status: Some(503),
        code: "engine_connection_lost",
        message: "The connection to the engine was lost while it worked on the query. The query may have run: check its effects before you send it again.",
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
        message: "Too many queries are waiting for the engine. The query did not run. Try again when some of them have finished.",
    },
    Reply {
        when: When::Flags(&["UH"]),
        status: Some(503),
        code: "engine_unavailable",
        message: "No engine of this name is running, or none of its pods is ready. Check the name, start the engine if it is stopped, or try again in a few seconds.",
    },
    Reply {
        when: When::Flags(&["UF", "URX"]),
        status: Some(503),
        code: "engine_unreachable",
        message: "The engine did not take the query, although it was tried several times. The query did not run. Try again in a few seconds.",
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
        message: "The path and the headers of the request are too large or too many. Send long statements in the body.",
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
        message: "The gateway could not pass the query on. Try again in a few seconds.",
    },
    Reply {
        when: When::StatusFrom(400),
        status: None,
        code: "request_refused",
        message: REFUSED,
    },
];

pub(super) fn local_replies() -> LocalReplyConfig {
    let mut mappers = vec![already_in_words()];
    mappers.extend(REPLIES.iter().map(mapper));
    LocalReplyConfig { mappers }
}

/// Responses of the selection script stay as they are.
fn already_in_words() -> Mapper {
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
        // Envoy wants a name under which the number could be changed; nothing sets it.
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
    fn no_message_asks_envoy_to_fill_something_in() {
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
