//! Queries for engines that are not ready wait, and get their answer.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use hyper::body::Bytes;
use rstest::rstest;

use super::scene::{Plan, Scene};
use crate::client::{Reply, ask, error_code, query, send, with_body};

/// The stages of a wait, by name, as a client reads them.
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
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        let stamp = scene.until_wake_requested("one").await;
        assert!(stamp.parse::<jiff::Timestamp>().is_ok(), "{stamp}");
        let engine = scene.starts("one", 11).await;
        let reply = waiting.await.expect("a client");
        reply.answer();
        assert_eq!(engine.executed().len(), 1);
        let stages = stages(&reply);
        assert_eq!(
            (stages[0].as_str(), stages.last().map(String::as_str)),
            ("detected", Some("wake"))
        );
        assert!(stages.iter().any(|stage| stage == "released"), "{stages:?}");
        eventually("the access log tells of the wait", async || {
            let log = scene.envoy.access_log();
            let line = log.iter().find(|line| line["engine"] == "one");
            line.is_some_and(|line| line["wake"] == "released" && line["server_timing"].is_string())
        })
        .await;
    });
}

#[test]
fn who_comes_while_the_engine_starts_waits_too_and_asks_for_nothing() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        // Somebody has scaled it up by hand; its pods are on their way.
        scene.stopped("one").await;
        scene.set_replicas("one", 1).await;
        scene.report("one", "creating", "Initializing").await;
        let waiting = tokio::spawn(ask("one"));
        scene.until_waiting(1).await;
        let _engine = scene.starts("one", 11).await;
        waiting.await.expect("a client").answer();
        assert_eq!(scene.wake_requested("one").await, None);
    });
}

/// Two pieces of 1 MiB are the most that a gateway keeps.
#[rstest]
#[case::nothing(0)]
#[case::all_that_is_kept(2 * 1024 * 1024)]
#[case::more_than_is_kept(2 * 1024 * 1024 + 1)]
#[case::far_more(9 * 1024 * 1024)]
fn a_body_that_waits_arrives_whole(#[case] size: usize) {
    isolated_with_api_server(async move {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let body: Bytes = (0..size)
            .map(|index| u8::try_from(index % 251).expect("a byte"))
            .collect();
        let waiting = tokio::spawn(send(with_body(query("one"), body)));
        scene.until_wake_requested("one").await;
        let _engine = scene.starts("one", 11).await;
        let answer = waiting.await.expect("a client").answer();
        assert_eq!(answer.body_bytes, size as u64);
    });
}

#[test]
fn who_has_waited_long_enough_is_sent_away_and_the_engine_stays_asked_for() {
    isolated_with_api_server(async {
        let scene = Scene::with(Plan {
            wake_timeout: std::time::Duration::from_secs(2),
            ..Plan::default()
        })
        .await;
        scene.stopped("one").await;
        let reply = ask("one").await;
        assert_eq!(reply.error(), (503, "engine_start_timeout".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "10");
        assert_eq!(stages(&reply).last().map(String::as_str), Some("wake"));
        assert!(scene.wake_requested("one").await.is_some());
        assert_eq!(scene.agent.metric("requests_total", "\"timed_out\"").await, 1);
        // The sentence is that of the agent, not of Envoy.
        assert_eq!(error_code(&reply.body), "engine_start_timeout");
    });
}

#[test]
fn a_client_that_leaves_does_not_wait_on_and_the_engine_stays_asked_for() {
    isolated_with_api_server(async {
        let scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        scene.until_waiting(1).await;
        scene.until_wake_requested("one").await;
        waiting.abort();
        scene.until_waiting(0).await;
        assert!(scene.wake_requested("one").await.is_some());
        assert_eq!(scene.agent.metric("requests_total", "\"gone\"").await, 1);
    });
}
