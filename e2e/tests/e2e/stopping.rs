//! Engines that a user stops and starts.

use std::time::Duration;

use e2e::cluster::TestEnv;
use firebolt_api::EnginePhase;
use firebolt_api::key::Label;
use k8s_openapi::api::core::v1::Pod;

const ENGINE: &str = "analytics";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_scaled_to_zero_finishes_its_query_stops_and_comes_back() {
    let env = TestEnv::with_instance().await;
    env.deploy(&env.engine(ENGINE)).await;
    let query = env.begin_query(ENGINE, "the-last", Duration::from_secs(5)).await;
    scale(&env, 0);
    let status = env.settles(ENGINE, 1).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stopped), Some(0)));
    let condition = env.has_reason(ENGINE, "Stopped").await;
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("spec.replicas is 0"), "{condition:?}");
    let reply = query.await.expect("the client runs to its end");
    let reply = reply.expect("the query is answered");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(env.executed_by("the-last"), TestEnv::pod_names(ENGINE, 0, 1));
    let no_pods = async || {
        let pods = env.list::<Pod>(&format!("{}={ENGINE}", Label::Engine)).await;
        pods.is_empty().then_some(())
    };
    env.eventually("no pod is left", no_pods).await;
    env.does_not_answer(ENGINE, "engine_stopped").await;

    scale(&env, 2);
    let status = env.settles(ENGINE, 2).await;
    assert_eq!((status.phase, status.replicas), (Some(EnginePhase::Stable), Some(2)));
    env.answers(ENGINE).await;
    let traffic = env.traffic(ENGINE).await;
    traffic.reaches(&TestEnv::pod_names(ENGINE, 2, 2)).await;
    traffic.assert_flawless().await;
}

fn scale(env: &TestEnv, replicas: u8) {
    let replicas = format!("--replicas={replicas}");
    env.kubectl(&["scale", "fireboltengine", ENGINE, &replicas])
        .expect("scale the engine");
}
