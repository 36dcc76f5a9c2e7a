//! Each child, edited and deleted by hand in each phase.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::name::EngineNames;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use rstest::rstest;
use serde_json::json;

use crate::engine::faults::stage::ENGINE;
use crate::engine::moments::{Moment, pods, shape};
use crate::pod_status::Behaviour;
use crate::proxy::{Fault, writes};
use crate::scene::Scene;

const NAMES: EngineNames = EngineNames(ENGINE);

/// What a person does to an object.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Edit,
    Delete,
}

async fn meddle_with_set(scene: &Scene, generation: i64, act: Act) {
    let name = NAMES.stateful_set(generation);
    let edit = json!({ "spec": { "template": { "metadata": { "annotations": { "example.com/mine": "yes" } }, "spec": {
        "terminationGracePeriodSeconds": 30,
    } } } });
    match act {
        Act::Edit => drop(scene.edit::<StatefulSet>(&name, edit).await),
        Act::Delete => scene.delete::<StatefulSet>(&name).await,
    }
}

async fn meddle_with_parts(scene: &Scene, generation: i64, act: Act) {
    let (config, headless) = (NAMES.config_map(generation), NAMES.headless_service(generation));
    match act {
        Act::Edit => {
            let data = json!({ "data": { "config.yaml": "changed by hand" } });
            scene.edit::<ConfigMap>(&config, data).await;
            let spec = json!({ "spec": { "publishNotReadyAddresses": false } });
            scene.edit::<Service>(&headless, spec).await;
        }
        Act::Delete => {
            scene.delete::<ConfigMap>(&config).await;
            scene.delete::<Service>(&headless).await;
        }
    }
}

/// Sends queries where they should not go, or nowhere.
async fn meddle_with_route(moment: &Moment, act: Act) {
    let name = NAMES.routing_service();
    let wrong = match moment.phase {
        Creating | Switching => "1",
        Draining | Cleaning => "0",
        Stable | Stopped => "7",
    };
    let selector = json!({ "firebolt.io/generation": wrong, "example.com/mine": "yes" });
    match act {
        Act::Edit => drop(
            moment
                .scene()
                .edit::<Service>(&name, json!({ "spec": { "selector": selector } }))
                .await,
        ),
        Act::Delete => moment.scene().delete::<Service>(&name).await,
    }
}

/// The generation that queries should reach in the phase.
fn serving(phase: EnginePhase) -> i64 {
    match phase {
        Draining | Cleaning => 1,
        Creating | Switching | Stable | Stopped => 0,
    }
}

/// Waits until the routing Service is at the generation, and selects by nothing of a person's.
async fn is_routed(scene: &Scene, generation: i64) {
    let routed = async || {
        let service: Service = scene.get(&NAMES.routing_service()).await?;
        let selector = service.spec?.selector?;
        let exact = !selector.contains_key("example.com/mine");
        (exact && selector["firebolt.io/generation"] == generation.to_string()).then_some(())
    };
    let what = format!("queries go to generation {generation}");
    scene.eventually(&what, routed).await;
}

/// Fault: ConfigMap, headless Service and routing Service edited or deleted, in each phase. They are repaired, in the
/// phase if the operator acts in it; no pod is lost for it, no generation spent (7), nothing else deleted (2), the route
/// leads to ready pods from the repair on (1), and the children end as they would have (9).
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_somebody_changed_is_repaired_in_every_phase(
    #[values(Creating, Switching, Draining, Cleaning, Stable, Stopped)] phase: EnginePhase,
    #[values(Act::Edit, Act::Delete)] act: Act,
) {
    let moment = Moment::of(phase).await;
    let (scene, current) = (moment.scene(), moment.current());
    let before = shape(scene, current).await.unwrap();
    let (running, written) = (pods(scene, current).await, moment.stage.proxy.writes().len());
    meddle_with_parts(scene, current, act).await;
    meddle_with_route(&moment, act).await;
    if moment.is_awake() {
        is_routed(scene, serving(phase)).await;
        let repaired = async || (unrouted(shape(scene, current).await?) == unrouted(before.clone())).then_some(());
        scene.eventually("the parts are repaired", repaired).await;
        let invariants = moment.watch().await;
        assert_eq!(scene.status(ENGINE).await.phase, Some(phase));
        moment.pass();
        moment.rests_at(current, &before).await;
        invariants.hold().await;
    } else {
        moment.pass();
        moment.rests_at(current, &before).await;
    }
    assert_eq!(pods(scene, current).await, running);
    let of_the_old = |name: &String| !moment.is_at_rest() && name.starts_with("a-g0");
    let deleted = moment.deleted_since(written);
    assert!(deleted.iter().all(of_the_old), "{deleted:?}");
}

