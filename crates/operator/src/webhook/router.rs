//! The paths that the API server calls. Each request is bounded in size and time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_process::error::shortened;
use futures::FutureExt;
use http_body_util::BodyExt;
use kube::Resource;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, error_span, warn};

use super::metrics::AdmissionResult;
use super::review::{AdmissionRequest, AdmissionResponse, AdmissionReview, review, unavailable};
use super::validator::{LookupError, Validator};

/// Limit on the body of a request: the API server accepts objects of up to 3 MiB, and sends the old one with the new.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// The first part of a body, which has memory reserved for it. Nearly every body is smaller, so that large bodies do not
/// delay small ones.
const SMALL_BODY: usize = 256 * 1024;
/// Limits on the memory of all bodies together: for their first parts, and for the rest. Further requests wait.
const BODY_MEMORY: [usize; 2] = [16 * 1024 * 1024, 48 * 1024 * 1024];
/// The unit in which the memory of bodies is counted.
const MEMORY_UNIT: usize = 1024;
/// Timeout of reading the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of validating a request. The API server waits for ten seconds in all, and needs the response to report why.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(6);
/// Limit on requests that are validated at a time. Further requests wait.
const MAX_CONCURRENT_VALIDATIONS: usize = 16;
/// Limit on the text of a lookup error.
const MAX_ERROR_LENGTH: usize = 500;

/// A webhook that the API server calls, one per path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Webhook {
    ValidateEngine,
    ValidateEngineClass,
    ValidateInstance,
    DefaultInstance,
}

impl Webhook {
    const ALL: [Self; 4] = [
        Self::ValidateEngine,
        Self::ValidateEngineClass,
        Self::ValidateInstance,
        Self::DefaultInstance,
    ];

    /// The path, which `deploy/webhooks.yaml` registers. It is also the label `webhook` of metrics.
    fn path(self) -> &'static str {
        match self {
            Self::ValidateEngine => "/validate-compute-firebolt-io-v1alpha1-fireboltengine",
            Self::ValidateEngineClass => "/validate-compute-firebolt-io-v1alpha1-fireboltengineclass",
            Self::ValidateInstance => "/validate-compute-firebolt-io-v1alpha1-fireboltinstance",
            Self::DefaultInstance => "/mutate-compute-firebolt-io-v1alpha1-fireboltinstance",
        }
    }

    /// The kind of its objects.
    fn kind(self) -> String {
        match self {
            Self::ValidateEngine => FireboltEngine::kind(&()),
            Self::ValidateEngineClass => FireboltEngineClass::kind(&()),
            Self::ValidateInstance | Self::DefaultInstance => FireboltInstance::kind(&()),
        }
        .into_owned()
    }
}

/// Handles admission requests, within limits that all webhooks share.
#[derive(Clone)]
struct AdmissionHandler {
    validator: Validator,
    body_memory: [Arc<Semaphore>; 2],
    validations: Arc<Semaphore>,
}

/// The routes of all webhooks.
pub fn router(validator: Validator) -> Router {
    let handler = AdmissionHandler::new(validator);
    Webhook::ALL.into_iter().fold(Router::new(), |router, webhook| {
        handler.validator.metrics.initialize(webhook.path());
        let handler = handler.clone();
        let handle = async move |request: HttpRequest| handler.handle(webhook, request).await;
        router.route(webhook.path(), post(handle))
    })
}

/// Why a request is not a valid admission request. It gets an HTTP error.
#[derive(Debug, thiserror::Error)]
enum BadRequest {
    #[error("the content type is not application/json")]
    ContentType,
    #[error("the body exceeds {MAX_BODY} bytes")]
    TooLarge,
    #[error("cannot read the body: {0}")]
    Body(String),
    #[error("timed out reading the body after {BODY_TIMEOUT:?}")]
    BodyTimeout,
    #[error("the body is not an AdmissionReview with a request: {0}")]
    Review(serde_json::Error),
    #[error("the request has an invalid uid, namespace or name")]
    ObjectName,
}

impl IntoResponse for BadRequest {
    fn into_response(self) -> Response {
        let status = match self {
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(_) | Self::Review(_) | Self::ObjectName => StatusCode::BAD_REQUEST,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
        };
        (status, format!("{self}\n")).into_response()
    }
}

impl AdmissionHandler {
    fn new(validator: Validator) -> Self {
        Self {
            validator,
            body_memory: BODY_MEMORY.map(|bytes| Arc::new(Semaphore::new(bytes / MEMORY_UNIT))),
            validations: Arc::new(Semaphore::new(MAX_CONCURRENT_VALIDATIONS)),
        }
    }

    async fn handle(&self, webhook: Webhook, request: HttpRequest) -> Response {
        self.respond(webhook, self.admit(webhook, request)).await
    }

