//! Termination of a gateway pod: its agent drains Envoy, and ends it when all clients have left.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use http::Request;
use stand_ins::engine::DURATION_HEADER;

use crate::testenv::client::{Connection, ask, empty, query, send};
use crate::testenv::waking::WakingEnv;

async fn health() -> Option<u16> {
    let request = Request::get("/healthz").header("host", "gateway");
    crate::testenv::client::try_send(empty(request))
        .await
        .ok()
        .map(|reply| reply.status)
}

#[test]
fn a_terminating_gateway_finishes_its_queries_first() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let engine = env.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let long = tokio::spawn(send(empty(query("one").header(DURATION_HEADER, "100s"))));
        engine.until_running(1).await;
        env.agent.terminate();
        eventually("the health check fails", async || health().await == Some(503)).await;
        // New clients are still served, and asked to open another connection.
        let late = ask("one").await;
        late.answer();
        assert_eq!(
            late.headers.get("connection").expect("a word about the connection"),
            "close"
        );
        assert!(env.envoy.ended().is_none());
        engine.release();
        long.await.expect("a client").answer();
        eventually("Envoy ends", async || env.envoy.ended().is_some()).await;
        eventually("so does the agent", async || env.agent.ended().is_some()).await;
        assert!(env.agent.ended().is_some_and(|status| status.success()));
    });
}

#[test]
fn a_query_held_by_a_terminating_gateway_is_refused_with_retry_after() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        env.until_waiting(1).await;
        env.agent.terminate();
        let reply = waiting.await.expect("a client");
        assert_eq!(reply.error(), (503, "gateway_stopping".to_owned()));
        assert_eq!(reply.headers.get("retry-after").expect("a time to come back"), "1");
        assert!(env.wake_requested("one").await.is_some());
        eventually("Envoy ends", async || env.envoy.ended().is_some()).await;
    });
}

#[test]
fn a_query_held_by_a_terminating_gateway_may_still_be_answered() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        env.until_waiting(1).await;
        env.agent.terminate();
        let _engine = env.starts("one", 11).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn an_idle_connection_does_not_delay_termination() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let _engine = env.running("one", 11).await;
        let mut kept = Connection::open().await;
        eventually("the engine answers", async || {
            kept.send(empty(query("one")))
                .await
                .is_ok_and(|reply| reply.status == 200)
        })
        .await;
        env.agent.terminate();
        eventually("Envoy ends", async || env.envoy.ended().is_some()).await;
    });
}
