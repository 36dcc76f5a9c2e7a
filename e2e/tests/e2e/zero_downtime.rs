//! Clients query an engine without a pause while it changes: every query is answered, and executed exactly once.

use e2e::cluster::{Class, Instance, NEXT_ENGINE_IMAGE, Scene, Traffic};
use firebolt_api::key::Component;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

const ENGINE: &str = "analytics";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_an_engine_scales_out_and_in() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let traffic = scene.traffic(ENGINE).await;
    scene.apply(&engine.clone().replicas(3)).await;
    scene.settles(ENGINE, 1).await;
    traffic.reaches(&Scene::pod_names(ENGINE, 1, 3)).await;
    scene.apply(&engine.replicas(2)).await;
    scene.settles(ENGINE, 2).await;
    traffic.reaches(&Scene::pod_names(ENGINE, 2, 2)).await;
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_a_class_gets_another_image() {
    let scene = Scene::with_instance().await;
    let class = Class::new("shared");
    scene.apply(&class).await;
    scene.deploy(&scene.engine(ENGINE).class("shared")).await;
    let traffic = scene.traffic(ENGINE).await;
    scene.apply(&class.image(NEXT_ENGINE_IMAGE)).await;
    scene.settles(ENGINE, 1).await;
    traffic.reaches(&Scene::pod_names(ENGINE, 1, 1)).await;
    let images: Vec<_> = scene.pods(ENGINE, 1).await.iter().flat_map(images).collect();
    assert_eq!(images, [NEXT_ENGINE_IMAGE]);
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_the_configuration_changes() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let traffic = scene.traffic(ENGINE).await;
    scene
        .apply(&engine.config(json!({ "logging": { "level": "debug" } })))
        .await;
    scene.settles(ENGINE, 1).await;
    traffic.reaches(&Scene::pod_names(ENGINE, 1, 1)).await;
    assert!(configuration(&scene, 1).await.contains("level: debug"));
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_somebody_changes_their_mind_seven_times() {
    let scene = Scene::with_instance().await;
    let engine = scene.engine(ENGINE);
    scene.deploy(&engine).await;
    let traffic = scene.traffic(ENGINE).await;
    for edit in 1..=7 {
        scene.apply(&engine.clone().env("EDIT", &edit.to_string())).await;
        traffic.flows().await;
    }
    let generation = scene.comes_to_rest(ENGINE).await;
    traffic.reaches(&Scene::pod_names(ENGINE, generation, 1)).await;
    let pod: Pod = scene.get(&EngineNames(ENGINE).pod(generation, 0)).await;
    let edits: Vec<_> = environment(&pod, "EDIT").collect();
    assert_eq!(edits, ["7"], "the last edit is what runs");
    assert!(generation <= 7, "no edit makes more than one generation: {generation}");
    traffic.assert_flawless().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_suffers_when_the_gateway_scales_out_and_in() {
    let scene = Scene::with_instance().await;
    scene.deploy(&scene.engine(ENGINE)).await;
    let traffic = scene.traffic(ENGINE).await;
    scale_gateway::<3>(&scene, &traffic).await;
    scale_gateway::<1>(&scene, &traffic).await;
    traffic.assert_flawless().await;
}

async fn scale_gateway<const PODS: usize>(scene: &Scene, traffic: &Traffic<'_>) {
    let replicas = i32::try_from(PODS).expect("a few");
    scene.apply(&Instance::new().gateways(replicas)).await;
    scene.instance_is_ready().await;
    scene.pods_of::<PODS>(Component::Gateway).await;
    traffic.flows().await;
}

async fn configuration(scene: &Scene, generation: i64) -> String {
    let map: ConfigMap = scene.get(&EngineNames(ENGINE).config_map(generation)).await;
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
