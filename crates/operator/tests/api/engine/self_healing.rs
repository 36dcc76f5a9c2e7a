//! A stable engine: what is repaired, what is left alone, the writes it takes, and what users see.

use firebolt_api::EnginePhase::Stable;
use firebolt_api::FireboltEngine;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::audit::AuditedRequest;
use crate::fixtures::{IMAGE, engine, new_image, sparse_sidecar};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::{Namespaced, TestEnv, ready};

/// How many times a stable engine is reconciled before it counts as quiet.
const ROUNDS: usize = 3;
/// The bound for one rollout: what it changes, without what it tells users.
const WRITES_OF_A_ROLLOUT: usize = 12;

fn listed(writes: &[AuditedRequest]) -> String {
    let lines: Vec<String> = writes.iter().map(AuditedRequest::to_string).collect();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_with_defaulted_fields_rolls_out_exactly_once() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let with_sidecar = engine("a").sidecar(sparse_sidecar()).0.spec.template;
    env.edit_engine("a", json!({ "spec": { "template": with_sidecar } }))
        .await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    let containers = env
        .the::<StatefulSet>("a-g1")
        .await
        .spec
        .unwrap()
        .template
        .spec
        .unwrap()
        .containers;
    assert_eq!(
        containers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
        ["engine", "side"]
    );
    for _ in 0..ROUNDS {
        env.force_reconcile("a", 1).await;
    }
    assert_eq!(env.status("a").await.current_generation, 1);
    assert_eq!(env.generations("a").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_wiped_by_hand_is_recovered_without_a_new_generation() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.wait_for_generation("a", 1).await;
    let before: StatefulSet = env.the("a-g1").await;
    env.set_status::<FireboltEngine>("a", Value::Null).await;
    env.wait_for_generation("a", 1).await;
    env.force_reconcile("a", 1).await;
    assert_eq!(env.status("a").await.current_generation, 1);
    assert_eq!(env.the::<StatefulSet>("a-g1").await.uid(), before.uid());
    assert_eq!(env.generations("a").await, [1]);
    env.wait_for_event("a", "StatusRecovered").await;
}

async fn annotate<K: Namespaced>(env: &TestEnv, name: &str) {
    env.edit::<K>(
        name,
        json!({ "metadata": { "annotations": { "example.com/note": "mine" } } }),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_others_survive_the_repair_of_a_child() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let names = EngineNames("a");
    let (config, headless) = (names.config_map(0), names.headless_service(0));
    let (set, routing) = (names.stateful_set(0), names.routing_service());
    annotate::<ConfigMap>(&env, &config).await;
    annotate::<Service>(&env, &headless).await;
    annotate::<Service>(&env, &routing).await;
    annotate::<StatefulSet>(&env, &set).await;
    env.edit::<ConfigMap>(&config, json!({ "data": { "config.yaml": "changed by hand" } }))
        .await;
    env.edit::<Service>(&headless, json!({ "spec": { "publishNotReadyAddresses": false } }))
        .await;
    env.edit::<Service>(
        &routing,
        json!({ "spec": { "selector": { "firebolt.io/generation": "7" } } }),
    )
    .await;
    let repaired = async || {
        let config: ConfigMap = env.the(&config).await;
        let headless: Service = env.the(&headless).await;
        let whole = config.data?["config.yaml"] != "changed by hand"
            && headless.spec?.publish_not_ready_addresses == Some(true)
            && env.routed_to("a").await == Some(0);
        whole.then_some(())
    };
    env.eventually("the children are repaired", repaired).await;
    for note in [
        env.the::<ConfigMap>(&config)
            .await
            .annotations()
            .get("example.com/note")
            .cloned(),
        env.the::<Service>(&headless)
            .await
            .annotations()
            .get("example.com/note")
            .cloned(),
        env.the::<Service>(&routing)
            .await
            .annotations()
            .get("example.com/note")
            .cloned(),
        env.the::<StatefulSet>(&set)
            .await
            .annotations()
            .get("example.com/note")
            .cloned(),
    ] {
        assert_eq!(note.as_deref(), Some("mine"));
    }
    env.wait_for_generation("a", 0).await;
    assert_eq!(env.generations("a").await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_not_ready_are_reported_and_start_no_generation() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    env.node.set_behaviour(&env.namespace, "a-g0-1", Behaviour::Unready);
    let reported = env.wait_for_reason("a", "PodsNotReady").await;
    assert!(reported.message.contains("1 of 2 pods ready"), "{reported:?}");
    env.node.set_behaviour(&env.namespace, "a-g0-1", Behaviour::Ready);
    env.wait_for_reason("a", "EngineReady").await;
    assert_eq!(env.status("a").await.current_generation, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_takes_few_writes() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let before = env.mark();
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.wait_for_generation("a", 1).await;
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    env.force_reconcile("a", 1).await;
    let mut writes = before.writes_but_events(&env.namespace);
    // Not the repair that has just shown that the rollout is over.
    let repair = writes.iter().rposition(|write| write.resource == "configmaps");
    writes.truncate(repair.expect("the repair is in the audit log"));
    let needed = ["create statefulsets a-g1", "services a-service"];
    assert!(
        needed.iter().all(|write| listed(&writes).contains(write)),
        "{}",
        listed(&writes)
    );
    assert!(
        writes.len() <= WRITES_OF_A_ROLLOUT,
        "{} writes:\n{}",
        writes.len(),
        listed(&writes)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stable_engine_causes_no_writes_and_no_scrapes() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.force_reconcile("a", 0).await;
    let before = env.mark();
    for _ in 0..ROUNDS {
        env.force_reconcile("a", 0).await;
    }
    let recorded = async || {
        let writes = before.writes(&env.namespace);
        (writes.iter().filter(|write| write.resource == "configmaps").count() >= ROUNDS).then_some(writes)
    };
    let writes = env.eventually("the repairs are in the audit log", recorded).await;
    let others: Vec<AuditedRequest> = writes
        .into_iter()
        .filter(|write| write.resource != "configmaps")
        .collect();
    assert!(others.is_empty(), "{}", listed(&others));
    assert_eq!(env.node.scrapes(&env.namespace, "a"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_restart_changes_nothing() {
    let mut env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.force_reconcile("a", 0).await;
    env.kill_operator();
    let before = env.mark();
    env.start_operator();
    env.force_reconcile("a", 0).await;
    let writes = before.writes(&env.namespace);
    let others: Vec<AuditedRequest> = writes
        .into_iter()
        .filter(|write| write.resource != "configmaps")
        .collect();
    assert!(others.is_empty(), "{}", listed(&others));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_matters() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = env.kubectl(&["get", "fireng", "a"]).unwrap();
    let [head, row] = &table.lines().map(words).collect::<Vec<_>>()[..] else {
        panic!("a head and a row: {table}");
    };
    assert_eq!(head[..], ["NAME", "REPLICAS", "PHASE", "READY", "GENERATION", "AGE"]);
    assert_eq!(row[..5], ["a", "1", "stable", "True", "0"]);
    let wide = env.kubectl(&["get", "fireng", "a", "-o", "wide"]).unwrap();
    assert!(
        wide.contains("EngineReady") && wide.contains("Generation 0 is serving queries."),
        "{wide}"
    );
    env.wait_for_events("a", &["Creating", "Switching", "Stable"]).await;
    let described = env.kubectl(&["describe", "fireng", "a"]).unwrap();
    for part in [
        IMAGE,
        "EngineReady",
        "Rolling out generation 0",
        "Switched queries to generation 0.",
    ] {
        assert!(described.contains(part), "{part} in {described}");
    }
    assert!(ready(&env.the("a").await).is_some_and(|ready| ready.status == "True"));
}