/// The shape but for the routing Service, which comes last.
fn unrouted(mut shape: serde_json::Value) -> serde_json::Value {
    let parts = shape.as_array_mut().expect("a list of parts");
    parts.pop();
    shape
}

/// Fault: the newest StatefulSet edited or deleted, in each phase. A generation is never patched: one that was changed
/// is replaced by the next, one that is gone before it served is made again. Invariant 1 holds wherever anything is left
/// that can serve, from the moment on at which the route leads there again; nothing else is deleted (2).
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
async fn a_set_that_somebody_changed_is_replaced_in_every_phase(
    #[case] phase: EnginePhase,
    #[case] act: Act,
    #[case] ends_with: i64,
) {
    let moment = Moment::of(phase).await;
    let (scene, current) = (moment.scene(), moment.current());
    let before = shape(scene, current).await.unwrap();
    let written = moment.stage.proxy.writes().len();
    meddle_with_set(scene, current, act).await;
    match (act, phase) {
        (Act::Edit, _) => {
            moment.pass();
            moment.rests_at(ends_with, &before).await;
            moment.stage.invariants.hold().await;
        }
        (Act::Delete, Creating | Switching | Draining | Cleaning) => {
            moment.resume();
            // The old generation can still serve, and does so until the new one is there again.
            is_routed(scene, 0).await;
            let invariants = moment.watch().await;
            moment.pass();
            moment.rests_at(ends_with, &before).await;
            invariants.hold().await;
        }
        // Nothing is left that could serve.
        (Act::Delete, Stable | Stopped) => moment.rests_at(ends_with, &before).await,
    }
    let deleted = moment.deleted_since(written);
    let older = |name: &String| (0..ends_with).any(|number| name.starts_with(&format!("a-g{number}")));
    assert!(deleted.iter().all(older), "{deleted:?}");
}

/// Fault: the StatefulSet of the old generation and its parts edited or deleted while the new one takes over. The
/// rollout ends where it would have, with no generation more (7); old queries are still waited for.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_old_generation_that_somebody_changed_disturbs_no_rollout(
    #[values(Creating, Switching, Draining, Cleaning)] phase: EnginePhase,
    #[values(Act::Edit, Act::Delete)] act: Act,
) {
    let moment = Moment::of(phase).await;
    let scene = moment.scene();
    let before = shape(scene, 1).await.unwrap();
    let running = pods(scene, 1).await;
    meddle_with_set(scene, 0, act).await;
    meddle_with_parts(scene, 0, act).await;
    if (phase, act) == (Draining, Act::Edit) {
        scene.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(scene.generations(ENGINE).await, [0, 1]);
    }
    moment.pass();
    moment.rests_at(1, &before).await;
    assert_eq!(pods(scene, 1).await, running);
    if act == Act::Edit {
        moment.stage.invariants.hold().await;
    }
}

/// Fault: the new StatefulSet scaled to nothing around the switch. Invariant 1: queries do not go to a generation that
/// has no pod while the old one has all of its own, and the old one is not given up for it.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_somebody_scaled_to_nothing_gets_no_queries(
    #[values(Switching, Draining, Cleaning)] phase: EnginePhase,
) {
    let moment = Moment::of(phase).await;
    let scene = moment.scene();
    let (before, serving) = (shape(scene, 1).await.unwrap(), pods(scene, 0).await);
    // Pods of the next generation wait, so that there is time to look.
    scene.node.plan(&scene.namespace, "a-g2", Behaviour::Unready);
    let to_the_empty = writes()
        .named(&NAMES.routing_service())
        .saying("\"firebolt.io/generation\":\"1\"");
    let rule = moment.stage.proxy.on(to_the_empty, Fault::HoldResponse);
    rule.release();
    scene
        .edit::<StatefulSet>("a-g1", json!({ "spec": { "replicas": 0 } }))
        .await;
    scene.wait_until_gone::<Pod>("a-g1-0").await;
    moment.resume();
    is_routed(scene, 0).await;
    scene
        .eventually("the next pod is there", async || scene.get::<Pod>("a-g2-0").await)
        .await;
    assert_eq!(
        (scene.routed_to(ENGINE).await, pods(scene, 0).await),
        (Some(0), serving)
    );
    assert_eq!(rule.struck(), 0, "queries went to generation 1");
    moment.pass();
    moment.rests_at(2, &before).await;
}
