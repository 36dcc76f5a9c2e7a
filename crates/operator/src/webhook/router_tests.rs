use std::convert::Infallible;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::http::Method;
use clap::Parser;
use futures::{StreamExt, stream};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use rstest::rstest;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::*;
use crate::cli::{Cli, Command};
use crate::metrics::Metrics;
use crate::queue::Inboxes;
use crate::settings::{Settings, Surroundings};
use crate::watches::Caches;

/// A router whose judge knows nothing and has this API server to ask.
struct Asked(TowerToHyperService<Router>);

impl Asked {
    fn with(api_server: Router) -> Self {
        let Command::Run(arguments) = Cli::parse_from(["firebolt-operator", "run"]).command else {
            panic!("parsed as another command");
        };
        let surroundings = Surroundings {
            namespace: "ns".into(),
            host_name: "host".into(),
            nonce: 0,
        };
        let settings = Arc::new(Settings::resolve(*arguments, surroundings));
        let metrics = Arc::new(Metrics::new("test", SystemTime::UNIX_EPOCH));
        let client = Client::new(api_server, "ns");
        // The watches end here, so that the caches stay empty.
        let mut watches = JoinSet::new();
        let caches = Caches::start(&client, &settings, &metrics, &mut watches, &Inboxes::default());
        drop(watches);
        let judge = Judge::new(client, settings, Arc::new(caches), metrics);
        Self(TowerToHyperService::new(router(judge)))
    }

    /// The API server has nothing.
    fn with_nothing() -> Self {
        Self::with(Router::new())
    }

    async fn send(&self, request: HttpRequest) -> (StatusCode, Vec<u8>) {
        let response = self.0.call(request).await.unwrap();
        let status = response.status();
        (
            status,
            response.into_body().collect().await.unwrap().to_bytes().to_vec(),
        )
    }

    async fn post(&self, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
        self.send(post_to(Question::Engine.path(), "application/json", body))
            .await
    }

    async fn ask(&self, question: Question, request: Value) -> Value {
        let review = json!({ "request": request }).to_string();
        let (status, body) = self.send(post_to(question.path(), "application/json", review)).await;
        assert_eq!(status, StatusCode::OK);
        serde_json::from_slice(&body).unwrap()
    }
}

fn post_to(path: &str, kind: &str, body: impl Into<Body>) -> HttpRequest {
    let request = HttpRequest::post(path).header(header::CONTENT_TYPE, kind);
    request.body(body.into()).unwrap()
}

/// A question that needs nothing else to be answered.
fn deleted() -> Value {
    let object = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    json!({ "uid": "u-1", "operation": "UPDATE", "name": "a", "namespace": "n", "object": object })
}

fn engine(class: &str) -> Value {
    let spec = json!({ "instanceRef": "main", "replicas": 1, "engineClassRef": class });
    let object = json!({ "apiVersion": FireboltEngine::api_version(&()), "kind": "FireboltEngine", "metadata": { "name": "a", "namespace": "n" }, "spec": spec });
    json!({ "uid": "u-1", "operation": "CREATE", "name": "a", "namespace": "n", "object": object })
}

fn review() -> String {
    json!({ "request": deleted() }).to_string()
}

/// The body comes in these pieces, and then nothing more.
fn pieces(pieces: Vec<Vec<u8>>, end: bool) -> Body {
    let pieces = stream::iter(pieces).map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
    if end {
        Body::from_stream(pieces)
    } else {
        Body::from_stream(pieces.chain(stream::pending()))
    }
}

