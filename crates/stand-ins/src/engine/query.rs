//! A query: it is accepted or rejected, is reported, lasts as long as it asks for, and is answered.

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use firebolt_api::Duration;
use firebolt_process::error::chain;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::DRAINED_HEADER;
use super::state::State;
use super::statement::{self, Statement};

/// Names the query, so that its executions can be counted.
pub const ID_HEADER: &str = "x-query-id";
/// Names the query, for clients that cannot set a header.
pub(crate) const ID_PARAMETER: &str = "query_id";
/// How long the query runs, such as `250ms`.
pub const DURATION_HEADER: &str = "x-query-duration";
/// How long the query runs, for clients that cannot set a header.
pub(crate) const DURATION_PARAMETER: &str = "query_duration";

/// What an engine says of a query that it executed and whose statement it does not understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The engine that answers.
    pub pod: String,
    /// The identifier under which the query is recorded.
    pub query_id: String,
    /// The method.
    pub method: String,
    /// Path and parameters, as they were received.
    pub target: String,
    /// Every header line, names in lower case. Lines of one name are in their order.
    pub headers: Vec<(String, String)>,
    /// The size of the body.
    pub body_bytes: u64,
    /// The SHA-256 of the body, in hexadecimal digits.
    pub body_sha256: String,
}

impl Answer {
    /// The values of a header, in their order. The name is in lower case.
    pub fn header<'answer>(&'answer self, name: &'answer str) -> impl Iterator<Item = &'answer str> {
        let lines = self.headers.iter().filter(move |(line, _)| line == name);
        lines.map(|(_, value)| value.as_str())
    }
}

pub(super) async fn answer(state: &State, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let mut body = body.into_data_stream();
    if state.is_stopping() {
        state.reject();
        return turn_away(body);
    }
    let length = match asked(&head, DURATION_HEADER, DURATION_PARAMETER).map(|text| text.parse::<Duration>()) {
        None => None,
        Some(Ok(length)) => Some(length.get()),
        Some(Err(error)) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let Some(query) = Query::read(&mut body).await else {
        // No client is left to respond to, and an incomplete query is not executed.
        return StatusCode::BAD_REQUEST.into_response();
    };
    let statement = query.statement();
    let own_id = statement.as_ref().and_then(Statement::id).map(str::to_owned);
    let id = asked(&head, ID_HEADER, ID_PARAMETER).or(own_id);
    let to_report = id.clone();
    let Some(mut execution) = state.begin(id) else {
        return turn_away(body);
    };
    if let (Some(ledger), Some(id)) = (state.ledger(), to_report)
        && let Err(error) = ledger.report(&id).await
    {
        execution.take_back();
        let reason = format!("this query was not executed: {}\n", chain(&error));
        return (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response();
    }
    let begin = Instant::now();
    if let Some(length) = length.or(statement.as_ref().and_then(Statement::length)) {
        tokio::select! {
            () = tokio::time::sleep(length) => {}
            () = execution.released() => {}
        }
    }
    match statement {
        Some(statement) => Json(statement.answer(execution.id(), begin.elapsed())).into_response(),
        None => Json(Answer {
            pod: state.pod().to_owned(),
            query_id: execution.id().to_owned(),
            method: head.method.to_string(),
            target: head.uri.to_string(),
            headers: lines(&head.headers),
            body_bytes: query.bytes,
            body_sha256: format!("{:x}", Bytes::copy_from_slice(&query.hash.finalize())),
        })
        .into_response(),
    }
}

/// What is kept of a body.
#[derive(Default)]
struct Query {
    bytes: u64,
    hash: Sha256,
    /// Its beginning: all of it if it is no longer than a statement may be.
    beginning: Vec<u8>,
}

impl Query {
    /// Reads a body to its end, if it has one.
    async fn read(body: &mut BodyDataStream) -> Option<Self> {
        let mut query = Self::default();
        while let Some(part) = body.next().await {
            let part = part.ok()?;
            query.bytes += u64::try_from(part.len()).unwrap_or(u64::MAX);
            query.hash.update(&part);
            // One byte more than the limit shows that the rest is missing.
            let room = (statement::LIMIT + 1).saturating_sub(query.beginning.len());
            query.beginning.extend_from_slice(&part[..part.len().min(room)]);
        }
        Some(query)
    }

    fn statement(&self) -> Option<Statement> {
        let whole = (self.beginning.len() <= statement::LIMIT).then_some(&self.beginning)?;
        Statement::parse(std::str::from_utf8(whole).ok()?)
    }
}

/// Responds immediately that the query was not executed. The rest of it is still read: a connection that is closed
/// while data arrives is reset, and a reset may overtake the response.
fn turn_away(mut rest: BodyDataStream) -> Response {
    tokio::spawn(async move { while rest.next().await.is_some_and(|part| part.is_ok()) {} });
    (
        StatusCode::SERVICE_UNAVAILABLE,
        [(DRAINED_HEADER, "true")],
        Body::from("this engine is shutting down\n"),
    )
        .into_response()
}

/// What a header says, or else a parameter.
fn asked(head: &Parts, header: &str, parameter: &str) -> Option<String> {
    let in_header = head.headers.get(header).and_then(|value| value.to_str().ok());
    let in_target = || {
        let mut parameters = head.uri.query().unwrap_or("").split('&');
        parameters.find_map(|part| part.strip_prefix(parameter)?.strip_prefix('='))
    };
    in_header.or_else(in_target).map(str::to_owned)
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let line = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    };
    headers.iter().map(line).collect()
}
