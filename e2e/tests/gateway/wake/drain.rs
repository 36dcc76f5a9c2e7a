//! The end of a gateway pod: its agent leads clients away, and ends Envoy when they are gone.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use http::Request;
use stand_ins::engine::DURATION_HEADER;

use super::scene::Scene;
use crate::client::{Connection, ask, empty, query, send};

async fn health() -> Option<u16> {
    let request = Request::get("/healthz").header("host", "gateway");
    crate::client::try_send(empty(request))
        .await
        .ok()
        .map(|reply| reply.status)
}

#[test]
fn a_gateway_that_ends_finishes_its_queries_first() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let engine = scene.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let long = tokio::spawn(send(empty(query("one").header(DURATION_HEADER, "100s"))));
        engine.until_running(1).await;
        scene.agent.terminate();
        eventually("nobody new is to come", async || health().await == Some(503)).await;
        // Who comes all the same is served, and asked to go elsewhere afterwards.
        let late = ask("one").await;
        late.answer();
        assert_eq!(
            late.headers.get("connection").expect("a word about the connection"),
            "close"
        );
        assert!(scene.envoy.ended().is_none());
        engine.release();
        long.await.expect("a client").answer();
        eventually("Envoy ends", async || scene.envoy.ended().is_some()).await;
        eventually("so does the agent", async || scene.agent.ended().is_some()).await;
        assert!(scene.agent.ended().is_some_and(|status| status.success()));
    });
}

#[test]
fn who_waits_at_a_gateway_that_ends_is_told_to_come_again() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        scene.until_waiting(1).await;
        scene.agent.terminate();
        let reply = waiting.await.expect("a client");
        assert_eq!(reply.error(), (503, "gateway_stopping".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "1");
        assert!(scene.wake_requested("one").await.is_some());
        eventually("Envoy ends", async || scene.envoy.ended().is_some()).await;
    });
}

#[test]
fn who_waits_at_a_gateway_that_ends_may_still_be_answered() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        scene.until_waiting(1).await;
        scene.agent.terminate();
        let _engine = scene.starts("one", 11).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn an_idle_connection_does_not_keep_a_gateway() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let _engine = scene.running("one", 11).await;
        let mut kept = Connection::open().await;
        eventually("the engine answers", async || {
            kept.send(empty(query("one")))
                .await
                .is_ok_and(|reply| reply.status == 200)
        })
        .await;
        scene.agent.terminate();
        eventually("Envoy ends", async || scene.envoy.ended().is_some()).await;
    });
}
