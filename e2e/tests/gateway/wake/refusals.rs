//! Queries that no wait can help are refused at once, and wake nothing.

use e2e::isolation::isolated_with_api_server;
use http::Request;
use rstest::rstest;

use super::scene::{Plan, Scene};
use crate::client::{ask, empty, error_code, query, send};

#[test]
fn an_unknown_engine_and_one_of_another_instance_cannot_be_told_apart() {
    isolated_with_api_server(async {
        let scene = Scene::start().await;
        scene.stopped_elsewhere("foreign").await;
        let (unknown, foreign) = (ask("unknown").await, ask("foreign").await);
        assert_eq!(unknown.error(), (404, "engine_not_found".to_owned()));
        assert_eq!((foreign.status, foreign.body), (unknown.status, unknown.body));
        assert_eq!(scene.wake_requested("foreign").await, None);
    });
}

#[test]
fn an_engine_of_another_instance_that_runs_is_not_reached() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        scene.stopped_elsewhere("foreign").await;
        let engine = scene.starts("foreign", 11).await;
        assert_eq!(ask("foreign").await.status, 404);
        assert!(engine.executed().is_empty());
    });
}

#[test]
fn an_engine_that_a_person_has_stopped_stays_stopped() {
    isolated_with_api_server(async {
        let scene = Scene::start().await;
        scene.stopped_for_good("one").await;
        let reply = ask("one").await;
        assert_eq!(reply.error(), (503, "engine_stopped".to_owned()));
        assert!(reply.headers.get("retry-after").is_none(), "time alone changes nothing");
        assert_eq!(scene.wake_requested("one").await, None);
    });
}

#[rstest]
#[case::health("/healthz")]
#[case::health_with_an_engine("/healthz?engine=one")]
fn a_question_for_health_wakes_nothing(#[case] path: &'static str) {
    isolated_with_api_server(async move {
        let scene = Scene::start().await;
        scene.stopped("one").await;
        let request = Request::get(path)
            .header("host", "gateway")
            .header("x-firebolt-engine", "one");
        let exactly = path == "/healthz";
        let waiting = tokio::spawn(send(empty(request)));
        if exactly {
            assert_eq!(waiting.await.expect("a client").status, 200);
            assert_eq!(scene.agent.metric("holds_total", "").await, 0);
            assert_eq!(scene.wake_requested("one").await, None);
        } else {
            // Whoever adds a parameter asks the engine.
            scene.until_wake_requested("one").await;
        }
    });
}

#[test]
fn who_finds_no_room_is_sent_away_and_the_engine_is_asked_for_all_the_same() {
    isolated_with_api_server(async {
        let scene = Scene::with(Plan {
            // Not even the smallest query fits.
            hold_memory: Some(1),
            ..Plan::default()
        })
        .await;
        scene.stopped("one").await;
        // An engine that was made this moment is on no list yet, and strangers find no room either.
        let mut reply = ask("one").await;
        e2e::wait::eventually("the engine is known", async || {
            reply = ask("one").await;
            scene.wake_requested("one").await.is_some()
        })
        .await;
        assert_eq!(reply.error(), (503, "engine_queue_full".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "5");
        assert!(scene.agent.metric("requests_total", "\"full\"").await > 0);
    });
}

#[test]
fn what_a_client_says_in_the_place_of_the_agent_or_to_it_has_no_effect() {
    isolated_with_api_server(async {
        let scene = Scene::start().await;
        let liar = query("unknown")
            .header("x-firebolt-wake", "ready")
            .header("x-firebolt-bytes", "0")
            .header("server-timing", "wake;dur=1");
        let reply = send(empty(liar)).await;
        assert_eq!(
            (reply.status, error_code(&reply.body).as_str()),
            (404, "engine_not_found")
        );
        drop(scene);
    });
}
