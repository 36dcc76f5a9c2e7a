//! Responses that a healthy API server does not send, or not on demand: invalid objects, pages that are too large,
//! errors without a message, another time of day.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use kube::Config;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

/// A maximum size of pages that is easily exceeded.
const SMALL: usize = 64 * 1024;

fn small() -> Pages {
    let bytes = SMALL;
    Pages {
        bytes,
        ..Pages::default()
    }
}

type Answer = Response<Full<Bytes>>;

/// A client of a server with these responses, and the requests that it sent: path, limit and continue token.
async fn client(answer: impl Fn(usize, usize) -> Answer + Send + Sync + 'static) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (answer, recorded) = (Arc::new(answer), Arc::clone(&requests));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (answer, recorded) = (Arc::clone(&answer), Arc::clone(&recorded));
            let service = service_fn(move |request: HttpRequest<Incoming>| {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let number = |key: &str| {
                    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                    pairs
                        .filter(|(name, _)| *name == key)
                        .find_map(|(_, value)| value.parse().ok())
                };
                let (limit, first) = (number("limit").unwrap_or(usize::MAX), number("continue").unwrap_or(0));
                recorded
                    .lock()
                    .unwrap()
                    .push(format!("{} {limit} {first}", request.uri().path()));
                std::future::ready(Ok::<_, Infallible>(answer(limit, first)))
            });
            tokio::spawn(async move {
                let server = hyper::server::conn::http1::Builder::new();
                let _ended = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    (client, requests)
}

fn engine(number: usize) -> Value {
    json!({
        "metadata": { "name": format!("e{number}") },
        "spec": { "instanceRef": "main", "replicas": 1 },
    })
}

/// The page of the engines that is requested.
fn page_of(engines: &[Value], limit: usize, first: usize) -> Answer {
    let end = first.saturating_add(limit).min(engines.len());
    let next = if end < engines.len() {
        end.to_string()
    } else {
        String::new()
    };
    let page = json!({ "kind": "List", "metadata": { "continue": next }, "items": engines[first..end] });
    Response::new(Full::from(page.to_string()))
}

async fn list(client: &Client, pages: &Pages) -> Result<Vec<String>, ApiError> {
    let listed = pages
        .all(client, "sales", &Clock::default(), &UnreadableEngines::default())
        .await?;
    Ok(listed.into_iter().map(|engine| engine.name).collect())
}

#[tokio::test]
async fn all_pages_are_read() {
    let engines: Vec<Value> = (0..1_234).map(engine).collect();
    let (client, requests) = client(move |limit, first| page_of(&engines, limit, first)).await;
    let names = list(&client, &Pages::default()).await.unwrap();
    assert_eq!(names.len(), 1_234);
    assert_eq!(names.last().unwrap(), "e1233");
    let path = "/apis/compute.firebolt.io/v1alpha1/namespaces/sales/fireboltengines";
    let expected = [0, 500, 1000].map(|first| format!("{path} 500 {first}"));
    assert_eq!(*requests.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_invalid_engine_does_not_fail_the_list() {
    let mut engines: Vec<Value> = (0..3).map(engine).collect();
    engines[1]["spec"]["replicas"] = json!("many");
    engines.push(json!("not even an object"));
    let (client, _) = client(move |limit, first| page_of(&engines, limit, first)).await;
    assert_eq!(list(&client, &Pages::default()).await.unwrap(), ["e0", "e2"]);
}

#[tokio::test]
async fn pages_that_are_too_large_get_fewer_engines_until_they_would_be_small_again() {
    let mut engines: Vec<Value> = (0..200).map(engine).collect();
    for engine in &mut engines {
        engine["spec"]["template"] = json!("x".repeat(SMALL / 100));
    }
    let (large, requests) = client(move |limit, first| page_of(&engines, limit, first)).await;
    let pages = small();
    assert_eq!(list(&large, &pages).await.unwrap().len(), 200);
    assert_eq!(pages.size.load(Ordering::Relaxed), 31);
    requests.lock().unwrap().clear();
    assert_eq!(list(&large, &pages).await.unwrap().len(), 200);
    assert!(requests.lock().unwrap().iter().all(|request| request.contains(" 31 ")));
    let engines: Vec<Value> = (0..10).map(engine).collect();
    let (small, _) = client(move |limit, first| page_of(&engines, limit, first)).await;
    for size in [62, 124, 248, 496, PAGE, PAGE] {
        assert_eq!(list(&small, &pages).await.unwrap().len(), 10);
        assert_eq!(pages.size.load(Ordering::Relaxed), size);
    }
}

#[tokio::test]
async fn an_object_that_is_larger_than_a_page_fails_the_list() {
    let huge = json!({ "spec": "x".repeat(SMALL) });
    let (client, _) = client(move |limit, first| page_of(std::slice::from_ref(&huge), limit, first)).await;
    let error = list(&client, &small()).await.unwrap_err();
    let text = format!("an engine has more than {SMALL} bytes");
    assert_eq!(error, ApiError::Transport(text));
}

fn error_response(code: u16, body: String) -> Answer {
    Response::builder().status(code).body(Full::from(body)).unwrap()
}

#[rstest::rstest]
#[case::with_a_message(json!({ "kind": "Status", "status": "Failure", "message": "no.", "code": 403 }).to_string(), "no")]
#[case::without_a_message("<html>".to_owned(), "no message")]
#[case::with_a_body_that_is_too_large("x".repeat(ERROR_BYTES + 1), "no message")]
#[tokio::test]
async fn an_error_response_is_reported_with_its_message(#[case] body: String, #[case] message: &str) {
    let (client, _) = client(move |_, _| error_response(403, body.clone())).await;
    let error = list(&client, &Pages::default()).await.unwrap_err();
    assert_eq!(error, ApiError::Status(403, message.to_owned()));
}

#[tokio::test]
async fn a_response_that_is_not_a_list_is_an_error() {
    let (client, _) = client(|_, _| Response::new(Full::from("[]"))).await;
    let error = list(&client, &Pages::default()).await.unwrap_err();
    assert!(
        matches!(&error, ApiError::Transport(text) if text.starts_with("cannot parse the list")),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_clock_is_corrected_from_the_responses() {
    let (client, _) = client(|limit, first| {
        let mut answer = page_of(&[], limit, first);
        let date = "Mon, 01 Jun 2099 12:05:00 GMT".parse().unwrap();
        answer.headers_mut().insert(DATE, date);
        answer
    })
    .await;
    let clock = Clock::default();
    let listed = Pages::default()
        .all(&client, "sales", &clock, &UnreadableEngines::default())
        .await;
    assert_eq!(listed, Ok(Vec::new()));
    let there: Timestamp = "2099-06-01T12:05:00Z".parse().unwrap();
    let off = clock.now().wall.duration_since(there);
    assert!(off.abs() < SignedDuration::from_mins(1), "{off}");
}
