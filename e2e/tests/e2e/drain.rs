//! Queries that run on the old pods of an engine during a rollout.

use std::time::Duration;

use e2e::cluster::{GatewayPod, INSTANCE, Instance, Reply, TestEnv};
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, Rollout};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use stand_ins::engine::{METRICS_PORT, METRICS_SWITCH_PATH};
use tokio::time::Instant;

const ENGINE: &str = "analytics";
const ID: &str = "a-long-query";
/// Much longer than a rollout, and longer than the grace period of a pod: only a pod that is not deleted finishes it.
const LONG: Duration = Duration::from_secs(75);
/// Much longer than a rollout, and shorter than the grace period of a pod.
const WITHIN_GRACE_PERIOD: Duration = Duration::from_secs(50);
/// How long before its end a query surely still runs, although a moment passes until its beginning is observed.
const SURELY: Duration = Duration::from_secs(5);
/// When queries begin after the switch was seen, in milliseconds.
const AFTER_SWITCH: [u64; 6] = [250, 350, 450, 700, 1000, 2000];
/// The time between two lookups of an engine by a gateway.
const LOOKUPS: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_query_on_the_old_generation_finishes() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let query = env.begin_query(ENGINE, ID, LONG).await;
    let just_before_its_end = Instant::now() + LONG - SURELY;
    env.apply(&engine.env("EDIT", "1")).await;
    env.reaches(ENGINE, EnginePhase::Draining).await;
    assert!(!query.is_finished(), "the query runs while its generation drains");
    let counted = "generation 0 is draining: 1 query left";
    env.has_message(ENGINE, counted).await;
    // What is being deleted then was deleted at some time before: a deletion is never taken back.
    tokio::time::sleep_until(just_before_its_end).await;
    let old = env.find::<StatefulSet>(&EngineNames(ENGINE).stateful_set(0)).await;
    let pods = env.pods(ENGINE, 0).await;
    assert!(!query.is_finished(), "the query runs until then");
    assert!(
        old.is_some_and(|old| old.metadata.deletion_timestamp.is_none()),
        "the old generation stands as long as its query runs"
    );
    assert_eq!(pods.len(), 1, "with its pod");

    let reply = query.await.expect("the client runs to its end");
    assert_executed_once(&env, reply);
    env.settles(ENGINE, 1).await;
}

/// A gateway that has not found the new pods yet sends queries to the old ones, which are to finish them as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_queries_that_begin_right_after_a_switch_finish() {
    let env = TestEnv::with(&Instance::new().gateways(2)).await;
    let engine = env.engine(ENGINE);
    env.deploy(&engine).await;
    let gateways: [GatewayPod; 2] = env.gateway_pods(INSTANCE).await;
    let mut clients = Vec::new();
    for gateway in &gateways {
        for delay in AFTER_SWITCH {
            let mut kept = TestEnv::connect(gateway.queries()).await;
            let id = format!("before-{delay}-at-{}", gateway.name);
            let reply = kept.query(ENGINE, &id, Duration::ZERO).await;
            assert_eq!(reply.expect("the query is answered").status, 200);
            clients.push((gateway, delay, kept));
        }
        // From its first query on, a gateway resolves the name of the engine once a second. So whenever the switch comes,
        // one of the two does not hear of it for half a second.
        tokio::time::sleep(LOOKUPS / 2).await;
    }
    let mut route = env.history::<Service>(&EngineNames(ENGINE).routing_service()).await;
    env.apply(&engine.env("EDIT", "1")).await;
    route
        .reaches("the routing Service selects generation 1", |route| selects(route, 1))
        .await;
    let switched = Instant::now();

    let mut queries = Vec::new();
    for (gateway, delay, mut kept) in clients {
        let (begin, address) = (switched + Duration::from_millis(delay), gateway.queries());
        let id = format!("after-{delay}-at-{}", gateway.name);
        let (on_kept, on_fresh) = (format!("{id}-kept"), format!("{id}-fresh"));
        queries.push((
            on_kept.clone(),
            tokio::spawn(async move {
                tokio::time::sleep_until(begin).await;
                kept.query(ENGINE, &on_kept, LONG).await
            }),
        ));
        queries.push((
            on_fresh.clone(),
            tokio::spawn(async move {
                tokio::time::sleep_until(begin).await;
                TestEnv::connect(address).await.query(ENGINE, &on_fresh, LONG).await
            }),
        ));
    }
    let (count, mut faults) = (queries.len(), Vec::new());
    for (id, query) in queries {
        let reply = query.await.expect("the client runs to its end");
        let executed = env.executed_by(&id);
        println!("{id} was executed by {executed:?}");
        if !reply.as_ref().is_ok_and(|reply| reply.status == 200) || executed.len() != 1 {
            let reply = reply.map(|reply| (reply.status, reply.body));
            faults.push(format!("{id}, executed by {executed:?}: {reply:?}"));
        }
    }
    let (failed, faults) = (faults.len(), faults.join("\n"));
    assert_eq!(
        failed, 0,
        "of {count} queries were not executed once and answered:\n{faults}"
    );
    env.settles(ENGINE, 1).await;
}

/// Whether a routing Service selects a generation.
fn selects(route: &Service, generation: i64) -> bool {
    let selector = route.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selected = selector.and_then(|selector| selector.get(Label::Generation.key()));
    selected.is_some_and(|selected| *selected == generation.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_does_not_wait_for_queries() {
    let env = TestEnv::with_instance().await;
    let engine = env.engine(ENGINE).but(|spec| spec.rollout = Some(Rollout::Recreate));
    env.deploy(&engine).await;
    let query = env.begin_query(ENGINE, ID, WITHIN_GRACE_PERIOD).await;
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
