//! Clients query an engine without a pause during rollouts: every query is answered, and executed exactly once.

use e2e::cluster::{Class, Instance, NEXT_ENGINE_IMAGE, TestEnv, Traffic};
use firebolt_api::key::Component;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

const ENGINE: &str = "analytics";
/// Edits in a row: the number that pods have in their environment, and the replicas. Each changes one of the two.
const EDITS: [(&str, i32); 7] = [("1", 1), ("1", 3), ("2", 3), ("2", 1), ("3", 1), ("3", 3), ("3", 2)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_as_three_engines_scale_at_the_same_time_and_one_goes_on() {
    let env = TestEnv::with_instance().await;
    let scaled = [(ENGINE, 1, 2), ("growing", 2, 4), ("shrinking", 3, 1)];
    for (name, from, _) in scaled {
        env.apply(&env.engine(name).replicas(from)).await;
    }
    let mut traffic = Vec::new();
    for (name, ..) in scaled {
        env.settles(name, 0).await;
        traffic.push(env.traffic(name).await);
    }
    for (name, _, to) in scaled {
        env.apply(&env.engine(name).replicas(to)).await;
    }
    for ((name, _, to), traffic) in scaled.into_iter().zip(&traffic) {
        env.settles(name, 1).await;
        traffic.reaches(&TestEnv::pod_names(name, 1, to)).await;
    }
    for (generation, replicas) in (2..).zip([3, 2, 1]) {
        env.apply(&env.engine(ENGINE).replicas(replicas)).await;
        env.settles(ENGINE, generation).await;
        traffic[0]
            .reaches(&TestEnv::pod_names(ENGINE, generation, replicas))
            .await;
    }
    for traffic in traffic {
        traffic.assert_flawless().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_a_class_gets_another_image() {
    let env = TestEnv::with_instance().await;
    let class = Class::new("shared");
    env.apply(&class).await;
    env.deploy(&env.engine(ENGINE).class("shared").replicas(3)).await;
    let traffic = env.traffic(ENGINE).await;
    traffic.reaches(&TestEnv::pod_names(ENGINE, 0, 3)).await;
    env.apply(&class.image(NEXT_ENGINE_IMAGE)).await;
    env.settles(ENGINE, 1).await;
    traffic.reaches(&TestEnv::pod_names(ENGINE, 1, 3)).await;
    let images: Vec<_> = env.pods(ENGINE, 1).await.iter().flat_map(images).collect();
    assert_eq!(images, [NEXT_ENGINE_IMAGE; 3]);
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_the_configuration_changes() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let traffic = env.traffic(ENGINE).await;
    env.apply(&engine.config(json!({ "logging": { "level": "debug" } })))
        .await;
    env.settles(ENGINE, 1).await;
    traffic.reaches(&TestEnv::pod_names(ENGINE, 1, 1)).await;
    assert!(configuration(&env, 1).await.contains("level: debug"));
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_during_seven_edits_in_a_row() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let traffic = env.traffic(ENGINE).await;
    for (number, replicas) in EDITS {
        env.apply(&engine.clone().env("EDIT", number).replicas(replicas)).await;
        traffic.flows().await;
    }
    let generation = env.comes_to_rest(ENGINE).await;
    assert_eq!(env.generations(ENGINE).await, [generation], "nothing is left behind");
    traffic.reaches(&TestEnv::pod_names(ENGINE, generation, 2)).await;
    let pods = env.pods(ENGINE, generation).await;
    let edits: Vec<_> = pods.iter().flat_map(|pod| environment(pod, "EDIT")).collect();
    assert_eq!(
        edits,
        ["3", "3"],
        "the last edit is what runs, on as many pods as it asks for"
    );
    let count = i64::try_from(EDITS.len()).expect("a few");
    assert!(
        generation <= count,
        "no edit makes more than one generation: {generation}"
    );
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_when_the_gateway_scales_out_and_in() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let traffic = env.traffic(ENGINE).await;
    scale_gateway::<3>(&env, &traffic).await;
    scale_gateway::<1>(&env, &traffic).await;
    traffic.assert_flawless().await;
}

async fn scale_gateway<const PODS: usize>(env: &TestEnv, traffic: &Traffic<'_>) {
    let replicas = i32::try_from(PODS).expect("a few");
    env.apply(&Instance::new().gateways(replicas)).await;
    env.instance_is_ready().await;
    env.pods_of::<PODS>(Component::Gateway).await;
    traffic.flows().await;
}

async fn configuration(env: &TestEnv, generation: i64) -> String {
    let map: ConfigMap = env.get(&EngineNames(ENGINE).config_map(generation)).await;
    map.data.unwrap_or_default().remove("config.yaml").unwrap_or_default()
}

fn images(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|container| container.image.clone()).collect()
}

fn environment<'pod>(pod: &'pod Pod, name: &str) -> impl Iterator<Item = &'pod str> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    variables
        .filter(move |variable| variable.name == name)
        .filter_map(|variable| variable.value.as_deref())
}
