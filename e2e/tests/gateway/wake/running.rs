//! What a running engine pays for all this: next to nothing.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use http::Request;

use super::scene::Scene;
use crate::client::{Connection, ask, empty, query};
use crate::scene::METRICS_PORT;

#[test]
fn most_queries_of_a_running_engine_never_meet_the_agent() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let engine = scene.running("one", 11).await;
        eventually("the engine is known to be ready", async || {
            ask("one").await;
            scene.agent.metric("requests_total", "\"ready\"").await > 0
        })
        .await;
        let (asked, executed) = (scene.agent.metric("requests_total", "").await, engine.executed().len());
        let mut connection = Connection::open().await;
        for _ in 0..500 {
            connection.send(empty(query("one"))).await.expect("an answer").answer();
        }
        assert_eq!(engine.executed().len(), executed + 500);
        let asked = scene.agent.metric("requests_total", "").await - asked;
        assert!(asked < 250, "{asked} of 500 queries were asked about");
        assert_eq!(scene.agent.metric("patches_total", "").await, 0);
    });
}

#[test]
fn an_engine_that_rolls_out_serves_all_the_while() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let _engine = scene.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        scene.report("one", "creating", "ActivityObserved").await;
        eventually("the agent has noticed", async || {
            ask("one").await.answer();
            scene.agent.metric("requests_total", "\"reachable\"").await > 0
        })
        .await;
        assert_eq!(scene.wake_requested("one").await, None);
    });
}

#[test]
fn the_port_for_metrics_has_those_of_envoy_and_of_the_agent_or_those_that_there_are() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let metrics = async || {
            let mut connection = Connection::to(([127, 0, 0, 1], METRICS_PORT).into()).await;
            let request = Request::get("/stats/prometheus").header("host", "pod");
            let reply = connection.send(empty(request)).await.expect("an answer");
            (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
        };
        eventually("both are there", async || {
            let (status, text) = metrics().await;
            status == 200 && text.contains("envoy_server_live") && text.contains("firebolt_gateway_wake_synced 1")
        })
        .await;
        scene.agent.kill();
        eventually("those of Envoy are there", async || {
            let (status, text) = metrics().await;
            status == 200 && text.contains("envoy_server_live") && !text.contains("firebolt_gateway_wake")
        })
        .await;
    });
}
