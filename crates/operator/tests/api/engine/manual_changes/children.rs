//! Each child, edited and deleted by hand in each phase.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::name::EngineNames;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use rstest::rstest;
use serde_json::json;

use crate::engine::faults::testenv::ENGINE;
use crate::engine::phases::{HeldEngine, pods, shape};
use crate::fault_proxy::{Fault, writes};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

const NAMES: EngineNames = EngineNames(ENGINE);

/// What a person does to an object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Edit,
    Delete,
}

async fn meddle_with_set(env: &TestEnv, generation: i64, act: Act) {
    let name = NAMES.stateful_set(generation);
    let edit = json!({ "spec": { "template": { "metadata": { "annotations": { "example.com/mine": "yes" } }, "spec": {
        "terminationGracePeriodSeconds": 30,
    } } } });
    match act {
        Act::Edit => drop(env.edit::<StatefulSet>(&name, edit).await),
        Act::Delete => env.delete::<StatefulSet>(&name).await,
    }
}

async fn meddle_with_parts(env: &TestEnv, generation: i64, act: Act) {
    let (config, headless) = (NAMES.config_map(generation), NAMES.headless_service(generation));
    match act {
        Act::Edit => {
            let data = json!({ "data": { "config.yaml": "changed by hand" } });
            env.edit::<ConfigMap>(&config, data).await;
            let spec = json!({ "spec": { "publishNotReadyAddresses": false } });
            env.edit::<Service>(&headless, spec).await;
        }
        Act::Delete => {
            env.delete::<ConfigMap>(&config).await;
            env.delete::<Service>(&headless).await;
        }
    }
}

/// Routes queries to the wrong generation, or deletes the route.
async fn meddle_with_route(held: &HeldEngine, act: Act) {
    let name = NAMES.routing_service();
    let wrong = match held.phase {
        Creating | Switching => "1",
        Draining | Cleaning => "0",
        Stable | Stopped => "7",
    };
    let selector = json!({ "firebolt.io/generation": wrong, "example.com/mine": "yes" });
    match act {
        Act::Edit => drop(
            held.env()
                .edit::<Service>(&name, json!({ "spec": { "selector": selector } }))
                .await,
        ),
        Act::Delete => held.env().delete::<Service>(&name).await,
    }
}

/// The generation that serves queries in the phase.
fn serving(phase: EnginePhase) -> i64 {
    match phase {
        Draining | Cleaning => 1,
        Creating | Switching | Stable | Stopped => 0,
    }
}

/// Waits until the routing Service selects the generation, without labels that a person added.
async fn is_routed(env: &TestEnv, generation: i64) {
    let routed = async || {
        let service: Service = env.get(&NAMES.routing_service()).await?;
        let selector = service.spec?.selector?;
        let exact = !selector.contains_key("example.com/mine");
        (exact && selector["firebolt.io/generation"] == generation.to_string()).then_some(())
    };
    let what = format!("queries go to generation {generation}");
    env.eventually(&what, routed).await;
}

/// ConfigMap, headless Service and routing Service are edited or deleted in each phase. They are repaired, within the
/// phase if the operator acts in it; no pod is deleted, no generation started, nothing else deleted, the route leads to
/// ready pods after the repair, and the children end as without the change.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn changed_config_maps_and_services_are_repaired_in_every_phase(
    #[values(Creating, Switching, Draining, Cleaning, Stable, Stopped)] phase: EnginePhase,
    #[values(Act::Edit, Act::Delete)] act: Act,
) {
    let held = HeldEngine::of(phase).await;
    let (env, current) = (held.env(), held.current());
    let before = shape(env, current).await.unwrap();
    let (running, written) = (pods(env, current).await, held.proxied.proxy.writes().len());
    meddle_with_parts(env, current, act).await;
    meddle_with_route(&held, act).await;
    if held.is_awake() {
        is_routed(env, serving(phase)).await;
        let repaired = async || (unrouted(shape(env, current).await?) == unrouted(before.clone())).then_some(());
        env.eventually("the parts are repaired", repaired).await;
        let invariants = held.watch().await;
        assert_eq!(env.status(ENGINE).await.phase, Some(phase));
        held.pass();
        held.rests_at(current, &before).await;
        invariants.hold().await;
    } else {
        held.pass();
        held.rests_at(current, &before).await;
    }
    assert_eq!(pods(env, current).await, running);
    let of_the_old = |name: &String| !held.is_at_rest() && name.starts_with("a-g0");
    let deleted = held.deleted_since(written);
    assert!(deleted.iter().all(of_the_old), "{deleted:?}");
}

/// The shape without the routing Service, which is last.
fn unrouted(mut shape: serde_json::Value) -> serde_json::Value {
    let parts = shape.as_array_mut().expect("a list of parts");
    parts.pop();
    shape
}

