//! B4: the class and the instance of an engine go and come back.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::{FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;

use crate::engine::faults::stage::{ENGINE, Stage};
use crate::engine::moments::{Moment, pods, shape};
use crate::fixture::{INSTANCE, class, engine, instance};
use crate::proxy::{Verb, Write};
use crate::scene::{Namespaced, Scene};

/// As a person does who will not wait for whatever holds it.
async fn remove<K: Namespaced>(scene: &Scene, name: &str) {
    scene.delete::<K>(name).await;
    if scene
        .get::<K>(name)
        .await
        .is_some_and(|object| !object.finalizers().is_empty())
    {
        scene
            .edit::<K>(name, json!({ "metadata": { "finalizers": null } }))
            .await;
    }
    scene.wait_until_gone::<K>(name).await;
}

/// How often the operator has asked for a StatefulSet.
fn rendered(moment: &Moment) -> usize {
    let writes = moment.stage.proxy.writes();
    let creates = |write: &&Write| write.call.verb == Verb::Create && write.call.resource == "statefulsets";
    writes.iter().filter(creates).count()
}

/// Fault: the class deleted and created again, with something else in it, in each phase. The engine says so at once, by
/// name; a rollout beyond creating runs to its end, nothing is rendered from nothing; and once the class is back, the
/// engine ends with what it says. The invariants hold from beginning to end.
#[rstest]
#[case::creating(Creating, 2)]
#[case::switching(Switching, 2)]
#[case::draining(Draining, 2)]
#[case::cleaning(Cleaning, 2)]
#[case::stable(Stable, 1)]
#[case::stopped(Stopped, 1)]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_says_that_its_class_is_missing_and_waits_for_it(#[case] phase: EnginePhase, #[case] ends_with: i64) {
    let stage = Stage::begin().await;
    stage.scene.create(&class("c").pod_label("team", "one").0).await;
    let moment = Moment::on(stage, phase, engine(ENGINE).class("c")).await;
    let (scene, current) = (moment.scene(), moment.current());
    let (before, running) = (rendered(&moment), pods(scene, current).await);
    remove::<FireboltEngineClass>(scene, "c").await;
    if moment.is_awake() {
        scene.wait_for_reason(ENGINE, "FireboltEngineClassUnready").await;
    }
    moment.pass();
    match phase {
        // What is ready meanwhile has to wait: it may not be what the class asks for when it is back.
        Creating => {
            let ready = async || {
                let set: StatefulSet = scene.the("a-g1").await;
                (set.status?.ready_replicas == Some(1)).then_some(())
            };
            scene.eventually("the new pod is ready", ready).await;
            assert_eq!(scene.routed_to(ENGINE).await, Some(0));
        }
        Switching | Draining | Cleaning | Stable | Stopped => {
            scene.wait_for_generation(ENGINE, current).await;
        }
    }
    let said = scene.wait_for_reason(ENGINE, "FireboltEngineClassUnready").await;
    assert!(said.status == "False" && said.message.contains(" c "), "{said:?}");
    assert_eq!((rendered(&moment), pods(scene, current).await), (before, running));

    scene.create(&class("c").pod_label("team", "two").0).await;
    scene.wait_for_generation(ENGINE, ends_with).await;
    let set: StatefulSet = scene.the(&format!("a-g{ends_with}")).await;
    let labels = set.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["team"], "two");
    moment.stage.invariants.hold().await;
}

/// Fault: the instance deleted with an engine present, and created again. The engine says so, by name, keeps its pods
/// and its route, finishes the rollout that had gone beyond creating, and is ready again when the instance is, with no
/// generation more (7).
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_serves_on_without_its_instance_and_is_ready_when_it_is_back(
    #[values(Creating, Draining, Cleaning, Stable)] phase: EnginePhase,
) {
    let moment = Moment::of(phase).await;
    let (scene, current) = (moment.scene(), moment.current());
    let (before, running) = (shape(scene, current).await.unwrap(), pods(scene, current).await);
    let serving = scene.routed_to(ENGINE).await;
    remove::<FireboltInstance>(scene, INSTANCE).await;
    if moment.is_awake() {
        let said = scene.wait_for_reason(ENGINE, "InstanceNotReady").await;
        assert!(
            said.status == "False" && said.message.contains(&format!(" {INSTANCE} ")),
            "{said:?}"
        );
        assert_eq!(scene.routed_to(ENGINE).await, serving);
    }
    moment.pass();
    match phase {
        Creating => {}
        Switching | Draining | Cleaning | Stable | Stopped => {
            scene.wait_for_generation(ENGINE, current).await;
            scene.wait_for_reason(ENGINE, "InstanceNotReady").await;
        }
    }
    scene.create(&instance(INSTANCE)).await;
    scene.wait_for_reason(ENGINE, "EngineReady").await;
    moment.rests_at(current, &before).await;
    assert_eq!(pods(scene, current).await, running);
    moment.stage.invariants.hold().await;
}
