//! An engine can be stopped and scaled, whatever else is wrong.

use firebolt_api::EnginePhase::{Draining, Stopped};
use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::fixtures::{engine, new_image, new_replicas};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::TestEnv;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_exceeds_lowered_limits_is_scaled_and_stopped_as_a_copy_of_what_ran_last() {
    let mut env = TestEnv::start().await;
    let limits =
        json!([{ "name": "engine", "image": "registry.example/engine:1", "resources": { "limits": { "cpu": "2" } } }]);
    env.deploy(&engine("a")).await;
    env.edit_engine(
        "a",
        json!({ "spec": { "template": { "spec": { "containers": limits } } } }),
    )
    .await;
    env.wait_for_generation("a", 1).await;
    env.kill_operator();
    env.start_operator_with(&["--engine-max-cpu=1"]);
    env.wait_for_reason("a", "ResourceBoundsExceeded").await;

    env.edit_engine("a", new_replicas(2)).await;
    env.wait_for_generation("a", 2).await;
    let limit = env
        .the::<StatefulSet>("a-g2")
        .await
        .spec
        .unwrap()
        .template
        .spec
        .unwrap()
        .containers[0]
        .clone();
    assert_eq!(limit.resources.unwrap().limits.unwrap()["cpu"].0, "2");
    let config = env
        .the::<ConfigMap>("a-g2-config")
        .await
        .data
        .unwrap()
        .remove("config.yaml")
        .unwrap();
    assert!(
        config.contains("a-g2-0.a-g2-hl") && config.contains("a-g2-1.a-g2-hl"),
        "{config}"
    );
    assert!(!config.contains("a-g1"), "{config}");

    env.edit_engine("a", new_replicas(0)).await;
    let stopped = |engine: &FireboltEngine| {
        engine
            .status
            .as_ref()
            .is_some_and(|status| status.phase == Some(Stopped))
    };
    env.wait_for("a", "is stopped", stopped).await;
    env.edit_engine("a", new_replicas(1)).await;
    let status = env.wait_for_generation("a", 4).await;
    assert_eq!(status.replicas, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_requested_while_the_last_query_of_a_stop_runs_serve_at_once() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let running = |running| Answer::Queries { running, suspended: 0 };
    env.node.metrics(&env.namespace, "a-g0", running(1));
    env.edit_engine("a", new_replicas(0)).await;
    env.wait_for_phase("a", Draining).await;
    assert_eq!(env.routed_to("a").await, Some(1));

    env.edit_engine("a", new_replicas(2)).await;
    env.eventually("the old pods are selected again", async || {
        (env.routed_to("a").await == Some(0)).then_some(())
    })
    .await;
    let switched = |engine: &FireboltEngine| {
        engine
            .status
            .as_ref()
            .is_some_and(|status| status.active_generation == 2)
    };
    env.wait_for("a", "serves with generation 2", switched).await;
    assert!(env.get::<StatefulSet>("a-g0").await.is_some(), "its query runs");
    env.node.metrics(&env.namespace, "a-g0", running(0));
    env.wait_for_generation("a", 2).await;
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    env.wait_until_gone::<StatefulSet>("a-g1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_rolls_on_after_the_last_number_that_names_have_room_for() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    let last = firebolt_api::name::GENERATION_NAMES - 1;
    env.set_status::<FireboltEngine>("a", json!({ "currentGeneration": last, "activeGeneration": last }))
        .await;
    // Its StatefulSet is missing, and the name of the next one is taken by that of generation 0.
    let status = env.wait_for_generation("a", last + 2).await;
    assert_eq!(status.replicas, Some(1));
    env.wait_until_gone::<StatefulSet>("a-g0").await;
    env.edit_engine("a", new_image("registry.example/engine:2")).await;
    env.wait_for_generation("a", last + 3).await;
    assert_eq!(env.routed_to("a").await, Some(last + 3));
    env.wait_for_reason("a", "EngineReady").await;
}
