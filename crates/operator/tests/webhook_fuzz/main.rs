//! Whatever is sent to the webhook, it neither panics nor hangs nor grows, and an answer is to the question.
//!
//! Mutations here know the shape of a question, which reaches further in the same time than a target of `cargo fuzz`
//! would, and need no nightly compiler.

mod hostile;
mod mutate;
mod requests;
#[path = "../../src/webhook/tls_fixture.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod tls_fixture;

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use clap::Parser;
use fastrand::Rng;
use firebolt_operator::cli::{Cli, Command};
use firebolt_operator::informers;
use firebolt_operator::metrics::Metrics;
use firebolt_operator::pending::Pending;
use firebolt_operator::settings::Environment;
use firebolt_operator::webhook::{self, Validator};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::mutate::{everywhere, mutated, odd_text};
use crate::requests::{PATHS, requests};

/// How many seconds questions are made up, unless the variable of this name says otherwise.
const SECONDS: (&str, u64) = ("FUZZ_SECONDS", 20);
/// The variable with which a run is repeated.
const SEED: &str = "FUZZ_SEED";
/// Large for an object, in bytes. The API server takes more, but here nothing is optimized.
const LARGE_OBJECT: usize = 256 * 1024;
/// The most that an answer has, in bytes. Who asks much is not told much.
const LONGEST_ANSWER: usize = 256 * 1024;
/// How long an answer may take on a busy machine. Any hang is longer.
const LIMIT: Duration = Duration::from_secs(30);
/// How much the process may grow from the first fifth of a run to its end, in KiB. A body takes up to 8 MiB and what is
/// read of it some multiple, which the allocator may keep; what is lost with every question would come to more.
const GROWTH: u64 = 48 * 1024;

/// Only one test at a time may say how large the process is.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The webhook with an API server that has one class and one instance, and objects to whatever it is to try.
fn webhook(rng: &mut Rng) -> Router {
    let Command::Run(arguments) = Cli::parse_from(["firebolt-operator", "run", "--engine-max-cpu=4"]).command else {
        panic!("parsed as another command");
    };
    let environment = Environment {
        namespace: "ns".into(),
        host_name: "host".into(),
        nonce: 0,
    };
    let settings = Arc::new(arguments.into_settings(environment));
    let metrics = Arc::new(Metrics::new("test", SystemTime::UNIX_EPOCH));
    let rng = Arc::new(std::sync::Mutex::new(rng.fork()));
    let api_server = async move |request: Request<Body>| api_server(&request, &mut rng.lock().unwrap());
    let client = Client::new(Router::new().fallback(api_server), "ns");
    // The watches end here, so that everything is looked up.
    let mut watches = JoinSet::new();
    let caches = informers::start(&client, &settings, &metrics, &mut watches, &Pending::default());
    drop(watches);
    let metrics = Arc::clone(metrics.webhook());
    webhook::router(Validator::new(client, settings, Arc::new(caches), metrics))
}

