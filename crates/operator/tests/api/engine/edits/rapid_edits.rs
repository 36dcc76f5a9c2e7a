//! Edits of the spec or the class in each phase, in quick succession, and back and forth; and a status that is wiped.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::engine::phases::{HeldEngine, original_image, pods, shape};
use crate::fixtures::{class, engine};
use crate::testenv::TestEnv;

/// The object that the edits of these tests change.
#[derive(Clone, Copy, Debug)]
enum Edited {
    Engine,
    Class,
}

/// The label that both edits give the pods.
fn team(name: &str) -> Value {
    json!({ "spec": { "template": { "metadata": { "labels": { "team": name } } } } })
}

async fn team_of(env: &TestEnv, generation: i64) -> Option<String> {
    let set: StatefulSet = env.the(&format!("a-g{generation}")).await;
    let labels = set.spec?.template.metadata?.labels?;
    labels.get("team").cloned()
}

/// The engine or its class is edited in each phase. A rollout past `creating` completes first, and no generation starts
/// while an old one drains; in the end the edit is rolled out, and the invariants hold all the time.
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
    let proxied = ProxiedEnv::start().await;
    proxied.env.create(&class("c").pod_label("team", "one").0).await;
    let held = HeldEngine::on(proxied, phase, engine(ENGINE).class("c")).await;
    let env = held.env();
    let serving = pods(env, 0).await;
    match edited {
        Edited::Engine => env.edit_engine(ENGINE, team("two")).await,
        Edited::Class => drop(env.edit::<FireboltEngineClass>("c", team("two")).await),
    }
    if phase == Draining {
        env.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(env.status(ENGINE).await.current_generation, 1);
        assert_eq!(
            (env.generations(ENGINE).await, pods(env, 0).await),
            (vec![0, 1], serving)
        );
    }
    held.pass();
    env.wait_for_generation(ENGINE, ends_with).await;
    assert_eq!(team_of(env, ends_with).await.as_deref(), Some("two"));
    let alone = async || (env.generations(ENGINE).await == [ends_with]).then_some(());
    env.eventually("nothing else is left", alone).await;
    held.proxied.invariants.hold().await;
}

/// The status is wiped in each phase. The serving generation is found again, the other one keeps its role, and the
/// rollout ends with the same generation as without the wipe.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_status_wiped_in_any_phase_is_read_from_the_cluster_again(
    #[values(Creating, Switching, Draining, Cleaning, Stable, Stopped)] phase: EnginePhase,
) {
    let held = HeldEngine::of(phase).await;
    let (env, current) = (held.env(), held.current());
    let (before, running) = (shape(env, current).await.unwrap(), pods(env, current).await);
    env.set_status::<FireboltEngine>(ENGINE, Value::Null).await;
    if held.is_awake() {
        env.wait_for_phase(ENGINE, phase).await;
    }
    if phase == Draining {
        env.wait_for_scrapes("a-g0-0", 2).await;
        assert_eq!(env.generations(ENGINE).await, [0, 1]);
    }
    held.pass();
    held.rests_at(current, &before).await;
    assert_eq!(pods(env, current).await, running);
    env.wait_for_event(ENGINE, "StatusRecovered").await;
    held.proxied.invariants.hold().await;
}

/// Seven edits in succession, faster than any rollout. The last one wins, there are no more generations than edits, and
/// one is left in the end; the invariants hold all the time.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_quick_edits_the_last_one_wins() {
    let proxied = ProxiedEnv::deployed().await;
    for number in 1..=7 {
        proxied.change(number).await;
    }
    let status = proxied.env.wait_for_phase(ENGINE, Stable).await;
    let generation = status.current_generation;
    assert!((1..=7).contains(&generation), "{generation}");
    proxied.at_rest(generation).await;
    let set = serde_json::to_string(&proxied.env.the::<StatefulSet>(&format!("a-g{generation}")).await).unwrap();
    assert!(set.contains("engine:changed-7"), "{set}");
}

/// An edit is reverted while its generation is being created. The engine ends as it was at first, after two
/// generations; the first one serves until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_reverted_edit_ends_with_the_original_template() {
    let held = HeldEngine::of(Creating).await;
    let env = held.env();
    let (first, serving) = (shape(env, 0).await.unwrap(), pods(env, 0).await);
    env.node
        .set_behaviour(&env.namespace, "a-g2", crate::kubelet::pod_status::Behaviour::Unready);
    env.edit_engine(ENGINE, original_image()).await;
    env.eventually("the next pod is there", async || env.get::<Pod>("a-g2-0").await)
        .await;
    env.wait_until_gone::<StatefulSet>("a-g1").await;
    assert_eq!((env.routed_to(ENGINE).await, pods(env, 0).await), (Some(0), serving));
    held.pass();
    held.rests_at(2, &first).await;
    held.proxied.invariants.hold().await;
}

/// Edits A, B, A, faster than any rollout. Whichever of them the operator observed, the engine ends with the template
/// of A, after at most one generation for each edit.
#[tokio::test(flavor = "multi_thread")]
async fn edits_back_and_forth_end_with_the_original_template() {
    let held = HeldEngine::of(Stable).await;
    let env = held.env();
    let first = shape(env, 0).await.unwrap();
    held.proxied.change(1).await;
    env.edit_engine(ENGINE, original_image()).await;
    let generation = env.wait_for_phase(ENGINE, Stable).await.current_generation;
    assert!(generation <= 2, "{generation}");
    held.rests_at(generation, &first).await;
    let set = serde_json::to_string(&env.the::<StatefulSet>(&format!("a-g{generation}")).await).unwrap();
    assert!(!set.contains("engine:changed"), "{set}");
    held.proxied.invariants.hold().await;
}
