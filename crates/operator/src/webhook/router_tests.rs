use std::convert::Infallible;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::http::Method;
use futures::{StreamExt, stream};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::metrics::WebhookMetrics;
use super::*;
use crate::cli::tests::settings;
use crate::informers;
use crate::metrics::Metrics;
use crate::pending::Pending;

/// A router whose validator has empty caches and this API server.
struct Fixture {
    service: TowerToHyperService<Router>,
    handler: AdmissionHandler,
    registry: Registry,
}

impl Fixture {
    fn with(api_server: Router) -> Self {
        let settings = Arc::new(settings(&[]));
        let metrics = Arc::new(Metrics::new("test", SystemTime::UNIX_EPOCH));
        let client = Client::new(api_server, "ns");
        // The watches end here, so the caches stay empty.
        let mut watches = JoinSet::new();
        let caches = informers::start(&client, &settings, &metrics, &mut watches, &Pending::default());
        drop(watches);
        let mut registry = Registry::default();
        let metrics = Arc::new(WebhookMetrics::register(&mut registry));
        let validator = Validator::new(client, settings, Arc::new(caches), metrics);
        Self {
            handler: AdmissionHandler::new(validator.clone()),
            service: TowerToHyperService::new(router(validator)),
            registry,
        }
    }

    /// An API server that answers 404 to everything.
    fn with_nothing() -> Self {
        Self::with(Router::new())
    }

    /// The value of a series, as text.
    fn metric(&self, series: &str) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(str::to_owned)
    }

    async fn send(&self, request: HttpRequest) -> (StatusCode, Vec<u8>) {
        let response = self.service.call(request).await.unwrap();
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes().to_vec(),
        )
    }

    async fn post(&self, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
        self.send(post_to(Webhook::ValidateEngine.path(), "application/json", body))
            .await
    }

    async fn ask(&self, webhook: Webhook, request: Value) -> Value {
        let review = json!({ "request": request }).to_string();
        let (status, body) = self.send(post_to(webhook.path(), "application/json", review)).await;
        assert_eq!(status, StatusCode::OK);
        serde_json::from_slice(&body).unwrap()
    }
}

fn post_to(path: &str, kind: &str, body: impl Into<Body>) -> HttpRequest {
    let request = HttpRequest::post(path).header(header::CONTENT_TYPE, kind);
    request.body(body.into()).unwrap()
}

/// A request that is answered without any lookup.
fn deleted() -> Value {
    let object = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    json!({ "uid": "u-1", "operation": "UPDATE", "name": "a", "namespace": "n", "object": object })
}

fn engine(class: &str) -> Value {
    let spec = json!({ "instanceRef": "main", "replicas": 1, "engineClassRef": class });
    let object = json!({ "apiVersion": FireboltEngine::api_version(&()), "kind": "FireboltEngine", "metadata": { "name": "a", "namespace": "n" }, "spec": spec });
    json!({ "uid": "u-1", "operation": "CREATE", "name": "a", "namespace": "n", "object": object })
}

fn review_body() -> String {
    json!({ "request": deleted() }).to_string()
}

/// A body that arrives in these pieces, and then ends or stalls.
fn pieces(pieces: Vec<Vec<u8>>, end: bool) -> Body {
    let pieces = stream::iter(pieces).map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
    if end {
        Body::from_stream(pieces)
    } else {
        Body::from_stream(pieces.chain(stream::pending()))
    }
}

#[rstest]
#[case(Webhook::ValidateEngine)]
#[case(Webhook::ValidateEngineClass)]
#[case(Webhook::ValidateInstance)]
#[case(Webhook::DefaultInstance)]
#[tokio::test]
async fn the_response_repeats_the_uid_of_the_request(#[case] webhook: Webhook) {
    let answer = Fixture::with_nothing().ask(webhook, deleted()).await;
    let expected = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": { "uid": "u-1", "allowed": true },
    });
    assert_eq!(answer, expected);
}

#[rstest]
#[case("application/json", StatusCode::OK)]
#[case("Application/JSON; charset=utf-8", StatusCode::OK)]
#[case("application/jsonp", StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[case("text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[case("", StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[tokio::test]
async fn requests_must_be_json(#[case] kind: &str, #[case] expected: StatusCode) {
    let request = post_to(Webhook::ValidateEngine.path(), kind, review_body());
    assert_eq!(Fixture::with_nothing().send(request).await.0, expected);
}

#[tokio::test]
async fn a_request_without_a_content_type_is_rejected() {
    let request = HttpRequest::post(Webhook::ValidateEngine.path())
        .body(review_body().into())
        .unwrap();
    let (status, text) = Fixture::with_nothing().send(request).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(text, b"the content type is not application/json\n");
}

