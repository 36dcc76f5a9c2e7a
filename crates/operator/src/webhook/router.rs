//! The paths that the API server asks at, each bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use http_body_util::BodyExt;
use kube::Resource;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::judge::{Judge, Trouble};
use super::metrics::Outcome;
use super::review::{Operation, Request, Review, Subject, Verdict, answer, no_answer};
use crate::error::shortened;

/// The most that is read of a request: the API server takes objects of up to 3 MiB, and sends the old one with the new.
const LARGEST_BODY: usize = 8 * 1024 * 1024;
/// The part of a body that has room of its own, which is all of nearly every body: large ones keep no small one waiting.
const SMALL: usize = 256 * 1024;
/// The most that all requests together may hold at a time, in their first parts and beyond those; more wait.
const ALL_BODIES: [usize; 2] = [16 * 1024 * 1024, 48 * 1024 * 1024];
/// The unit in which that is counted.
const UNIT: usize = 1024;
/// How long the body of a request may take to come.
const LONGEST_BODY: Duration = Duration::from_secs(3);
/// How long the rest may take. The API server waits for ten seconds in all, and an answer says more than none.
const LONGEST_JUDGEMENT: Duration = Duration::from_secs(6);
/// How many questions are judged at a time; more wait.
const TURNS: usize = 16;
/// The most that is told of what came in the way of an answer.
const LONGEST_TROUBLE: usize = 500;

/// What is asked at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Engine,
    EngineClass,
    Instance,
    IdentityOfInstance,
}

impl Question {
    const ALL: [Self; 4] = [
        Self::Engine,
        Self::EngineClass,
        Self::Instance,
        Self::IdentityOfInstance,
    ];

    /// Where the API server asks. The registration in `deploy/webhooks.yaml` names the same.
    fn path(self) -> &'static str {
        match self {
            Self::Engine => "/validate-compute-firebolt-io-v1alpha1-fireboltengine",
            Self::EngineClass => "/validate-compute-firebolt-io-v1alpha1-fireboltengineclass",
            Self::Instance => "/validate-compute-firebolt-io-v1alpha1-fireboltinstance",
            Self::IdentityOfInstance => "/mutate-compute-firebolt-io-v1alpha1-fireboltinstance",
        }
    }

    /// What the question is about.
    fn kind(self) -> String {
        match self {
            Self::Engine => FireboltEngine::kind(&()),
            Self::EngineClass => FireboltEngineClass::kind(&()),
            Self::Instance | Self::IdentityOfInstance => FireboltInstance::kind(&()),
        }
        .into_owned()
    }
}

/// What all questions share.
#[derive(Clone)]
struct Desk {
    judge: Judge,
    room: [Arc<Semaphore>; 2],
    turns: Arc<Semaphore>,
}

/// Answers the API server.
pub fn router(judge: Judge) -> Router {
    let desk = Desk {
        judge,
        room: ALL_BODIES.map(|bytes| Arc::new(Semaphore::new(bytes / UNIT))),
        turns: Arc::new(Semaphore::new(TURNS)),
    };
    Question::ALL.into_iter().fold(Router::new(), |router, question| {
        let desk = desk.clone();
        let handler = async move |request: HttpRequest| desk.attend(question, request).await;
        router.route(question.path(), post(handler))
    })
}

/// Why a request is no question that could be answered.
#[derive(Debug, thiserror::Error)]
enum Unanswerable {
    #[error("the body of a question is application/json")]
    NotJson,
    #[error("the body of a question has at most {LARGEST_BODY} bytes")]
    TooLarge,
    #[error("the body broke off: {0}")]
    Incomplete(String),
    #[error("the body did not come within {LONGEST_BODY:?}")]
    SlowBody,
    #[error("the body is no AdmissionReview with a request: {0}")]
    NoReview(serde_json::Error),
    #[error("namespace and name of the object are not those of an object")]
    NoObject,
}

