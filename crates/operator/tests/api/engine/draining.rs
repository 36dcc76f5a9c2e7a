//! The old generation stays for as long as it has, or may have, queries.

use firebolt_api::EnginePhase::{Draining, Stable};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

use crate::fixtures::{engine, new_image};
use crate::kubelet::metrics_server::Answer;
use crate::testenv::TestEnv;

const NEW_IMAGE: &str = "registry.example/engine:2";

fn queries(running: u32, suspended: u32) -> Answer {
    Answer::Queries { running, suspended }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_generation_stays_until_its_queries_have_ended() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    let order = |pods: &str, answer| env.node.metrics(&env.namespace, pods, answer);
    order("a-g0-1", queries(2, 0));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    env.wait_for_message("a", "2 queries left").await;
    env.wait_for_scrapes("a-g0-1", 2).await;
    let status = env.status("a").await;
    assert_eq!((status.phase, status.draining_generation), (Some(Draining), Some(0)));
    assert_eq!(
        (env.routed_to("a").await, env.generations("a").await),
        (Some(1), vec![0, 1])
    );
    // A suspended query is a query.
    order("a-g0-1", queries(0, 1));
    env.wait_for_message("a", "1 query left").await;
    env.wait_for_scrapes("a-g0-1", 2).await;
    assert_eq!(env.generations("a").await, [0, 1]);
    order("a-g0-1", Answer::IDLE);
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_until_gone::<StatefulSet>("a-g0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_queries_cannot_be_read_is_named_and_blocks_the_drain() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a").replicas(2)).await;
    let order = |answer| env.node.metrics(&env.namespace, "a-g0-1", answer);
    order(Answer::Status(500));
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    let reported = env.wait_for_reason("a", "DrainCheckFailing").await;
    assert!(
        reported.status == "False" && reported.message.contains("a-g0-1") && reported.message.contains("500"),
        "{reported:?}"
    );
    assert_eq!(env.wait_for_event("a", "DrainCheckFailing").await.severity, "Warning");
    order(Answer::Empty);
    env.wait_for_message("a", "firebolt_running_queries").await;
    for misleading in [
        Answer::Redirect,
        Answer::Huge(2 << 20),
        Answer::Text("firebolt_running_queries NaN\nfirebolt_suspended_queries 0\n".to_owned()),
        Answer::Text("firebolt_running_queries -1\nfirebolt_suspended_queries 0\n".to_owned()),
    ] {
        order(misleading.clone());
        env.wait_for_scrapes("a-g0-1", 2).await;
        assert_eq!(env.generations("a").await, [0, 1], "{misleading:?} was taken for idle");
    }
    env.wait_for_reason("a", "DrainCheckFailing").await;
    order(Answer::IDLE);
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_for_reason("a", "EngineReady").await;
    env.wait_until_gone::<StatefulSet>("a-g0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_drain_ends_at_once_when_the_check_is_disabled() {
    let env = TestEnv::start().await;
    env.deploy(&engine("a")).await;
    env.node.metrics(&env.namespace, "a-g0", Answer::Refuse);
    env.edit_engine("a", new_image(NEW_IMAGE)).await;
    let reported = env.wait_for_reason("a", "DrainCheckFailing").await;
    assert!(reported.message.contains("a-g0-0"), "{reported:?}");
    env.edit_engine("a", json!({ "spec": { "drainCheckEnabled": false } }))
        .await;
    assert_eq!(env.wait_for_phase("a", Stable).await.active_generation, 1);
    env.wait_until_gone::<StatefulSet>("a-g0").await;
}
