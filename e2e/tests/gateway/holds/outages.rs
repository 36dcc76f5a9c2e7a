//! Outages of the agent and of the API server do not affect queries for running engines.

use std::time::Duration;

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use rstest::rstest;

use crate::testenv::client::{ask, empty, query, try_send};
use crate::testenv::waking::{Options, WakingEnv};

#[test]
fn without_the_agent_running_engines_serve_and_stopped_ones_do_not() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let _engine = env.running("one", 11).await;
        env.stopped("two").await;
        let waiting = tokio::spawn(ask("two"));
        env.until_waiting(1).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        env.agent.kill();
        let left_alone = waiting.await.expect("a client");
        assert_eq!(left_alone.error(), (503, "engine_unavailable".to_owned()));
        for _ in 0..20 {
            ask("one").await.answer();
        }
        assert_eq!(ask("two").await.status, 503);
        env.agent.restart().await;
        env.until_asked().await;
        let waiting = tokio::spawn(ask("two"));
        env.until_waiting(1).await;
        let _engine = env.starts("two", 12).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn a_stopped_agent_process_is_bypassed() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let _engine = env.running("one", 11).await;
        env.stopped("two").await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let held = tokio::spawn(ask("two"));
        env.until_waiting(1).await;
        env.agent.freeze();
        for _ in 0..20 {
            ask("one").await.answer();
        }
        assert_eq!(held.await.expect("a client").status, 503, "whom it held goes on too");
        env.agent.thaw();
        env.until_asked().await;
        env.stopped("three").await;
        let waiting = tokio::spawn(ask("three"));
        env.until_wake_requested("three").await;
        let _engine = env.starts("three", 13).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn a_killed_gateway_holds_no_query_and_the_wake_request_stays() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(try_send(empty(query("one"))));
        env.until_wake_requested("one").await;
        env.envoy.kill();
        assert!(
            waiting.await.expect("a client").is_err(),
            "no answer can be given any more"
        );
        env.until_waiting(0).await;
        assert!(env.wake_requested("one").await.is_some());
        assert!(env.agent.ended().is_none());
    });
}

/// How the API server fails.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Down,
    Hanging,
}

impl Outage {
    fn begin(self, env: &WakingEnv) {
        match self {
            Self::Down => env.api.close(),
            Self::Hanging => env.api.silence(),
        }
    }
}

#[rstest]
fn without_the_api_server_a_query_is_held_until_its_deadline(#[values(Outage::Down, Outage::Hanging)] outage: Outage) {
    isolated_with_api_server(async move {
        let env = WakingEnv::with(Options {
            wake_timeout: Duration::from_secs(5),
            ..Options::default()
        })
        .await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        // From now on the engine is in the list.
        env.until_wake_requested("one").await;
        outage.begin(&env);
        let reply = waiting.await.expect("a client");
        assert_eq!(reply.error(), (503, "engine_start_timeout".to_owned()));
    });
}

#[rstest]
fn without_the_api_server_a_query_is_released_once_the_engine_can_be_reached(
    #[values(Outage::Down, Outage::Hanging)] outage: Outage,
) {
    isolated_with_api_server(async move {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        // From now on the engine is in the list.
        env.until_wake_requested("one").await;
        outage.begin(&env);
        let _engine = env.becomes_reachable("one", 11).await;
        waiting.await.expect("a client").answer();
        // Later queries are not held: the agent fails open.
        eventually("queries are routed", async || ask("one").await.status == 200).await;
        env.api.open();
        eventually("unknown engines are refused again", async || {
            ask("unknown").await.status == 404
        })
        .await;
    });
}

#[test]
fn a_wake_request_that_fails_is_retried() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        eventually("the engine is known", async || {
            env.agent.metric("listings_total", "").await > 1
        })
        .await;
        // The list of the agent is still valid, and it cannot write.
        env.api.close();
        let waiting = tokio::spawn(ask("one"));
        env.until_waiting(1).await;
        env.api.open();
        env.until_wake_requested("one").await;
        let _engine = env.starts("one", 11).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn a_gateway_without_the_right_to_patch_logs_it_once_and_serves() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::with(Options {
            verbs: Some(&["get", "list"]),
            ..Options::default()
        })
        .await;
        let _engine = env.running("one", 11).await;
        env.stopped("two").await;
        let reply = ask("two").await;
        assert_eq!(reply.error(), (503, "engine_wake_refused".to_owned()));
        assert!(reply.headers.contains_key("retry-after"));
        let is_warning = |line: &serde_json::Value| {
            let text = line.to_string();
            line["level"] == "WARN" && text.contains("patch") && text.contains("fireboltengines")
        };
        assert_eq!(ask("two").await.status, 503);
        let log = env.agent.log();
        assert_eq!(log.iter().filter(|line| is_warning(line)).count(), 1, "{log:#?}");
        eventually("the other engine answers", async || ask("one").await.status == 200).await;
        assert!(env.agent.ended().is_none());
    });
}

#[test]
fn a_gateway_without_the_right_to_list_fails_open() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::without_rights().await;
        let _engine = env.running("one", 11).await;
        ask("one").await.answer();
        let is_warning = |line: &serde_json::Value| line["level"] == "WARN" && line.to_string().contains("list");
        assert_eq!(env.agent.log().iter().filter(|line| is_warning(line)).count(), 1);
        assert!(env.agent.metric("requests_total", "\"fail_open\"").await > 0);
    });
}
