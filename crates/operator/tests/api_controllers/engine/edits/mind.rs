//! B3: the specification or the class changed in each phase, quickly, and back and forth; and a status wiped.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::stage::{ENGINE, Stage};
use crate::engine::moments::{Moment, original_image, pods, shape};
use crate::fixture::{class, engine};
use crate::scene::Scene;

/// What the edits of these tests change.
#[derive(Clone, Copy, Debug)]
enum Edited {
    Engine,
    Class,
}

/// The label that both edits give the pods.
fn team(name: &str) -> Value {
    json!({ "spec": { "template": { "metadata": { "labels": { "team": name } } } } })
}

async fn team_of(scene: &Scene, generation: i64) -> Option<String> {
    let set: StatefulSet = scene.the(&format!("a-g{generation}")).await;
    let labels = set.spec?.template.metadata?.labels?;
    labels.get("team").cloned()
}

/// Fault: the engine or its class edited in each phase. A rollout that has gone beyond creating runs to its end first,
/// and no generation starts while an old one drains (5); the engine ends with the edit in it, the invariants hold from
/// beginning to end.
#[rstest]
#[case::creating(Edited::Engine, Creating, 2)]
#[case::switching(Edited::Engine, Switching, 2)]
#[case::draining(Edited::Engine, Draining, 2)]
#[case::cleaning(Edited::Engine, Cleaning, 2)]
#[case::stable(Edited::Engine, Stable, 1)]
#[case::stopped(Edited::Engine, Stopped, 1)]
#[case::class_in_creating(Edited::Class, Creating, 2)]
#[case::class_in_switching(Edited::Class, Switching, 2)]
#[case::class_in_draining(Edited::Class, Draining, 2)]
#[case::class_in_stopped(Edited::Class, Stopped, 1)]
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_in_any_phase_is_rolled_out(
    #[case] edited: Edited,
    #[case] phase: EnginePhase,
    #[case] ends_with: i64,
) {
    let stage = Stage::begin().await;
    stage.scene.create(&class("c").pod_label("team", "one").0).await;
    let moment = Moment::on(stage, phase, engine(ENGINE).class("c")).await;
    let scene = moment.scene();
    let serving = pods(scene, 0).await;
    match edited {
        Edited::Engine => scene.edit_engine(ENGINE, team("two")).await,
        Edited::Class => drop(scene.edit::<FireboltEngineClass>("c", team("two")).await),
    }
    if phase == Draining {
        scene.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(scene.status(ENGINE).await.current_generation, 1);
        assert_eq!(
            (scene.generations(ENGINE).await, pods(scene, 0).await),
            (vec![0, 1], serving)
        );
    }
    moment.pass();
    scene.wait_for_generation(ENGINE, ends_with).await;
    assert_eq!(team_of(scene, ends_with).await.as_deref(), Some("two"));
    let alone = async || (scene.generations(ENGINE).await == [ends_with]).then_some(());
    scene.eventually("nothing else is left", alone).await;
    moment.stage.invariants.hold().await;
}

/// Fault: the status wiped in each phase. Invariants 2 and 7: the serving generation is found again, the one beside it
/// keeps its role, and the rollout ends where it would have, with no generation more.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_status_wiped_in_any_phase_is_read_from_the_cluster_again(
    #[values(Creating, Switching, Draining, Cleaning, Stable, Stopped)] phase: EnginePhase,
) {
    let moment = Moment::of(phase).await;
    let (scene, current) = (moment.scene(), moment.current());
    let (before, running) = (shape(scene, current).await.unwrap(), pods(scene, current).await);
    scene.set_status::<FireboltEngine>(ENGINE, Value::Null).await;
    if moment.is_awake() {
        scene.wait_for_phase(ENGINE, phase).await;
    }
    if phase == Draining {
        scene.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(scene.generations(ENGINE).await, [0, 1]);
    }
    moment.pass();
    moment.rests_at(current, &before).await;
    assert_eq!(pods(scene, current).await, running);
    scene.wait_for_event(ENGINE, "StatusRecovered").await;
    moment.stage.invariants.hold().await;
}

/// Fault: seven edits one after another, faster than any rollout. The last one wins, no more generations are spent than
/// there were edits, and at the end there is one; the invariants hold from beginning to end.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_quick_edits_the_last_one_wins() {
    let stage = Stage::deployed().await;
    for number in 1..=7 {
        stage.change(number).await;
    }
    let status = stage.scene.wait_for_phase(ENGINE, Stable).await;
    let generation = status.current_generation;
    assert!((1..=7).contains(&generation), "{generation}");
    stage.at_rest(generation).await;
    let set = serde_json::to_string(&stage.scene.the::<StatefulSet>(&format!("a-g{generation}")).await).unwrap();
    assert!(set.contains("engine:changed-7"), "{set}");
}

/// Fault: an edit taken back while its generation is being created. Invariant 9: the engine ends as it was at first,
/// and two generations are all that it takes; the one that served serves until then.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_is_taken_back_ends_with_what_there_was() {
    let moment = Moment::of(Creating).await;
    let scene = moment.scene();
    let (first, serving) = (shape(scene, 0).await.unwrap(), pods(scene, 0).await);
    scene
        .node
        .plan(&scene.namespace, "a-g2", crate::pod_status::Behaviour::Unready);
    scene.edit_engine(ENGINE, original_image()).await;
    scene
        .eventually("the next pod is there", async || scene.get::<Pod>("a-g2-0").await)
        .await;
    scene.wait_until_gone::<StatefulSet>("a-g1").await;
    assert_eq!(
        (scene.routed_to(ENGINE).await, pods(scene, 0).await),
        (Some(0), serving)
    );
    moment.pass();
    moment.rests_at(2, &first).await;
    moment.stage.invariants.hold().await;
}

/// Fault: back and forth, A, B, A, faster than any rollout. Whatever the operator saw of it, the engine ends with what A
/// renders, after at most one generation for each edit.
#[tokio::test(flavor = "multi_thread")]
async fn back_and_forth_ends_with_what_there_was() {
    let moment = Moment::of(Stable).await;
    let scene = moment.scene();
    let first = shape(scene, 0).await.unwrap();
    moment.stage.change(1).await;
    scene.edit_engine(ENGINE, original_image()).await;
    let generation = scene.wait_for_phase(ENGINE, Stable).await.current_generation;
    assert!(generation <= 2, "{generation}");
    moment.rests_at(generation, &first).await;
    let set = serde_json::to_string(&scene.the::<StatefulSet>(&format!("a-g{generation}")).await).unwrap();
    assert!(!set.contains("engine:changed"), "{set}");
    moment.stage.invariants.hold().await;
}
