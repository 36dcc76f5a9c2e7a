//! Queries for engines that are not ready are held, and get their answer.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use hyper::body::Bytes;
use rstest::rstest;

use crate::testenv::client::{Reply, ask, error_code, query, send, with_body};
use crate::testenv::waking::{Options, WakingEnv};

/// The stages of a wake in the `Server-Timing` header.
fn stages(reply: &Reply) -> Vec<String> {
    let timing = reply
        .headers
        .get("server-timing")
        .expect("the answer says where the time went");
    let stages = timing.to_str().expect("a text").split(", ");
    let name = |stage: &str| {
        let (name, duration) = stage.split_once(";dur=").expect("a duration");
        assert!(duration.parse::<f64>().is_ok(), "{stage}");
        name.to_owned()
    };
    stages.map(name).collect()
}

#[test]
fn a_query_for_a_stopped_engine_wakes_it_and_gets_its_answer() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        let wake_requested = env.until_wake_requested("one").await;
        assert!(wake_requested.parse::<jiff::Timestamp>().is_ok(), "{wake_requested}");
        let engine = env.starts("one", 11).await;
        let reply = waiting.await.expect("a client");
        reply.answer();
        assert_eq!(engine.executed().len(), 1);
        let stages = stages(&reply);
        assert_eq!(
            (stages[0].as_str(), stages.last().map(String::as_str)),
            ("detected", Some("wake"))
        );
        assert!(stages.iter().any(|stage| stage == "released"), "{stages:?}");
        eventually("the access log contains the hold", async || {
            let log = env.envoy.access_log();
            let line = log.iter().find(|line| line["engine"] == "one");
            line.is_some_and(|line| line["wake"] == "released" && line["server_timing"].is_string())
        })
        .await;
    });
}

#[test]
fn a_query_for_a_starting_engine_is_held_without_a_wake_request() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        // A user has scaled it up; its pods are starting.
        env.stopped("one").await;
        env.set_replicas("one", 1).await;
        env.report("one", "creating", "Initializing").await;
        let waiting = tokio::spawn(ask("one"));
        env.until_waiting(1).await;
        let _engine = env.starts("one", 11).await;
        waiting.await.expect("a client").answer();
        assert_eq!(env.wake_requested("one").await, None);
    });
}

/// A gateway buffers at most two times 1 MiB.
#[rstest]
#[case::nothing(0)]
#[case::all_that_is_kept(2 * 1024 * 1024)]
#[case::more_than_is_kept(2 * 1024 * 1024 + 1)]
#[case::far_more(9 * 1024 * 1024)]
fn the_body_of_a_held_query_arrives_whole(#[case] size: usize) {
    isolated_with_api_server(async move {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let body: Bytes = (0..size)
            .map(|index| u8::try_from(index % 251).expect("a byte"))
            .collect();
        let waiting = tokio::spawn(send(with_body(query("one"), body)));
        env.until_wake_requested("one").await;
        let _engine = env.starts("one", 11).await;
        let answer = waiting.await.expect("a client").answer();
        assert_eq!(answer.body_bytes, size as u64);
    });
}

#[test]
fn a_held_query_times_out_and_the_wake_request_stays() {
    isolated_with_api_server(async {
        let env = WakingEnv::with(Options {
            wake_timeout: std::time::Duration::from_secs(2),
            ..Options::default()
        })
        .await;
        env.stopped("one").await;
        let reply = ask("one").await;
        assert_eq!(reply.error(), (503, "engine_start_timeout".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "10");
        assert_eq!(stages(&reply).last().map(String::as_str), Some("wake"));
        assert!(env.wake_requested("one").await.is_some());
        assert_eq!(env.agent.metric("requests_total", "\"timed_out\"").await, 1);
        // The message is that of the agent, not of Envoy.
        assert_eq!(error_code(&reply.body), "engine_start_timeout");
    });
}

#[test]
fn a_client_that_disconnects_is_not_held_and_the_wake_request_stays() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        env.until_waiting(1).await;
        env.until_wake_requested("one").await;
        waiting.abort();
        env.until_waiting(0).await;
        assert!(env.wake_requested("one").await.is_some());
        assert_eq!(env.agent.metric("requests_total", "\"gone\"").await, 1);
    });
}