fn api_server(request: &Request<Body>, rng: &mut Rng) -> Response {
    if request.method() == Method::POST {
        let fields = [
            "spec.template.spec.containers[0].image",
            "spec.template.spec.volumes[9]",
            "spec",
            "",
            "[",
            "]..[",
        ];
        let mut cause = || {
            let field = if rng.bool() {
                odd_text(rng)
            } else {
                fields[rng.usize(..fields.len())].to_owned()
            };
            json!({ "field": field, "reason": "FieldValueInvalid", "message": odd_text(rng) })
        };
        let causes = [cause(), cause(), cause()];
        let status = json!({ "kind": "Status", "code": 422, "reason": "Invalid", "details": { "causes": causes } });
        return (StatusCode::UNPROCESSABLE_ENTITY, status.to_string()).into_response();
    }
    let name = request.uri().path().rsplit('/').next().unwrap_or_default();
    match requests::stored(name) {
        Some(stored) => stored.to_string().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The variable as a number.
fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

fn time() -> Duration {
    Duration::from_secs(number(SECONDS.0).unwrap_or(SECONDS.1))
}

fn seed() -> u64 {
    let seed = number(SEED).unwrap_or_else(|| fastrand::u64(..));
    println!("{SEED}={seed}");
    seed
}

/// How large the process is, in KiB.
fn size() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What has to be read of a question to answer it.
#[derive(Deserialize)]
struct Question {
    request: Asked,
}

#[derive(Deserialize)]
struct Asked {
    uid: String,
}

/// Sends a request and looks into the answer, if it was one that accepts or refuses something.
async fn ask(webhook: &TowerToHyperService<Router>, request: Request<Vec<u8>>) -> Option<Value> {
    let described = || {
        let start = String::from_utf8_lossy(&request.body()[..request.body().len().min(2000)]).into_owned();
        format!("{} {} {:?} {start}", request.method(), request.uri(), request.headers())
    };
    let begun = Instant::now();
    let response = webhook.call(request.clone().map(Body::from)).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(begun.elapsed() < LIMIT, "{:?} for {}", begun.elapsed(), described());
    if status != StatusCode::OK {
        let sane = [
            StatusCode::BAD_REQUEST,
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ];
        assert!(sane.contains(&status), "{status} for {}", described());
        return None;
    }
    let question: Question =
        serde_json::from_slice(request.body()).unwrap_or_else(|error| panic!("{error}: {}", described()));
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["uid"], question.request.uid, "{}", described());
    assert!(
        answer["response"]["allowed"].is_boolean(),
        "{answer} for {}",
        described()
    );
    assert!(body.len() < LONGEST_ANSWER, "{} bytes for {}", body.len(), described());
    Some(answer)
}

/// Asks something that goes as far as it can.
async fn read(webhook: &TowerToHyperService<Router>, path: &str, question: &Value) {
    let answer = ask(webhook, post(path, question.to_string())).await.expect("an answer");
    assert!(!answer.to_string().contains("Cannot parse"), "{answer}");
}

fn post(path: &str, body: impl Into<Vec<u8>>) -> Request<Vec<u8>> {
    let request = Request::post(path).header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

#[tokio::test]
async fn valid_requests_get_a_response() {
    let webhook = TowerToHyperService::new(webhook(&mut Rng::new()));
    for (path, question) in requests() {
        read(&webhook, path, &question).await;
    }
}

#[tokio::test]
async fn values_of_any_type_in_any_field_get_a_response() {
    let _alone = ALONE.lock().await;
    let mut rng = Rng::with_seed(seed());
    let webhook = TowerToHyperService::new(webhook(&mut rng));
    // A quarter, another each time, unless there is time for more.
    let all = time() > Duration::from_secs(SECONDS.1);
    let (mut sent, mut answered) = (0, 0);
    for (path, question) in requests() {
        for text in everywhere(&question, || all || rng.u8(..4) == 0) {
            sent += 1;
            answered += usize::from(ask(&webhook, post(path, text)).await.is_some());
        }
    }
    println!("{sent} questions, {answered} of them answered");
    assert!(answered > sent / 4, "{answered} of {sent}: most were not even read");
}

/// As many entries as fit into a large object.
fn many(entry: impl Fn(usize) -> Value) -> Value {
    let count = LARGE_OBJECT / entry(100_000).to_string().len();
    (0..count).map(entry).collect()
}

#[tokio::test]
async fn large_objects_get_a_short_response_in_time() {
    let _alone = ALONE.lock().await;
    let webhook = TowerToHyperService::new(webhook(&mut Rng::new()));
    let name = |index: usize| format!("a{index}");
    let volumes = many(|index| json!({ "name": name(index) }));
    let mounts = many(|index| json!({ "name": name(index), "mountPath": name(index) }));
    let containers = many(|index| json!({ "name": name(index) }));
    let half = |list: &Value| -> Value {
        let entries = list.as_array().unwrap();
        entries[..entries.len() / 2].into()
    };
    let engine = |field: &str, list: Value| json!([{ "name": "engine", field: list }]);
    let large = [
        ("volumes", json!({ "volumes": volumes })),
        (
            "the same volume",
            json!({ "volumes": many(|_| json!({ "name": "data" })) }),
        ),
        ("containers", json!({ "containers": containers })),
        ("init containers", json!({ "initContainers": containers })),
        (
            "mounts",
            json!({ "containers": engine("volumeMounts", mounts.clone()) }),
        ),
        (
            "mounts of volumes",
            json!({ "volumes": half(&volumes), "containers": engine("volumeMounts", half(&mounts)) }),
        ),
        (
            "variables",
            json!({ "containers": engine("env", many(|index| json!({ "name": name(index) }))) }),
        ),
        (
            "tolerations",
            json!({ "tolerations": many(|index| json!({ "key": name(index) })) }),
        ),
        (
            "claims",
            json!({ "resourceClaims": many(|index| json!({ "name": name(index) })) }),
        ),
        (
            "host ports",
            json!({ "containers": engine("ports", many(|index| json!({ "containerPort": index, "hostPort": index }))) }),
        ),
    ];
    for (what, pod) in large {
        let (path, mut question) = requests().swap_remove(0);
        question["request"]["object"]["spec"]["template"]["spec"] = pod;
        let begun = Instant::now();
        read(&webhook, path, &question).await;
        println!("{what}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn random_requests_get_a_response_and_leave_nothing_behind() {
    let _alone = ALONE.lock().await;
    let mut rng = Rng::with_seed(seed());
    let webhook = TowerToHyperService::new(webhook(&mut rng));
    let (time, questions) = (time(), requests());
    let (begun, mut warm) = (Instant::now(), None);
    let (mut sent, mut answered) = (0_usize, 0_usize);
    while begun.elapsed() < time {
        let request = made_up(&mut rng, &questions);
        sent += 1;
        answered += usize::from(ask(&webhook, request).await.is_some());
        if warm.is_none() && begun.elapsed() > time / 5 {
            warm = Some(size());
        }
    }
    let (warm, end) = (warm.unwrap(), size());
    println!("{sent} requests, {answered} of them answered; {warm} KiB when warm, {end} KiB at the end");
    assert!(answered > sent / 20, "{answered} of {sent}: most were not even read");
    assert!(
        end < warm + GROWTH,
        "grown from {warm} KiB to {end} KiB by {sent} requests"
    );
}

fn made_up(rng: &mut Rng, questions: &[(&'static str, Value)]) -> Request<Vec<u8>> {
    let (path, question) = &questions[rng.usize(..questions.len())];
    let mut request = post(path, mutated(rng, question));
    if rng.u8(..16) == 0 {
        *request.uri_mut() = PATHS[rng.usize(..PATHS.len())].parse().unwrap();
    }
    if rng.u8(..64) == 0 {
        let methods = [
            Method::GET,
            Method::PUT,
            Method::HEAD,
            Method::OPTIONS,
            Method::PATCH,
            Method::TRACE,
        ];
        *request.method_mut() = methods[rng.usize(..methods.len())].clone();
    }
    if rng.u8(..32) == 0 {
        let kinds: [&[u8]; 5] = [
            b"text/plain",
            b"",
            b"\xff\xfe",
            b"application/json;;;",
            b"application/json, text/plain",
        ];
        let kind = kinds[rng.usize(..kinds.len())];
        let headers = request.headers_mut();
        headers.insert("content-type", axum::http::HeaderValue::from_bytes(kind).unwrap());
        headers.insert("content-length", axum::http::HeaderValue::from_static("-1"));
    }
    request
}