impl IntoResponse for Unanswerable {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete(_) | Self::NoReview(_) | Self::NoObject => StatusCode::BAD_REQUEST,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
        };
        (status, format!("{self}\n")).into_response()
    }
}

impl Desk {
    async fn attend(&self, question: Question, request: HttpRequest) -> Response {
        let begun = Instant::now();
        let (response, operation, outcome) = match self.answer(question, request).await {
            Ok((review, operation, outcome)) => (Json(review).into_response(), Some(operation), outcome),
            Err(why) => {
                debug!("cannot answer a question about {}: {why}", question.kind());
                (why.into_response(), None, Outcome::Error)
            }
        };
        let took = begun.elapsed();
        self.judge
            .metrics
            .webhook()
            .asked(&question.kind(), operation, outcome, took);
        response
    }

    async fn answer(
        &self,
        question: Question,
        request: HttpRequest,
    ) -> Result<(Value, Operation, Outcome), Unanswerable> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(Unanswerable::NotJson);
        }
        let body = timeout(LONGEST_BODY, Held::read(body, &self.room)).await;
        let body = body.unwrap_or(Err(Unanswerable::SlowBody))?;
        let Review { request } = serde_json::from_slice(&body.bytes).map_err(Unanswerable::NoReview)?;
        if !request.is_well_formed() {
            return Err(Unanswerable::NoObject);
        }
        let verdict = timeout(LONGEST_JUDGEMENT, self.judgement(question, &request)).await;
        let kind = question.kind();
        let subject = Subject {
            kind: &kind,
            name: &request.name,
            operation: request.operation,
        };
        let (review, outcome) = match verdict {
            Ok(Ok(verdict)) if verdict.accepts() => (answer(&request.uid, subject, &verdict), Outcome::Accepted),
            Ok(Ok(verdict)) => (answer(&request.uid, subject, &verdict), Outcome::Refused),
            Ok(Err(trouble)) => {
                let trouble = shortened(&trouble.to_string(), LONGEST_TROUBLE);
                warn!("cannot judge {kind} {}/{}: {trouble}", request.namespace, request.name);
                (no_answer(&request.uid, &trouble), Outcome::Error)
            }
            Err(_elapsed) => {
                let trouble = format!("cannot judge {kind} within {LONGEST_JUDGEMENT:?}. Try again.");
                (no_answer(&request.uid, &trouble), Outcome::Error)
            }
        };
        Ok((review, request.operation, outcome))
    }

    async fn judgement(&self, question: Question, request: &Request) -> Result<Verdict, Trouble> {
        // Strangers can ask too, and each question may cost memory, and requests to the API server.
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        match question {
            Question::Engine => Box::pin(self.judge.engine(request)).await,
            Question::EngineClass => Box::pin(self.judge.engine_class(request)).await,
            Question::Instance => Box::pin(self.judge.instance(request)).await,
            Question::IdentityOfInstance => Ok(self.judge.identify(request)),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// A body, and the room that it takes up for as long as it is held.
struct Held {
    bytes: Vec<u8>,
    _room: Vec<OwnedSemaphorePermit>,
}

impl Held {
    /// Reads a body as it comes. Room is taken for what has come, so that a promise to send much keeps nobody out.
    async fn read(mut body: Body, room: &[Arc<Semaphore>; 2]) -> Result<Self, Unanswerable> {
        let (mut bytes, mut taken): (Vec<u8>, [Option<OwnedSemaphorePermit>; 2]) = <_>::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Unanswerable::Incomplete(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > LARGEST_BODY {
                return Err(Unanswerable::TooLarge);
            }
            let part = usize::from(bytes.len() + data.len() > SMALL);
            let units = u32::try_from(data.len().div_ceil(UNIT)).expect("a body is smaller than that");
            let more = Arc::clone(&room[part]).acquire_many_owned(units).await;
            let more = more.expect("the semaphore is never closed");
            match &mut taken[part] {
                Some(taken) => taken.merge(more),
                None => taken[part] = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Self {
            bytes,
            _room: taken.into_iter().flatten().collect(),
        })
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
