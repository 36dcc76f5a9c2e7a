//! Serves one request.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{self, Body, Bytes};
use axum::http::header::{CONNECTION, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use axum::http::{Request, Response, request};
use hyper::body::Incoming;
use serde_json::json;

use super::call::{self, Call, Verb};
use super::rule::{Fault, Rule};
use super::watches::Disturbance;
use super::{Cut, Outcome, ProxiedWrite, Shared};

type Answer = Result<Response<Body>, Cut>;

pub(super) async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    let body = body::to_bytes(Body::new(body), usize::MAX).await.map_err(|_| Cut)?;
    let call = Call::of(&parts.method, &parts.uri, &body);
    let passage = Passage {
        shared,
        call,
        parts,
        body,
    };
    // A request that its sender gave up on is still carried out.
    tokio::spawn(passage.pass()).await.unwrap_or(Err(Cut))
}

/// A request, complete.
struct Passage {
    shared: Arc<Shared>,
    call: Option<Call>,
    parts: request::Parts,
    body: Bytes,
}

impl Passage {
    async fn pass(self) -> Answer {
        let Some(call) = self.call.clone() else {
            return self.forward(None, None).await;
        };
        let entry = call.is_write().then(|| self.shared.begin(call.clone()));
        let Some((rule, fault)) = self.shared.meet(&call, &self.body) else {
            return self.forward(entry, None).await;
        };
        match fault {
            Fault::Answer { code, retry_after } => {
                self.shared.end(entry, Outcome::Refused(code));
                rule.strike();
                Ok(refusal(&call, code, retry_after))
            }
            Fault::LoseResponse => {
                let _lost = self.forward(entry, None).await;
                rule.strike();
                Err(Cut)
            }
            Fault::CutBefore => {
                self.shared.end(entry, Outcome::Cut);
                rule.strike();
                Err(Cut)
            }
            Fault::Hold => {
                rule.strike();
                rule.released().await;
                self.forward(entry, None).await
            }
            Fault::HoldResponse => {
                let answer = self.forward(entry, None).await;
                rule.strike();
                rule.released().await;
                answer
            }
            Fault::Watch(disturbance) => {
                let answer = self.forward(entry, Some(disturbance)).await;
                rule.strike();
                answer
            }
        }
    }

    async fn forward(self, entry: Option<usize>, disturbance: Option<Disturbance>) -> Answer {
        let Self {
            shared,
            call,
            parts,
            body,
        } = self;
        let uri = match &call {
            Some(call) if call.verb == Verb::List && !call.of_one_engine => {
                match shared.watches.frozen_at(&call.resource) {
                    Some(version) => call::as_of(&parts.uri, &version),
                    None => parts.uri,
                }
            }
            Some(_) | None => parts.uri,
        };
        let mut request = Request::new(kube::client::Body::from(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers;
        for of_this_connection in [HOST, CONNECTION, TRANSFER_ENCODING] {
            request.headers_mut().remove(of_this_connection);
        }
        let Ok(answer) = shared.upstream.send(request).await else {
            shared.end(entry, Outcome::Cut);
            return Err(Cut);
        };
        let code = answer.status();
        shared.end(entry, Outcome::Answered(code.as_u16()));
        let answer = answer.map(Body::new);
        Ok(match call {
            Some(call) if call.verb == Verb::Watch && code.is_success() => {
                answer.map(|body| shared.watches.relay(&call.resource, body, disturbance))
            }
            Some(_) | None => answer,
        })
    }
}

impl Shared {
    /// The rule that applies to the request, and its fault.
    fn meet(&self, call: &Call, body: &[u8]) -> Option<(Rule, Fault)> {
        let rules = self.rules.lock().unwrap().clone();
        // All of them count it.
        let met: Vec<_> = rules.into_iter().map(|rule| (rule.meet(call, body), rule)).collect();
        met.into_iter().find_map(|(fault, rule)| Some((rule, fault?)))
    }

    fn begin(&self, call: Call) -> usize {
        let mut journal = self.journal.lock().unwrap();
        journal.push(ProxiedWrite {
            call,
            at: Instant::now(),
            outcome: Outcome::Pending,
        });
        self.grown.notify_all();
        journal.len() - 1
    }

    fn end(&self, entry: Option<usize>, outcome: Outcome) {
        if let Some(entry) = entry {
            self.journal.lock().unwrap()[entry].outcome = outcome;
            self.grown.notify_all();
        }
    }
}

/// The `Status` of an API server that rejects a request.
fn refusal(call: &Call, code: u16, retry_after: Option<u64>) -> Response<Body> {
    let reason = match (code, call.verb) {
        (409, Verb::Create) => "AlreadyExists",
        (409, _) => "Conflict",
        (429, _) => "TooManyRequests",
        (503, _) => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused by the test: {call}"), "reason": reason, "code": code,
    });
    let mut answer = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(RETRY_AFTER, seconds);
    }
    answer.body(Body::from(status.to_string())).unwrap()
}
