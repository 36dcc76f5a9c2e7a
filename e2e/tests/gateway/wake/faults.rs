//! What happens to queries when a part of the way fails: nothing to those for running engines.

use std::time::Duration;

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use rstest::rstest;

use super::scene::{Plan, Scene};
use crate::client::{ask, empty, query, try_send};

#[test]
fn without_the_agent_running_engines_serve_and_stopped_ones_do_not() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let _engine = scene.running("one", 11).await;
        scene.stopped("two").await;
        let waiting = tokio::spawn(ask("two"));
        scene.until_waiting(1).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        scene.agent.kill();
        let left_alone = waiting.await.expect("a client");
        assert_eq!(left_alone.error(), (503, "engine_unavailable".to_owned()));
        for _ in 0..20 {
            ask("one").await.answer();
        }
        assert_eq!(ask("two").await.status, 503);
        scene.agent.restart().await;
        scene.until_asked().await;
        let waiting = tokio::spawn(ask("two"));
        scene.until_waiting(1).await;
        let _engine = scene.starts("two", 12).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn an_agent_that_stands_still_is_passed_by() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let _engine = scene.running("one", 11).await;
        scene.stopped("two").await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let held = tokio::spawn(ask("two"));
        scene.until_waiting(1).await;
        scene.agent.freeze();
        for _ in 0..20 {
            ask("one").await.answer();
        }
        assert_eq!(held.await.expect("a client").status, 503, "whom it held goes on too");
        scene.agent.thaw();
        scene.until_asked().await;
        scene.stopped("three").await;
        let waiting = tokio::spawn(ask("three"));
        scene.until_wake_requested("three").await;
        let _engine = scene.starts("three", 13).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn when_a_gateway_is_killed_nobody_waits_on_and_the_engine_stays_asked_for() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(try_send(empty(query("one"))));
        scene.until_wake_requested("one").await;
        scene.envoy.kill();
        assert!(
            waiting.await.expect("a client").is_err(),
            "no answer can be given any more"
        );
        scene.until_waiting(0).await;
        assert!(scene.wake_requested("one").await.is_some());
        assert!(scene.agent.ended().is_none());
    });
}

/// Down, or hanging.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Down,
    Hanging,
}

impl Outage {
    fn begin(self, scene: &Scene) {
        match self {
            Self::Down => scene.api.close(),
            Self::Hanging => scene.api.silence(),
        }
    }
}

#[rstest]
fn without_the_api_server_a_query_waits_until_its_deadline(#[values(Outage::Down, Outage::Hanging)] outage: Outage) {
    isolated_with_api_server(async move {
        let scene = Scene::with(Plan {
            wake_timeout: Duration::from_secs(5),
            ..Plan::default()
        })
        .await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        // From then on the engine is known, and not only its name.
        scene.until_wake_requested("one").await;
        outage.begin(&scene);
        let reply = waiting.await.expect("a client");
        assert_eq!(reply.error(), (503, "engine_start_timeout".to_owned()));
    });
}

#[rstest]
fn without_the_api_server_a_query_is_let_go_once_the_engine_can_be_reached(
    #[values(Outage::Down, Outage::Hanging)] outage: Outage,
) {
    isolated_with_api_server(async move {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let waiting = tokio::spawn(ask("one"));
        // From then on the engine is known, and not only its name.
        scene.until_wake_requested("one").await;
        outage.begin(&scene);
        let _engine = scene.becomes_reachable("one", 11).await;
        waiting.await.expect("a client").answer();
        // And who comes later is not held up: nothing is known, so Envoy finds out.
        eventually("queries pass", async || ask("one").await.status == 200).await;
        scene.api.open();
        eventually("unknown engines are unknown again", async || {
            ask("unknown").await.status == 404
        })
        .await;
    });
}

#[test]
fn a_wake_that_the_api_server_misses_is_made_up_for() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        eventually("the engine is known", async || {
            scene.agent.metric("listings_total", "").await > 1
        })
        .await;
        // The agent still believes its list, and cannot write.
        scene.api.close();
        let waiting = tokio::spawn(ask("one"));
        scene.until_waiting(1).await;
        scene.api.open();
        scene.until_wake_requested("one").await;
        let _engine = scene.starts("one", 11).await;
        waiting.await.expect("a client").answer();
    });
}

#[test]
fn a_gateway_that_may_not_patch_says_so_once_and_goes_on() {
    isolated_with_api_server(async {
        let mut scene = Scene::with(Plan {
            verbs: Some(&["get", "list"]),
            ..Plan::default()
        })
        .await;
        let _engine = scene.running("one", 11).await;
        scene.stopped("two").await;
        let reply = ask("two").await;
        assert_eq!(reply.error(), (503, "engine_wake_refused".to_owned()));
        assert!(reply.headers.contains_key("retry-after"));
        let told = |line: &serde_json::Value| {
            let text = line.to_string();
            line["level"] == "WARN" && text.contains("patch") && text.contains("fireboltengines")
        };
        assert_eq!(ask("two").await.status, 503);
        let log = scene.agent.log();
        assert_eq!(log.iter().filter(|line| told(line)).count(), 1, "{log:#?}");
        eventually("the other engine answers", async || ask("one").await.status == 200).await;
        assert!(scene.agent.ended().is_none());
    });
}

#[test]
fn a_gateway_that_may_not_even_list_routes_as_if_there_were_no_agent() {
    isolated_with_api_server(async {
        let mut scene = Scene::without_rights().await;
        let _engine = scene.running("one", 11).await;
        ask("one").await.answer();
        let told = |line: &serde_json::Value| line["level"] == "WARN" && line.to_string().contains("list");
        assert_eq!(scene.agent.log().iter().filter(|line| told(line)).count(), 1);
        assert!(scene.agent.metric("requests_total", "\"blind\"").await > 0);
    });
}
