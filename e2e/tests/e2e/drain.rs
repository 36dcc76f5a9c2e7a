//! What becomes of the queries that run on the old pods of an engine.

use std::time::Duration;

use e2e::cluster::{Reply, Scene};
use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, Rollout};
use k8s_openapi::api::apps::v1::StatefulSet;
use stand_ins::engine::{METRICS_PORT, METRICS_SWITCH_PATH};

const ENGINE: &str = "analytics";
const ID: &str = "a-long-query";
/// Much longer than a rollout takes, and less than a pod that is to stop has for its queries.
const LONG: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_query_on_the_old_generation_finishes() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let query = scene.begin_query(ENGINE, ID, LONG).await;
    scene.apply(&engine.env("EDIT", "1")).await;
    scene.reaches(ENGINE, EnginePhase::Draining).await;
    assert!(!query.is_finished(), "the query runs while its generation drains");
    let counted = "generation 0 finishes its queries: 1 query left";
    scene.tells(ENGINE, counted).await;
    assert!(!query.is_finished(), "the query is counted while it runs");
    let old = scene.find::<StatefulSet>(&EngineNames(ENGINE).stateful_set(0)).await;
    assert!(old.is_some_and(|old| old.metadata.deletion_timestamp.is_none()));

    let reply = query.await.expect("the client runs to its end");
    assert_executed_once(&scene, reply);
    scene.settles(ENGINE, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_does_not_wait_for_queries() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE).but(|spec| spec.rollout = Some(Rollout::Recreate));
    scene.deploy(&engine).await;
    let query = scene.begin_query(ENGINE, ID, LONG).await;
    scene.apply(&engine.env("EDIT", "1")).await;
    scene.settles(ENGINE, 1).await;
    assert!(
        !query.is_finished(),
        "the old generation is gone before its query has ended"
    );
    // Kubernetes still lets the pod finish what it can within its grace period.
    let reply = query.await.expect("the client runs to its end");
    assert_executed_once(&scene, reply);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_whose_queries_cannot_be_counted_is_kept_and_reported_until_they_can() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let pod = EngineNames(ENGINE).pod(0, 0);
    let broken = scene.ask_pod(&pod, METRICS_PORT, METRICS_SWITCH_PATH, "broken").await;
    assert_eq!(broken.status, 204, "{broken:?}");

    let traffic = scene.traffic(ENGINE).await;
    scene.apply(&engine.env("EDIT", "1")).await;
    let condition = scene.says(ENGINE, "DrainCheckFailing").await;
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains(&pod), "{}", condition.message);
    traffic.reaches(&Scene::pod_names(ENGINE, 1, 1)).await;
    assert_eq!(scene.generations(ENGINE).await, [0, 1], "the old generation is kept");

    let mended = scene.ask_pod(&pod, METRICS_PORT, METRICS_SWITCH_PATH, "ok").await;
    assert_eq!(mended.status, 204, "{mended:?}");
    scene.settles(ENGINE, 1).await;
    scene.says(ENGINE, "EngineReady").await;
    traffic.assert_flawless().await;
}

#[track_caller]
fn assert_executed_once(scene: &Scene, reply: Result<Reply, String>) {
    let reply = reply.expect("the query is answered");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(scene.executed_by(ID), Scene::pod_names(ENGINE, 0, 1));
}
