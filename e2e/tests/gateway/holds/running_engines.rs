//! Queries for running engines: the agent costs them almost nothing.

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use http::Request;

use crate::testenv::METRICS_PORT;
use crate::testenv::client::{Connection, ask, empty, query};
use crate::testenv::waking::WakingEnv;

#[test]
fn most_queries_for_a_running_engine_do_not_reach_the_agent() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let engine = env.running("one", 11).await;
        eventually("the engine is known to be ready", async || {
            ask("one").await;
            env.agent.metric("requests_total", "\"ready\"").await > 0
        })
        .await;
        let (asked, executed) = (env.agent.metric("requests_total", "").await, engine.executed().len());
        let mut connection = Connection::open().await;
        for _ in 0..500 {
            connection.send(empty(query("one"))).await.expect("an answer").answer();
        }
        assert_eq!(engine.executed().len(), executed + 500);
        let asked = env.agent.metric("requests_total", "").await - asked;
        assert!(asked < 250, "{asked} of 500 queries were asked about");
        assert_eq!(env.agent.metric("patches_total", "").await, 0);
    });
}

#[test]
fn an_engine_serves_during_its_rollout() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let _engine = env.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        env.report("one", "creating", "ActivityObserved").await;
        eventually("the agent has noticed", async || {
            ask("one").await.answer();
            env.agent.metric("requests_total", "\"reachable\"").await > 0
        })
        .await;
        assert_eq!(env.wake_requested("one").await, None);
    });
}

#[test]
fn the_metrics_port_serves_envoy_and_agent_or_whichever_is_available() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
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
        env.agent.kill();
        eventually("those of Envoy are there", async || {
            let (status, text) = metrics().await;
            status == 200 && text.contains("envoy_server_live") && !text.contains("firebolt_gateway_wake")
        })
        .await;
    });
}
