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

use crate::testenv::client::{ask, empty, query, send};
use crate::testenv::waking::WakingEnv;

/// The number of patches by the gateway, according to the API server.
fn patches(env: &WakingEnv) -> u64 {
    let account = format!("system:serviceaccount:{}:main-gateway", env.namespace());
    let log = fs::read_to_string(env.api.cluster().audit_log()).expect("read the audit log");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = lines.filter(|line| line["verb"] == "patch" && line["user"]["username"] == account.as_str());
    ours.count() as u64
}

#[rstest]
#[case(10)]
#[case(1000)]
fn many_queries_for_one_engine_cause_one_wake_request_and_are_answered(#[case] crowd: usize) {
    isolated_with_api_server(async move {
        let mut env = WakingEnv::start().await;
        env.stopped("one").await;
        let client = |number: usize| tokio::spawn(send(empty(query("one").header(ID_HEADER, number.to_string()))));
        // A new engine has to be listed first, and few queries for unknown engines are held.
        let mut clients = FuturesUnordered::from_iter([client(0)]);
        env.until_wake_requested("one").await;
        clients.extend((1..crowd).map(client));
        env.until_waiting(crowd as u64).await;
        let engine = env.starts("one", 11).await;
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
        let counted = env.agent.metric("patches_total", "").await;
        assert!((1..=3).contains(&counted), "{counted} patches");
        eventually("the audit log of the API server has as many", async || {
            patches(&env) == counted
        })
        .await;
    });
}

#[test]
fn a_thousand_engines_can_be_woken_at_once() {
    isolated_with_api_server(async {
        let env = WakingEnv::start().await;
        let names: Vec<String> = (0..1000).map(|number| format!("engine-{number}")).collect();
        env.stopped_crowd(&names).await;
        // One query per engine fits; the engines are known from then on.
        env.until_asked().await;
        let clients: Vec<_> = names
            .iter()
            .map(|name| tokio::spawn(send(empty(query(name)))))
            .collect();
        eventually("a wake of every engine is requested", async || {
            env.asked_for().await == names.len()
        })
        .await;
        env.until_waiting(names.len() as u64).await;
        for client in clients {
            client.abort();
        }
        env.until_waiting(0).await;
    });
}

#[test]
fn made_up_names_are_refused_and_not_remembered() {
    isolated_with_api_server(async {
        let mut env = WakingEnv::start().await;
        let _engine = env.running("one", 11).await;
        eventually("the engine answers", async || ask("one").await.status == 200).await;
        let flood = async |from: usize| {
            let names = iter(from..from + 5_000).map(|number| async move { ask(&format!("made-up-{number}")).await });
            let errors: BTreeSet<(u16, String)> =
                names.buffer_unordered(200).map(|reply| reply.error()).collect().await;
            assert_eq!(errors, BTreeSet::from([(404, "engine_not_found".to_owned())]));
        };
        flood(0).await;
        let memory = env.agent.memory();
        flood(5_000).await;
        let grown = env.agent.memory().saturating_sub(memory);
        assert!(grown < 4 << 20, "{grown} bytes for 5 000 names");
        let names = env.envoy.admin("GET", "/clusters").await.expect("the clusters");
        assert!(
            names.contains("one-service") && !names.contains("made-up"),
            "a name was looked up: {names}"
        );
        ask("one").await.answer();
        env.until_waiting(0).await;
    });
}
