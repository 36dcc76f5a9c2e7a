//! The class and the instance of an engine are deleted and created again.

use firebolt_api::EnginePhase::{self, Cleaning, Creating, Draining, Stable, Stopped, Switching};
use firebolt_api::{FireboltEngineClass, FireboltInstance};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use rstest::rstest;
use serde_json::json;

use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::engine::phases::{HeldEngine, pods, shape};
use crate::fault_proxy::{ProxiedWrite, Verb};
use crate::fixtures::{INSTANCE, class, engine, instance};
use crate::testenv::{Namespaced, TestEnv};

/// Deletes without waiting for finalizers, as a person may do.
async fn remove<K: Namespaced>(env: &TestEnv, name: &str) {
    env.delete::<K>(name).await;
    if env
        .get::<K>(name)
        .await
        .is_some_and(|object| !object.finalizers().is_empty())
    {
        env.edit::<K>(name, json!({ "metadata": { "finalizers": null } })).await;
    }
    env.wait_until_gone::<K>(name).await;
}

/// How many times the operator has created a StatefulSet.
fn rendered(held: &HeldEngine) -> usize {
    let writes = held.proxied.proxy.writes();
    let creates = |write: &&ProxiedWrite| write.call.verb == Verb::Create && write.call.resource == "statefulsets";
    writes.iter().filter(creates).count()
}

/// The class is deleted and recreated with another spec, in each phase. The engine reports the missing class by name at
/// once; a rollout past `creating` completes, nothing is rendered without the class; and once the class is back, the
/// engine ends with its new spec. The invariants hold all the time.
#[rstest]
#[case::creating(Creating, 2)]
#[case::switching(Switching, 2)]
#[case::draining(Draining, 2)]
#[case::cleaning(Cleaning, 2)]
#[case::stable(Stable, 1)]
#[case::stopped(Stopped, 1)]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_reports_a_missing_class_and_waits_for_it(#[case] phase: EnginePhase, #[case] ends_with: i64) {
    let proxied = ProxiedEnv::start().await;
    proxied.env.create(&class("c").pod_label("team", "one").0).await;
    let held = HeldEngine::on(proxied, phase, engine(ENGINE).class("c")).await;
    let (env, current) = (held.env(), held.current());
    let (before, running) = (rendered(&held), pods(env, current).await);
    remove::<FireboltEngineClass>(env, "c").await;
    if held.is_awake() {
        env.wait_for_reason(ENGINE, "FireboltEngineClassUnready").await;
    }
    held.pass();
    match phase {
        // A generation that becomes ready in between has to wait: it may differ from the spec of the new class.
        Creating => {
            let ready = async || {
                let set: StatefulSet = env.the("a-g1").await;
                (set.status?.ready_replicas == Some(1)).then_some(())
            };
            env.eventually("the new pod is ready", ready).await;
            assert_eq!(env.routed_to(ENGINE).await, Some(0));
        }
        Switching | Draining | Cleaning | Stable | Stopped => {
            env.wait_for_generation(ENGINE, current).await;
        }
    }
    let reported = env.wait_for_reason(ENGINE, "FireboltEngineClassUnready").await;
    assert!(
        reported.status == "False" && reported.message.contains(" c "),
        "{reported:?}"
    );
    assert_eq!((rendered(&held), pods(env, current).await), (before, running));

    env.create(&class("c").pod_label("team", "two").0).await;
    env.wait_for_generation(ENGINE, ends_with).await;
    let set: StatefulSet = env.the(&format!("a-g{ends_with}")).await;
    let labels = set.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["team"], "two");
    held.proxied.invariants.hold().await;
}

/// The instance is deleted while it has an engine, and recreated. The engine reports the missing instance by name,
/// keeps its pods and its route, completes a rollout past `creating`, and is ready again when the instance is, without
/// a new generation.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_keeps_serving_without_its_instance_and_is_ready_when_it_is_back(
    #[values(Creating, Draining, Cleaning, Stable)] phase: EnginePhase,
) {
    let held = HeldEngine::of(phase).await;
    let (env, current) = (held.env(), held.current());
    let (before, running) = (shape(env, current).await.unwrap(), pods(env, current).await);
    let serving = env.routed_to(ENGINE).await;
    remove::<FireboltInstance>(env, INSTANCE).await;
    if held.is_awake() {
        let reported = env.wait_for_reason(ENGINE, "InstanceNotReady").await;
        assert!(
            reported.status == "False" && reported.message.contains(&format!(" {INSTANCE} ")),
            "{reported:?}"
        );
        assert_eq!(env.routed_to(ENGINE).await, serving);
    }
    held.pass();
    match phase {
        Creating => {}
        Switching | Draining | Cleaning | Stable | Stopped => {
            env.wait_for_generation(ENGINE, current).await;
            env.wait_for_reason(ENGINE, "InstanceNotReady").await;
        }
    }
    env.create(&instance(INSTANCE)).await;
    env.wait_for_reason(ENGINE, "EngineReady").await;
    held.rests_at(current, &before).await;
    assert_eq!(pods(env, current).await, running);
    held.proxied.invariants.hold().await;
}
