//! No failure of the agent affects queries for running engines.

use e2e::isolation::isolated;
use e2e::wait::eventually;
use http::header::{AUTHORIZATION, COOKIE};
use http::{Method, Request};
use hyper::body::Bytes;
use rstest::rstest;
use serde_json::Value;
use std::time::Duration;
use tokio::task::JoinHandle;

use crate::testenv::bodies::{KEPT, assert_whole, assert_whole_raw, body, in_chunks};
use crate::testenv::client::{
    GATEWAY, SELECTOR, Upload, ask, empty, query, raw, raw_to, request, send, send_http2, with_body,
};
use crate::testenv::known_bad_configuration;
use crate::testenv::misbehaving_agent::{MisbehavingAgent, Misbehavior, noise};
use crate::testenv::{METRICS_PORT, TestEnv};

/// The logged decision of each query, once there are this many.
async fn decisions(env: &TestEnv, count: usize) -> Vec<Value> {
    eventually("the log is written", async || env.envoy.access_log().len() >= count).await;
    let log = env.envoy.access_log();
    log.iter().map(|line| line["wake"].clone()).collect()
}

#[rstest]
#[case::silent(None)]
#[case::closing(Some(b"".as_slice()))]
#[case::garbled(Some(b"\x00\x00\x12\x04\xff\xff\xff\xff\xffSSH-2.0-\r\n\r\n".as_slice()))]
#[case::old(Some(b"HTTP/1.1 200 OK\r\nX-Firebolt-Wake: refused\r\nContent-Length: 2\r\n\r\nok".as_slice()))]
fn another_server_at_the_address_of_the_agent_affects_no_query(#[case] words: Option<&'static [u8]>) {
    isolated(async move {
        noise(words).await;
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        for _ in 0..20 {
            assert_eq!(ask("one").await.answer().pod, "one");
        }
        assert_eq!(decisions(&env, 20).await, ["unanswered"; 20]);
        let metrics = "GET /stats/prometheus HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let metrics = raw_to(([127, 0, 0, 1], METRICS_PORT).into(), metrics).await;
        assert!(
            metrics.text().contains("envoy_http_downstream_rq_total"),
            "Envoy's own are there"
        );
    });
}

#[rstest]
#[case::undecided(Misbehavior::Undecided, "unanswered")]
#[case::unknown(Misbehavior::Unknown, "what?\"}")]
#[case::refusing_well(Misbehavior::RefusingWell, "unanswered")]
#[case::refusing_silently(Misbehavior::RefusingSilently, "unanswered")]
#[case::refusing_at_length(Misbehavior::RefusingAtLength, "unanswered")]
#[case::resetting(Misbehavior::Resetting, "unanswered")]
fn an_invalid_decision_affects_no_query(#[case] misbehavior: Misbehavior, #[case] logged: &str) {
    isolated(async move {
        let agent = MisbehavingAgent::start(misbehavior).await;
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let large = body(KEPT);
        assert_eq!(ask("one").await.answer().pod, "one");
        assert_whole(&send(with_body(query("one"), large.clone())).await, &large);
        assert_eq!(agent.questions().len(), 2, "each query was asked about");
        assert_eq!(decisions(&env, 2).await, [logged, logged]);
    });
}

/// The agent hangs after it has accepted the queries. They are routed, whatever their size and
/// protocol.
#[test]
fn queries_held_by_an_agent_that_hangs_are_routed_whole() {
    isolated(async {
        let agent = MisbehavingAgent::start(Misbehavior::Forgetful).await;
        let mut env = TestEnv::start().await;
        let engine = env.engine("one", 11).await;
        let mut waiting: Vec<JoinHandle<()>> = Vec::new();
        for size in [0, 1, KEPT, KEPT + 1, 5 * KEPT] {
            let body = body(size);
            waiting.extend(in_all_ways(&body));
        }
        eventually("all of them are held", async || {
            agent.questions().len() == waiting.len()
        })
        .await;
        assert_eq!(engine.executed().len(), 0);
        agent.stop();
        let sent = waiting.len();
        for query in waiting {
            query.await.expect("the query arrives whole");
        }
        assert_eq!(engine.executed().len(), sent, "each arrives once");
        ask("one").await.answer();
        assert_eq!(agent.questions().len(), sent, "an agent that hangs is not asked");
    });
}

