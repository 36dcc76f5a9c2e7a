//! The routing Service of an engine is deleted while clients query the engine.

use e2e::cluster::TestEnv;
use firebolt_api::EnginePhase;
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

const ENGINE: &str = "analytics";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_routing_service_comes_back_for_the_serving_generation_and_no_query_is_lost() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let traffic = env.traffic(ENGINE).await;
    comes_back(&env, 0).await;
    traffic.flows().await;

    // Generation 1 is never ready, so that the Service is deleted in the middle of its rollout.
    env.apply(&engine.clone().env("STAND_IN_START_DELAY", "1h")).await;
    env.reaches(ENGINE, EnginePhase::Creating).await;
    let created = async || (env.pods(ENGINE, 1).await.len() == 1).then_some(());
    env.eventually("the pod of generation 1 is there", created).await;
    comes_back(&env, 0).await;
    traffic.flows().await;

    env.apply(&engine).await;
    env.settles(ENGINE, 2).await;
    traffic.reaches(&TestEnv::pod_names(ENGINE, 2, 1)).await;
    comes_back(&env, 2).await;
    traffic.assert_only_refusals().await;
}

/// Deletes the routing Service, and asserts that the next one selects this generation from its beginning.
async fn comes_back(env: &TestEnv, generation: i64) {
    let name = EngineNames(ENGINE).routing_service();
    let deleted = env.get::<Service>(&name).await.uid();
    let mut services = env.history::<Service>(&name).await;
    env.delete::<Service>(&name).await;
    let next = services
        .reaches("there is another routing Service", |service| service.uid() != deleted)
        .await;
    let selector = next.spec.and_then(|spec| spec.selector).unwrap_or_default();
    assert_eq!(selector.get(Label::Generation.key()), Some(&generation.to_string()));
}