/// The newest StatefulSet is edited or deleted in each phase. A generation is never patched: one that was edited is
/// replaced by the next, one that was deleted before it served is recreated. The route leads to ready pods if any are
/// left, once it is repaired; nothing else is deleted.
#[rstest]
#[case::creating_edit(Creating, Act::Edit, 2)]
#[case::creating_delete(Creating, Act::Delete, 1)]
#[case::switching_edit(Switching, Act::Edit, 2)]
#[case::switching_delete(Switching, Act::Delete, 1)]
#[case::draining_edit(Draining, Act::Edit, 2)]
#[case::draining_delete(Draining, Act::Delete, 1)]
#[case::cleaning_edit(Cleaning, Act::Edit, 2)]
#[case::cleaning_delete(Cleaning, Act::Delete, 1)]
#[case::stable_edit(Stable, Act::Edit, 1)]
#[case::stable_delete(Stable, Act::Delete, 1)]
#[case::stopped_edit(Stopped, Act::Edit, 1)]
#[case::stopped_delete(Stopped, Act::Delete, 1)]
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_stateful_set_is_replaced_in_every_phase(
    #[case] phase: EnginePhase,
    #[case] act: Act,
    #[case] ends_with: i64,
) {
    let held = HeldEngine::of(phase).await;
    let (env, current) = (held.env(), held.current());
    let before = shape(env, current).await.unwrap();
    let written = held.proxied.proxy.writes().len();
    meddle_with_set(env, current, act).await;
    match (act, phase) {
        (Act::Edit, _) => {
            held.pass();
            held.rests_at(ends_with, &before).await;
            held.proxied.invariants.hold().await;
        }
        (Act::Delete, Creating | Switching | Draining | Cleaning) => {
            held.resume();
            // The old generation can still serve, and does so until the new one is ready again.
            is_routed(env, 0).await;
            let invariants = held.watch().await;
            held.pass();
            held.rests_at(ends_with, &before).await;
            invariants.hold().await;
        }
        // No generation is left that could serve.
        (Act::Delete, Stable | Stopped) => held.rests_at(ends_with, &before).await,
    }
    let deleted = held.deleted_since(written);
    let older = |name: &String| (0..ends_with).any(|number| name.starts_with(&format!("a-g{number}")));
    assert!(deleted.iter().all(older), "{deleted:?}");
}

/// The StatefulSet of the old generation and its parts are edited or deleted during the switch. The rollout ends as
/// without the change and without another generation; the drain still waits for old queries.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_old_generation_do_not_disturb_a_rollout(
    #[values(Creating, Switching, Draining, Cleaning)] phase: EnginePhase,
    #[values(Act::Edit, Act::Delete)] act: Act,
) {
    let held = HeldEngine::of(phase).await;
    let env = held.env();
    let before = shape(env, 1).await.unwrap();
    let running = pods(env, 1).await;
    meddle_with_set(env, 0, act).await;
    meddle_with_parts(env, 0, act).await;
    if (phase, act) == (Draining, Act::Edit) {
        env.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(env.generations(ENGINE).await, [0, 1]);
    }
    held.pass();
    held.rests_at(1, &before).await;
    assert_eq!(pods(env, 1).await, running);
    if act == Act::Edit {
        held.proxied.invariants.hold().await;
    }
}

/// The new StatefulSet is scaled to zero around the switch. Queries are not routed to a generation without pods while
/// the old one has all of its pods, and the old one is not deleted.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_scaled_to_zero_by_a_user_gets_no_queries(
    #[values(Switching, Draining, Cleaning)] phase: EnginePhase,
) {
    let held = HeldEngine::of(phase).await;
    let env = held.env();
    let (before, serving) = (shape(env, 1).await.unwrap(), pods(env, 0).await);
    // Pods of the next generation are held, so that the state can be observed.
    env.node.set_behaviour(&env.namespace, "a-g2", Behaviour::Unready);
    let to_the_empty = writes()
        .named(&NAMES.routing_service())
        .saying("\"firebolt.io/generation\":\"1\"");
    let rule = held.proxied.proxy.on(to_the_empty, Fault::HoldResponse);
    rule.release();
    env.edit::<StatefulSet>("a-g1", json!({ "spec": { "replicas": 0 } }))
        .await;
    env.wait_until_gone::<Pod>("a-g1-0").await;
    held.resume();
    is_routed(env, 0).await;
    env.eventually("the next pod is there", async || env.get::<Pod>("a-g2-0").await)
        .await;
    assert_eq!((env.routed_to(ENGINE).await, pods(env, 0).await), (Some(0), serving));
    assert_eq!(rule.struck(), 0, "queries went to generation 1");
    held.pass();
    held.rests_at(2, &before).await;
}