/// Sends a body by each protocol, with its length and without.
fn in_all_ways(body: &Bytes) -> Vec<JoinHandle<()>> {
    let [first, second, third, fourth] = [body.clone(), body.clone(), body.clone(), body.clone()];
    vec![
        tokio::spawn(async move { assert_whole(&send(with_body(query("one"), first.clone())).await, &first) }),
        tokio::spawn(async move { assert_whole_raw(&raw(in_chunks(&second)).await, &second) }),
        tokio::spawn(async move {
            let request = Request::post(format!("http://{GATEWAY}/")).header(SELECTOR, "one");
            let reply = send_http2(with_body(request, third.clone())).await;
            assert_whole(&reply.expect("an answer"), &third);
        }),
        tokio::spawn(async move {
            let (head, length) = (
                format!("POST / HTTP/1.1\r\nHost: a\r\n{SELECTOR}: one\r\n"),
                fourth.len(),
            );
            let head = format!("{head}Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n");
            let mut upload = Upload::start(head.as_bytes()).await;
            upload.goes_on().await;
            upload.send(&fourth).await;
            assert_whole_raw(&upload.reply().await, &fourth);
        }),
    ]
}

#[test]
fn a_query_that_the_agent_forgets_is_routed_after_the_timeout() {
    isolated(async {
        let agent = MisbehavingAgent::start(Misbehavior::Forgetful).await;
        let mut env = TestEnv::start_holding(Duration::from_secs(1)).await;
        let _engine = env.engine("one", 11).await;
        assert_eq!(ask("one").await.answer().pod, "one");
        assert_eq!(agent.questions().len(), 1);
        assert_eq!(decisions(&env, 1).await, ["unanswered"]);
    });
}

/// An error in the hook does not affect the selection: the query is addressed already.
#[rstest]
#[case::before_the_agent_is_asked("local now = request:timestamp()")]
#[case::after_the_agent_answered("local decision = answer[\"x-firebolt-wake\"]")]
fn a_failing_hook_affects_no_query(#[case] line: &'static str) {
    isolated(async move {
        let _agent = MisbehavingAgent::start(Misbehavior::Agreeable).await;
        let mut env =
            TestEnv::start_altered(|configuration| known_bad_configuration::break_line(configuration, line)).await;
        let _engine = env.engine("one", 11).await;
        let large = body(KEPT + 1);
        assert_eq!(ask("one").await.answer().pod, "one");
        assert_whole(&send(with_body(query("one"), large.clone())).await, &large);
        assert_eq!(env.envoy.statistic("lua.errors").await, 2);
    });
}

/// Headers of a client, also those of the agent's protocol, are not passed to the agent.
#[test]
fn the_agent_receives_the_engine_and_the_size_and_nothing_else() {
    isolated(async {
        let agent = MisbehavingAgent::start(Misbehavior::Undecided).await;
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        let talkative = |builder: http::request::Builder| {
            builder
                .header(AUTHORIZATION, "Bearer abc")
                .header(COOKIE, "a=b")
                .header("x-forwarded-for", "192.0.2.1")
                .header("x-firebolt-wake", "refused")
                .header("x-firebolt-bytes", "77")
                .header("x-firebolt-transfer-encoding", "chunked")
                .header("server-timing", "mine")
        };
        let reply = send(with_body(talkative(request("/a?engine=one&b=c")), "SELECT a")).await;
        assert!(!reply.headers.contains_key("server-timing"), "{reply:?}");
        assert_eq!(reply.answer().header("x-firebolt-transfer-encoding").count(), 0);
        send(empty(talkative(query("one")).method(Method::GET))).await.answer();
        raw(in_chunks(&body(5))).await;
        let by_http2 = || Request::post(format!("http://{GATEWAY}/")).header(SELECTOR, "one");
        send_http2(with_body(by_http2(), "123")).await.expect("an answer");
        let questions = agent.questions();
        let sizes: Vec<_> = questions
            .iter()
            .map(|question| Some(question.headers.get("x-firebolt-bytes")?.to_str().unwrap()))
            .collect();
        assert_eq!(sizes, [Some("8"), Some("0"), None, Some("3")]);
        for question in questions {
            assert_eq!(question.target, "http://wake-agent/hold");
            assert_eq!(question.headers["x-firebolt-engine"], "one");
            assert!(question.body.is_empty());
            let names = question.headers.keys().map(http::HeaderName::as_str);
            let others: Vec<_> = names
                .filter(|name| !name.starts_with("x-envoy-") && !name.starts_with("x-firebolt-"))
                .collect();
            assert!(others.is_empty(), "{others:?}");
        }
    });
}
