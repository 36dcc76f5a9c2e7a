//! Queries that run on the old pods of an engine during a rollout.

use std::time::Duration;

use e2e::cluster::{Reply, TestEnv};
use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, Rollout};
use k8s_openapi::api::apps::v1::StatefulSet;
use stand_ins::engine::{METRICS_PORT, METRICS_SWITCH_PATH};

const ENGINE: &str = "analytics";
const ID: &str = "a-long-query";
/// Much longer than a rollout, and shorter than the grace period of a pod.
const LONG: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_query_on_the_old_generation_finishes() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let query = env.begin_query(ENGINE, ID, LONG).await;
    env.apply(&engine.env("EDIT", "1")).await;
    env.reaches(ENGINE, EnginePhase::Draining).await;
    assert!(!query.is_finished(), "the query runs while its generation drains");
    let counted = "generation 0 is draining: 1 query left";
    env.has_message(ENGINE, counted).await;
    assert!(!query.is_finished(), "the query is counted while it runs");
    let old = env.find::<StatefulSet>(&EngineNames(ENGINE).stateful_set(0)).await;
    assert!(old.is_some_and(|old| old.metadata.deletion_timestamp.is_none()));

    let reply = query.await.expect("the client runs to its end");
    assert_executed_once(&env, reply);
    env.settles(ENGINE, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_does_not_wait_for_queries() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE).but(|spec| spec.rollout = Some(Rollout::Recreate));
    env.deploy(&engine).await;
    let query = env.begin_query(ENGINE, ID, LONG).await;
    env.apply(&engine.env("EDIT", "1")).await;
    env.settles(ENGINE, 1).await;
    assert!(
        !query.is_finished(),
        "the old generation is gone before its query has ended"
    );
    // The pod still finishes what it can within its grace period.
    let reply = query.await.expect("the client runs to its end");
    assert_executed_once(&env, reply);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_whose_queries_cannot_be_counted_is_kept_and_reported() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let pod = EngineNames(ENGINE).pod(0, 0);
    let broken = env.ask_pod(&pod, METRICS_PORT, METRICS_SWITCH_PATH, "broken").await;
    assert_eq!(broken.status, 204, "{broken:?}");

    let traffic = env.traffic(ENGINE).await;
    env.apply(&engine.env("EDIT", "1")).await;
    let condition = env.has_reason(ENGINE, "DrainCheckFailing").await;
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains(&pod), "{}", condition.message);
    traffic.reaches(&TestEnv::pod_names(ENGINE, 1, 1)).await;
    assert_eq!(env.generations(ENGINE).await, [0, 1], "the old generation is kept");

    let mended = env.ask_pod(&pod, METRICS_PORT, METRICS_SWITCH_PATH, "ok").await;
    assert_eq!(mended.status, 204, "{mended:?}");
    env.settles(ENGINE, 1).await;
    env.has_reason(ENGINE, "EngineReady").await;
    traffic.assert_flawless().await;
}

#[track_caller]
fn assert_executed_once(env: &TestEnv, reply: Result<Reply, String>) {
    let reply = reply.expect("the query is answered");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(env.executed_by(ID), TestEnv::pod_names(ENGINE, 0, 1));
}