    /// The response to a request. If it panics, the panic hook has logged why, and other requests are not affected.
    async fn respond(&self, webhook: Webhook, admit: impl Future<Output = Result<Value, BadRequest>>) -> Response {
        let (start, metrics) = (Instant::now(), &self.validator.metrics);
        let _in_flight = metrics.start_request(webhook.path());
        let response = match AssertUnwindSafe(admit).catch_unwind().await {
            Ok(Ok(review)) => Json(review).into_response(),
            Err(_panic) => {
                metrics.panicked();
                metrics.responded(&webhook.kind(), None, AdmissionResult::Error);
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the webhook panicked; see the log of the operator for the cause\n",
                )
                    .into_response()
            }
            Ok(Err(error)) => {
                debug!(kind = webhook.kind(), "invalid admission request: {error}");
                metrics.responded(&webhook.kind(), None, AdmissionResult::Error);
                error.into_response()
            }
        };
        metrics.finish_request(webhook.path(), response.status().as_u16(), start.elapsed());
        response
    }

    async fn admit(&self, webhook: Webhook, request: HttpRequest) -> Result<Value, BadRequest> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(BadRequest::ContentType);
        }
        let body = timeout(BODY_TIMEOUT, BoundedBody::read(body, &self.body_memory)).await;
        let body = body.unwrap_or(Err(BadRequest::BodyTimeout))?;
        let AdmissionReview { request } = serde_json::from_slice(&body.bytes).map_err(BadRequest::Review)?;
        if !request.is_well_formed() {
            return Err(BadRequest::ObjectName);
        }
        let AdmissionRequest { namespace, name, .. } = &request;
        let span = error_span!("admission", kind = %webhook.kind(), namespace, name);
        Ok(self.review(webhook, &request).instrument(span).await)
    }

    /// The review with the response to a request. Its log lines carry `kind`, `namespace` and `name` of the object, also that of
    /// a panic.
    async fn review(&self, webhook: Webhook, request: &AdmissionRequest) -> Value {
        let kind = webhook.kind();
        let (answer, result) = match timeout(VALIDATION_TIMEOUT, self.validate(webhook, request)).await {
            Ok(Ok(response)) if response.is_allowed() => (review(&kind, request, &response), AdmissionResult::Allowed),
            Ok(Ok(response)) => (review(&kind, request, &response), AdmissionResult::Denied),
            Ok(Err(error)) => {
                let error = shortened(&error.to_string(), MAX_ERROR_LENGTH);
                warn!("cannot validate: {error}");
                (unavailable(&request.uid, &error), AdmissionResult::Error)
            }
            Err(_elapsed) => {
                let AdmissionRequest { namespace, name, .. } = request;
                let error =
                    format!("timed out validating {kind} {namespace}/{name} after {VALIDATION_TIMEOUT:?}; retry");
                warn!("{error}");
                (unavailable(&request.uid, &error), AdmissionResult::Error)
            }
        };
        self.validator.metrics.responded(&kind, Some(request.operation), result);
        answer
    }

    async fn validate(&self, webhook: Webhook, request: &AdmissionRequest) -> Result<AdmissionResponse, LookupError> {
        // Any client in the cluster network can send requests, and each may cost memory and requests to the API server.
        let _permit = self.validations.acquire().await.expect("the semaphore is never closed");
        match webhook {
            Webhook::ValidateEngine => Box::pin(self.validator.engine(request)).await,
            Webhook::ValidateEngineClass => Box::pin(self.validator.engine_class(request)).await,
            Webhook::ValidateInstance => Box::pin(self.validator.instance(request)).await,
            Webhook::DefaultInstance => Ok(self.validator.default_instance(request)),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

/// A body, and the memory that is reserved for it.
struct BoundedBody {
    bytes: Vec<u8>,
    _memory: Vec<OwnedSemaphorePermit>,
}

impl BoundedBody {
    /// Reads a body. Memory is reserved for the data that has arrived, not for the announced length: a client that announces
    /// a large body and sends nothing delays no other.
    async fn read(mut body: Body, memory: &[Arc<Semaphore>; 2]) -> Result<Self, BadRequest> {
        let (mut bytes, mut reserved): (Vec<u8>, [Option<OwnedSemaphorePermit>; 2]) = <_>::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| BadRequest::Body(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY {
                return Err(BadRequest::TooLarge);
            }
            let part = usize::from(bytes.len() + data.len() > SMALL_BODY);
            let units = u32::try_from(data.len().div_ceil(MEMORY_UNIT)).expect("a body is smaller than that");
            let more = Arc::clone(&memory[part]).acquire_many_owned(units).await;
            let more = more.expect("the semaphore is never closed");
            match &mut reserved[part] {
                Some(reserved) => reserved.merge(more),
                None => reserved[part] = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Self {
            bytes,
            _memory: reserved.into_iter().flatten().collect(),
        })
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
