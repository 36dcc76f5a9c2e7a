//! Answers that a healthy API server does not give, or not at will: objects out of shape, pages that are too large, refusals
//! without words, another time of day.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request as Asked, Response};
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use kube::Config;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

/// A limit on pages that is quickly reached.
const SMALL: usize = 64 * 1024;

fn small() -> Pages {
    let bytes = SMALL;
    Pages {
        bytes,
        ..Pages::default()
    }
}

type Answer = Response<Full<Bytes>>;

/// A client of somebody who answers so, and what it asked: the limit and the continue token.
async fn client(answer: impl Fn(usize, usize) -> Answer + Send + Sync + 'static) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (answer, questions) = (Arc::new(answer), Arc::clone(&asked));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (answer, questions) = (Arc::clone(&answer), Arc::clone(&questions));
            let service = service_fn(move |request: Asked<Incoming>| {
                let query = request.uri().query().unwrap_or_default().to_owned();
                let number = |key: &str| {
                    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                    pairs
                        .filter(|(name, _)| *name == key)
                        .find_map(|(_, value)| value.parse().ok())
                };
                let (limit, first) = (number("limit").unwrap_or(usize::MAX), number("continue").unwrap_or(0));
                questions
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
    (client, asked)
}

fn engine(number: usize) -> Value {
    json!({
        "metadata": { "name": format!("e{number}") },
        "spec": { "instanceRef": "main", "replicas": 1 },
    })
}

/// The part of all engines that is asked for.
fn part(engines: &[Value], limit: usize, first: usize) -> Answer {
    let end = first.saturating_add(limit).min(engines.len());
    let next = if end < engines.len() {
        end.to_string()
    } else {
        String::new()
    };
    let page = json!({ "kind": "List", "metadata": { "continue": next }, "items": engines[first..end] });
    Response::new(Full::from(page.to_string()))
}

async fn list(client: &Client, pages: &Pages) -> Result<Vec<String>, Fault> {
    let listed = pages
        .all(client, "sales", &Clock::default(), &Skipped::default())
        .await?;
    Ok(listed.into_iter().map(|engine| engine.name).collect())
}

#[tokio::test]
async fn all_pages_are_read() {
    let engines: Vec<Value> = (0..1_234).map(engine).collect();
    let (client, asked) = client(move |limit, first| part(&engines, limit, first)).await;
    let names = list(&client, &Pages::default()).await.unwrap();
    assert_eq!(names.len(), 1_234);
    assert_eq!(names.last().unwrap(), "e1233");
    let path = "/apis/compute.firebolt.io/v1alpha1/namespaces/sales/fireboltengines";
    let expected = [0, 500, 1000].map(|first| format!("{path} 500 {first}"));
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_engine_out_of_shape_does_not_spoil_the_list() {
    let mut engines: Vec<Value> = (0..3).map(engine).collect();
    engines[1]["spec"]["replicas"] = json!("many");
    engines.push(json!("not even an object"));
    let (client, _) = client(move |limit, first| part(&engines, limit, first)).await;
    assert_eq!(list(&client, &Pages::default()).await.unwrap(), ["e0", "e2"]);
}

#[tokio::test]
async fn pages_that_are_too_large_get_smaller_for_as_long_as_they_would_be() {
    let mut engines: Vec<Value> = (0..200).map(engine).collect();
    for engine in &mut engines {
        engine["spec"]["template"] = json!("x".repeat(SMALL / 100));
    }
    let (large, asked) = client(move |limit, first| part(&engines, limit, first)).await;
    let pages = small();
    assert_eq!(list(&large, &pages).await.unwrap().len(), 200);
    assert_eq!(pages.size.load(Ordering::Relaxed), 31);
    asked.lock().unwrap().clear();
    assert_eq!(list(&large, &pages).await.unwrap().len(), 200);
    assert!(asked.lock().unwrap().iter().all(|question| question.contains(" 31 ")));
    let engines: Vec<Value> = (0..10).map(engine).collect();
    let (small, _) = client(move |limit, first| part(&engines, limit, first)).await;
    for size in [62, 124, 248, 496, PAGE, PAGE] {
        assert_eq!(list(&small, &pages).await.unwrap().len(), 10);
        assert_eq!(pages.size.load(Ordering::Relaxed), size);
    }
}

#[tokio::test]
async fn an_object_that_is_larger_than_a_page_fails_the_list() {
    let huge = json!({ "spec": "x".repeat(SMALL) });
    let (client, _) = client(move |limit, first| part(std::slice::from_ref(&huge), limit, first)).await;
    let fault = list(&client, &small()).await.unwrap_err();
    let text = format!("an engine has more than {SMALL} bytes");
    assert_eq!(fault, Fault::Unreachable(text));
}

fn refusal(code: u16, body: String) -> Answer {
    Response::builder().status(code).body(Full::from(body)).unwrap()
}

#[rstest::rstest]
#[case::in_words(json!({ "kind": "Status", "status": "Failure", "message": "no.", "code": 403 }).to_string(), "no")]
#[case::without_words("<html>".to_owned(), "it does not say why")]
#[case::in_too_many_words("x".repeat(REFUSAL_BYTES + 1), "it does not say why")]
#[tokio::test]
async fn a_refusal_is_told_as_far_as_it_can_be_read(#[case] body: String, #[case] message: &str) {
    let (client, _) = client(move |_, _| refusal(403, body.clone())).await;
    let fault = list(&client, &Pages::default()).await.unwrap_err();
    assert_eq!(fault, Fault::Answered(403, message.to_owned()));
}

#[tokio::test]
async fn what_is_no_list_is_a_fault() {
    let (client, _) = client(|_, _| Response::new(Full::from("[]"))).await;
    let fault = list(&client, &Pages::default()).await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Unreachable(text) if text.starts_with("the list cannot be read")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn the_time_is_that_of_the_api_server() {
    let (client, _) = client(|limit, first| {
        let mut answer = part(&[], limit, first);
        let date = "Mon, 01 Jun 2099 12:05:00 GMT".parse().unwrap();
        answer.headers_mut().insert(DATE, date);
        answer
    })
    .await;
    let clock = Clock::default();
    let listed = Pages::default()
        .all(&client, "sales", &clock, &Skipped::default())
        .await;
    assert_eq!(listed, Ok(Vec::new()));
    let there: Timestamp = "2099-06-01T12:05:00Z".parse().unwrap();
    let off = clock.now().wall.duration_since(there);
    assert!(off.abs() < SignedDuration::from_mins(1), "{off}");
}
