//! Queries that cannot succeed are refused at once, and wake nothing.

use e2e::isolation::isolated_with_api_server;
use http::Request;
use rstest::rstest;

use crate::testenv::client::{ask, empty, error_code, query, send};
use crate::testenv::waking::{Options, WakingEnv};

#[test]
fn an_engine_of_another_instance_looks_like_one_that_does_not_exist() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        env.stopped_elsewhere("foreign").await;
        let (unknown, foreign) = (ask("unknown").await, ask("foreign").await);
        assert_eq!(unknown.error(), (404, "engine_not_found".to_owned()));
        assert_eq!((foreign.status, foreign.body), (unknown.status, unknown.body));
        assert_eq!(env.wake_requested("foreign").await, None);
    });
}

#[test]
fn an_engine_of_another_instance_that_runs_is_not_reached() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped_elsewhere("foreign").await;
        let engine = env.starts("foreign", 11).await;
        assert_eq!(ask("foreign").await.status, 404);
        assert!(engine.executed().is_empty());
    });
}

#[test]
fn an_engine_that_a_user_has_stopped_stays_stopped() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        env.stopped_for_good("one").await;
        let reply = ask("one").await;
        assert_eq!(reply.error(), (503, "engine_stopped".to_owned()));
        assert!(reply.headers.get("retry-after").is_none(), "time alone changes nothing");
        assert_eq!(env.wake_requested("one").await, None);
    });
}

#[rstest]
#[case::health("/healthz")]
#[case::health_with_an_engine("/healthz?engine=one")]
fn a_health_check_wakes_nothing(#[case] path: &'static str) {
    isolated_with_api_server(async move {
        let env = WakingEnv::start().await;
        env.stopped("one").await;
        let request = Request::get(path)
            .header("host", "gateway")
            .header("x-firebolt-engine", "one");
        let exactly = path == "/healthz";
        let waiting = tokio::spawn(send(empty(request)));
        if exactly {
            assert_eq!(waiting.await.expect("a client").status, 200);
            assert_eq!(env.agent.metric("holds_total", "").await, 0);
            assert_eq!(env.wake_requested("one").await, None);
        } else {
            // With a parameter, the request is for the engine.
            env.until_wake_requested("one").await;
        }
    });
}

#[test]
fn a_query_is_refused_if_the_queue_is_full_and_the_engine_is_woken_all_the_same() {
    isolated_with_api_server(async {
        let env = WakingEnv::with(Options {
            // Not even the smallest query fits.
            hold_memory: Some(1),
            ..Options::default()
        })
        .await;
        env.stopped("one").await;
        // A new engine is not in the list yet, and queries for unknown engines do not fit either.
        let mut reply = ask("one").await;
        e2e::wait::eventually("the engine is known", async || {
            reply = ask("one").await;
            env.wake_requested("one").await.is_some()
        })
        .await;
        assert_eq!(reply.error(), (503, "engine_queue_full".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "5");
        assert!(env.agent.metric("requests_total", "\"full\"").await > 0);
    });
}

#[test]
fn headers_of_the_agent_protocol_from_clients_have_no_effect() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        let liar = query("unknown")
            .header("x-firebolt-wake", "ready")
            .header("x-firebolt-bytes", "0")
            .header("server-timing", "wake;dur=1");
        let reply = send(empty(liar)).await;
        assert_eq!(
            (reply.status, error_code(&reply.body).as_str()),
            (404, "engine_not_found")
        );
        drop(env);
    });
}