#[rstest]
#[case(Question::Engine)]
#[case(Question::EngineClass)]
#[case(Question::Instance)]
#[case(Question::IdentityOfInstance)]
#[tokio::test]
async fn the_answer_is_to_the_question(#[case] question: Question) {
    let answer = Asked::with_nothing().ask(question, deleted()).await;
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
async fn questions_are_json(#[case] kind: &str, #[case] expected: StatusCode) {
    let request = post_to(Question::Engine.path(), kind, review());
    assert_eq!(Asked::with_nothing().send(request).await.0, expected);
}

#[tokio::test]
async fn a_question_of_no_kind_is_refused() {
    let request = HttpRequest::post(Question::Engine.path())
        .body(review().into())
        .unwrap();
    let (status, text) = Asked::with_nothing().send(request).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(text, b"the body of a question is application/json\n");
}

#[rstest]
#[case("/")]
#[case("/validate")]
#[case("/validate-compute-firebolt-io-v1alpha1-fireboltengine/")]
#[tokio::test]
async fn other_paths_are_not_found(#[case] path: &str) {
    let request = post_to(path, "application/json", review());
    assert_eq!(Asked::with_nothing().send(request).await.0, StatusCode::NOT_FOUND);
}

#[rstest]
#[tokio::test]
async fn questions_are_posted(#[values(Method::GET, Method::PUT, Method::DELETE, Method::HEAD)] method: Method) {
    for question in Question::ALL {
        let mut request = post_to(question.path(), "application/json", review());
        *request.method_mut() = method.clone();
        let (status, _) = Asked::with_nothing().send(request).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[rstest]
#[case::nothing("")]
#[case::no_json("{")]
#[case::no_question("{}")]
#[case::an_answer(r#"{"response":{"uid":"u","allowed":true}}"#)]
#[case::no_name(r#"{"request":{"operation":"CREATE"}}"#)]
#[case::odd_operation(r#"{"request":{"uid":"u","operation":"STEAL"}}"#)]
#[case::not_text("{\"request\":{\"uid\":\"\u{0}\"}}")]
#[tokio::test]
async fn what_is_no_review_is_told_so(#[case] body: &'static str) {
    let (status, text) = Asked::with_nothing().post(body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.starts_with(b"the body is no AdmissionReview with a request: "));
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
async fn names_are_those_of_objects_because_requests_and_logs_have_them(
    #[case] field: &str,
    #[case] value: String,
    #[case] is_taken: bool,
) {
    let mut request = deleted();
    request[field] = json!(value);
    let (status, _) = Asked::with_nothing()
        .post(json!({ "request": request }).to_string())
        .await;
    assert_eq!(status == StatusCode::OK, is_taken, "{status}");
}

#[rstest]
#[case::the_largest(LARGEST_BODY, StatusCode::OK)]
#[case::one_byte_more(LARGEST_BODY + 1, StatusCode::PAYLOAD_TOO_LARGE)]
#[tokio::test]
async fn a_body_is_bounded(#[case] size: usize, #[case] expected: StatusCode) {
    let mut body = review().into_bytes();
    // Space at the end of a document says nothing.
    body.resize(size, b' ');
    let asked = Asked::with_nothing();
    assert_eq!(asked.post(body.clone()).await.0, expected, "at once");
    let parts = body.chunks(1_000_000).map(<[u8]>::to_vec).collect();
    assert_eq!(asked.post(pieces(parts, true)).await.0, expected, "in pieces");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let begun = Instant::now();
    let (status, _) = Asked::with_nothing().post(pieces(vec![b"{".to_vec()], false)).await;
    assert_eq!((status, begun.elapsed()), (StatusCode::REQUEST_TIMEOUT, LONGEST_BODY));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_question() {
    let broken = stream::iter([Ok("{"), Err("gone")]);
    let (status, text) = Asked::with_nothing().post(Body::from_stream(broken)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.starts_with(b"the body broke off"));
}

#[tokio::test(start_paused = true)]
async fn large_bodies_that_take_up_all_room_make_large_ones_wait_but_not_for_ever() {
    const ALL: usize = ALL_BODIES[1] / LARGEST_BODY;
    let asked = Asked::with_nothing();
    let large = |complete| pieces(vec![vec![b' '; LARGEST_BODY]], complete);
    let mut stuck = JoinSet::new();
    for _ in 0..ALL {
        let service = asked.0.clone();
        stuck.spawn(async move { Asked(service).post(large(false)).await.0 });
    }
    // All of them have what they will ever get once there is nothing else to do.
    sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    assert_eq!(asked.post(review()).await.0, StatusCode::OK);
    assert_eq!(begun.elapsed(), Duration::ZERO, "a small one does not wait");
    // Only space, so there is nothing to answer once it was read.
    assert_eq!(asked.post(large(true)).await.0, StatusCode::BAD_REQUEST);
    assert!(begun.elapsed() > LONGEST_BODY / 2, "there was room after all");
    assert_eq!(stuck.join_all().await, [StatusCode::REQUEST_TIMEOUT; ALL]);
    let begun = Instant::now();
    assert_eq!(asked.post(large(true)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(begun.elapsed(), Duration::ZERO, "the room was not given back");
}

/// An API server that has nothing, and takes so long to say so.
fn slow(pause: Duration) -> Router {
    Router::new().fallback(async move || {
        sleep(pause).await;
        let status = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "" });
        (StatusCode::NOT_FOUND, status.to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn a_question_that_cannot_be_decided_is_answered_with_the_reason() {
    let asked = Asked::with(slow(Duration::MAX));
    let answer = asked.ask(Question::Engine, engine("c")).await;
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
        message.starts_with("cannot get FireboltInstance n/main: no answer"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_before_the_api_server_gives_up() {
    let begun = Instant::now();
    let asked = Asked::with(slow(LONGEST_JUDGEMENT.mul_f64(0.4)));
    let answer = asked.ask(Question::Engine, engine("c")).await;
    assert_eq!(
        answer["response"]["status"]["details"]["causes"][0]["reason"],
        "FieldValueNotFound"
    );
    assert!(begun.elapsed() < LONGEST_JUDGEMENT);
}

#[rstest]
#[tokio::test]
async fn a_reference_that_no_object_can_have_is_to_nothing(#[values("a b", "a/b", "a?b", "..", "%00")] name: &str) {
    let answer = Asked::with(slow(Duration::ZERO))
        .ask(Question::Engine, engine(name))
        .await;
    let cause = &answer["response"]["status"]["details"]["causes"][0];
    assert_eq!(
        (&cause["field"], &cause["reason"]),
        (&json!("spec.engineClassRef"), &json!("FieldValueNotFound"))
    );
}
