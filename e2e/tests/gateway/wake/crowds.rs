//! Many queries at once, for one engine, for many, and for engines that do not exist.

use std::collections::BTreeSet;
use std::fs;

use e2e::isolation::isolated_with_api_server;
use e2e::wait::eventually;
use futures::StreamExt;
use futures::stream::{FuturesUnordered, iter};
use rstest::rstest;
use serde_json::Value;
use stand_ins::engine::ID_HEADER;

use super::scene::Scene;
use crate::client::{ask, empty, query, send};

/// How often the gateway has patched engines, according to the API server.
fn patches(scene: &Scene) -> u64 {
    let account = format!("system:serviceaccount:{}:main-gateway", scene.namespace());
    let log = fs::read_to_string(scene.api.cluster().audit_log()).expect("read the audit log");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = lines.filter(|line| line["verb"] == "patch" && line["user"]["username"] == account.as_str());
    ours.count() as u64
}

#[rstest]
#[case(10)]
#[case(1000)]
fn a_crowd_that_waits_for_one_engine_asks_for_it_once_and_is_answered(#[case] crowd: usize) {
    isolated_with_api_server(async move {
        let mut scene = Scene::start().await;
        scene.stopped("one").await;
        let client = |number: usize| tokio::spawn(send(empty(query("one").header(ID_HEADER, number.to_string()))));
        // An engine that is this new has to be found first, and few may wait for that.
        let mut clients = FuturesUnordered::from_iter([client(0)]);
        scene.until_wake_requested("one").await;
        clients.extend((1..crowd).map(client));
        scene.until_waiting(crowd as u64).await;
        let engine = scene.starts("one", 11).await;
        let answers: Vec<_> = clients.collect().await;
        for answer in &answers {
            answer.as_ref().expect("a client").answer();
        }
        let (executed, count) = (engine.executed(), answers.len());
        assert_eq!((count, executed.len()), (crowd, crowd));
        assert_eq!(
            executed.into_iter().collect::<BTreeSet<_>>().len(),
            crowd,
            "each ran once"
        );
        let told = scene.agent.metric("patches_total", "").await;
        assert!((1..=3).contains(&told), "{told} patches");
        eventually("the API server has written down as many", async || {
            patches(&scene) == told
        })
        .await;
    });
}

#[test]
fn a_thousand_engines_can_be_woken_at_once() {
    isolated_with_api_server(async {
        let scene = Scene::start().await;
        let names: Vec<String> = (0..1000).map(|number| format!("engine-{number}")).collect();
        scene.stopped_crowd(&names).await;
        // Their names alone are few enough to wait for a list; their engines are known from then on.
        scene.until_asked().await;
        let clients: Vec<_> = names
            .iter()
            .map(|name| tokio::spawn(send(empty(query(name)))))
            .collect();
        eventually("every engine is asked for", async || {
            scene.asked_for().await == names.len()
        })
        .await;
        scene.until_waiting(names.len() as u64).await;
        for client in clients {
            client.abort();
        }
        scene.until_waiting(0).await;
    });
}

#[test]
fn made_up_names_are_turned_away_without_a_trace() {
    isolated_with_api_server(async {
        let mut scene = Scene::start().await;
        let _engine = scene.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let flood = async |from: usize| {
            let names = iter(from..from + 5_000).map(|number| async move { ask(&format!("made-up-{number}")).await });
            let errors: BTreeSet<(u16, String)> =
                names.buffer_unordered(200).map(|reply| reply.error()).collect().await;
            assert_eq!(errors, BTreeSet::from([(404, "engine_not_found".to_owned())]));
        };
        flood(0).await;
        let memory = scene.agent.memory();
        flood(5_000).await;
        let grown = scene.agent.memory().saturating_sub(memory);
        assert!(grown < 4 << 20, "{grown} bytes for 5 000 names");
        let names = scene.envoy.admin("GET", "/clusters").await.expect("the clusters");
        assert!(
            names.contains("one-service") && !names.contains("made-up"),
            "a name was looked up: {names}"
        );
        ask("one").await.answer();
        scene.until_waiting(0).await;
    });
}