#[rstest]
#[case("/")]
#[case("/validate")]
#[case("/validate-compute-firebolt-io-v1alpha1-fireboltengine/")]
#[tokio::test]
async fn other_paths_are_not_found(#[case] path: &str) {
    let request = post_to(path, "application/json", review_body());
    assert_eq!(Fixture::with_nothing().send(request).await.0, StatusCode::NOT_FOUND);
}

#[rstest]
#[tokio::test]
async fn requests_must_be_posts(#[values(Method::GET, Method::PUT, Method::DELETE, Method::HEAD)] method: Method) {
    for webhook in Webhook::ALL {
        let mut request = post_to(webhook.path(), "application/json", review_body());
        *request.method_mut() = method.clone();
        let (status, _) = Fixture::with_nothing().send(request).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[rstest]
#[case::nothing("")]
#[case::no_json("{")]
#[case::no_request("{}")]
#[case::an_answer(r#"{"response":{"uid":"u","allowed":true}}"#)]
#[case::no_name(r#"{"request":{"operation":"CREATE"}}"#)]
#[case::odd_operation(r#"{"request":{"uid":"u","operation":"STEAL"}}"#)]
#[case::not_text("{\"request\":{\"uid\":\"\u{0}\"}}")]
#[tokio::test]
async fn a_body_without_an_admission_review_is_rejected(#[case] body: &'static str) {
    let (status, text) = Fixture::with_nothing().post(body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.starts_with(b"the body is not an AdmissionReview with a request: "));
}

#[rstest]
#[case::long_uid("uid", "x".repeat(253), true)]
#[case::longer_uid("uid", "x".repeat(254), false)]
#[case::name("name", "a.b-c".to_owned(), true)]
#[case::many_at_once("name", String::new(), true)]
#[case::name_that_leads_elsewhere("name", "a/status".to_owned(), false)]
#[case::name_with_a_line_break("name", "a\nb".to_owned(), false)]
#[case::long_name("name", "x".repeat(254), false)]
#[case::namespace("namespace", "x".repeat(63), true)]
#[case::long_namespace("namespace", "x".repeat(64), false)]
#[case::namespace_that_leads_elsewhere("namespace", "n/pods#".to_owned(), false)]
#[case::no_namespace("namespace", String::new(), false)]
#[tokio::test]
async fn names_must_be_valid_because_they_go_into_requests_and_logs(
    #[case] field: &str,
    #[case] value: String,
    #[case] is_accepted: bool,
) {
    let mut request = deleted();
    request[field] = json!(value);
    let (status, _) = Fixture::with_nothing()
        .post(json!({ "request": request }).to_string())
        .await;
    assert_eq!(status == StatusCode::OK, is_accepted, "{status}");
}

#[rstest]
#[case::the_largest(MAX_BODY, StatusCode::OK)]
#[case::one_byte_more(MAX_BODY + 1, StatusCode::PAYLOAD_TOO_LARGE)]
#[tokio::test]
async fn bodies_are_limited_in_size(#[case] size: usize, #[case] expected: StatusCode) {
    let mut body = review_body().into_bytes();
    // Trailing white space is ignored.
    body.resize(size, b' ');
    let fixture = Fixture::with_nothing();
    assert_eq!(fixture.post(body.clone()).await.0, expected, "at once");
    let parts = body.chunks(1_000_000).map(<[u8]>::to_vec).collect();
    assert_eq!(fixture.post(pieces(parts, true)).await.0, expected, "in pieces");
}

#[tokio::test(start_paused = true)]
async fn reading_a_body_times_out() {
    let begun = Instant::now();
    let (status, _) = Fixture::with_nothing().post(pieces(vec![b"{".to_vec()], false)).await;
    assert_eq!((status, begun.elapsed()), (StatusCode::REQUEST_TIMEOUT, BODY_TIMEOUT));
}

#[tokio::test]
async fn a_truncated_body_is_rejected() {
    let broken = stream::iter([Ok("{"), Err("gone")]);
    let (status, text) = Fixture::with_nothing().post(Body::from_stream(broken)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.starts_with(b"cannot read the body: "));
}

#[tokio::test(start_paused = true)]
async fn large_bodies_wait_for_memory_and_small_ones_do_not() {
    const ALL: usize = BODY_MEMORY[1] / MAX_BODY;
    let fixture = Arc::new(Fixture::with_nothing());
    let large = |complete| pieces(vec![vec![b' '; MAX_BODY]], complete);
    let mut stuck = JoinSet::new();
    for _ in 0..ALL {
        let fixture = Arc::clone(&fixture);
        stuck.spawn(async move { fixture.post(large(false)).await.0 });
    }
    // In paused time this returns when all of them are blocked.
    sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    assert_eq!(fixture.post(review_body()).await.0, StatusCode::OK);
    assert_eq!(begun.elapsed(), Duration::ZERO, "a small body does not wait");
    // White space only, so it is rejected once it was read.
    assert_eq!(fixture.post(large(true)).await.0, StatusCode::BAD_REQUEST);
    assert!(begun.elapsed() > BODY_TIMEOUT / 2, "it did not wait for memory");
    assert_eq!(stuck.join_all().await, [StatusCode::REQUEST_TIMEOUT; ALL]);
    let begun = Instant::now();
    assert_eq!(fixture.post(large(true)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(begun.elapsed(), Duration::ZERO, "the memory was not released");
}

/// An API server that answers 404 after a delay.
fn slow(delay: Duration) -> Router {
    Router::new().fallback(async move || {
        sleep(delay).await;
        let status = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "" });
        (StatusCode::NOT_FOUND, status.to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_denies_the_request_with_the_reason() {
    let fixture = Fixture::with(slow(Duration::MAX));
    let answer = fixture.ask(Webhook::ValidateEngine, engine("c")).await;
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("u-1"), &json!(false))
    );
    let status = &answer["response"]["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(503), &json!("ServiceUnavailable"))
    );
    let message = status["message"].as_str().unwrap();
    assert!(
        message == "cannot get FireboltInstance n/main: the API server did not respond within 4s; retry",
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_response_is_sent_before_the_api_server_times_out() {
    let begun = Instant::now();
    let fixture = Fixture::with(slow(VALIDATION_TIMEOUT.mul_f64(0.4)));
    let answer = fixture.ask(Webhook::ValidateEngine, engine("c")).await;
    assert_eq!(
        answer["response"]["status"]["details"]["causes"][0]["reason"],
        "FieldValueNotFound"
    );
    assert!(begun.elapsed() < VALIDATION_TIMEOUT);
}

#[rstest]
#[tokio::test]
async fn a_reference_with_an_invalid_name_is_not_found(#[values("a b", "a/b", "a?b", "..", "%00")] name: &str) {
    let answer = Fixture::with(slow(Duration::ZERO))
        .ask(Webhook::ValidateEngine, engine(name))
        .await;
    let cause = &answer["response"]["status"]["details"]["causes"][0];
    assert_eq!(
        (&cause["field"], &cause["reason"]),
        (&json!("spec.engineClassRef"), &json!("FieldValueNotFound"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_validation_that_takes_too_long_is_denied_with_the_object() {
    let fixture = Fixture::with(slow(VALIDATION_TIMEOUT.mul_f64(0.6)));
    let answer = fixture.ask(Webhook::ValidateEngine, engine("c")).await;
    let status = &answer["response"]["status"];
    assert_eq!(
        (&status["code"], &status["message"]),
        (
            &json!(503),
            &json!("timed out validating FireboltEngine n/a after 6s; retry")
        )
    );
}

#[tokio::test]
async fn requests_are_counted_by_webhook_and_status_code() {
    let fixture = Fixture::with_nothing();
    fixture.ask(Webhook::ValidateEngine, deleted()).await;
    fixture
        .send(post_to(Webhook::ValidateEngine.path(), "text/plain", review_body()))
        .await;
    let path = Webhook::ValidateEngine.path();
    let requests = |code: &str| {
        let series = format!(r#"controller_runtime_webhook_requests_total{{webhook="{path}",code="{code}"}}"#);
        fixture.metric(&series)
    };
    assert_eq!(["200", "415", "500"].map(requests).map(Option::unwrap), ["1", "1", "0"]);
    let latency = format!(r#"controller_runtime_webhook_latency_seconds_count{{webhook="{path}"}}"#);
    let in_flight = format!(r#"controller_runtime_webhook_requests_in_flight{{webhook="{path}"}}"#);
    assert_eq!(
        [latency, in_flight].map(|series| fixture.metric(&series).unwrap()),
        ["2", "0"]
    );
    let allowed =
        r#"firebolt_operator_webhook_responses_total{kind="FireboltEngine",operation="update",outcome="allowed"}"#;
    let invalid = r#"firebolt_operator_webhook_responses_total{kind="FireboltEngine",operation="",outcome="error"}"#;
    assert_eq!(
        [allowed, invalid].map(|series| fixture.metric(series).unwrap()),
        ["1", "1"]
    );
}

#[tokio::test]
async fn a_panic_is_counted_and_gets_a_response() {
    let fixture = Fixture::with_nothing();
    assert_eq!(fixture.metric("controller_runtime_webhook_panics_total").unwrap(), "0");
    let panics = async { panic!("a bug") };
    let response = fixture.handler.respond(Webhook::ValidateEngine, panics).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(fixture.metric("controller_runtime_webhook_panics_total").unwrap(), "1");
    let path = Webhook::ValidateEngine.path();
    let counted = format!("controller_runtime_webhook_requests_total{{webhook=\"{path}\",code=\"500\"}}");
    assert_eq!(fixture.metric(&counted).unwrap(), "1");
    let in_flight = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{path}\"}}");
    assert_eq!(fixture.metric(&in_flight).unwrap(), "0");
}
