//! A5: the same name, and not the same object.

use std::collections::BTreeMap;

use firebolt_api::key::{FIELD_MANAGER, Finalizer, Label};
use firebolt_api::{EnginePhase, FireboltEngine};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use rstest::rstest;
use serde_json::json;

use super::stage::{ENGINE, Stage};
use crate::fixture::{engine, stateful_set};
use crate::proxy::{Fault, Match, writes};
use crate::scene::Namespaced;

/// A write that was meant for an engine arrives when another has taken its name. The new one gets children of its own:
/// everything that is left belongs to it by UID.
#[rstest]
#[case::finalizer(writes().of("fireboltengines"))]
#[case::status(writes().of("fireboltengines").status())]
#[case::config(writes().of("configmaps"))]
#[case::headless_service(writes().named("a-g0-hl"))]
#[case::set(writes().of("statefulsets"))]
#[case::route(writes().named("a-service"))]
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_created_again_gets_children_of_its_own(#[case] held: Match) {
    let stage = Stage::begin().await;
    let scene = &stage.scene;
    let rule = stage.proxy.on(held.next(1), Fault::Hold);
    let first = scene.create(&engine(ENGINE).0).await;
    stage.struck(&rule).await;
    remove_by_force(&stage, &first).await;
    let second = scene.create(&engine(ENGINE).0).await;
    rule.release();

    let owner = second.uid().unwrap();
    let all_owned = async || {
        let status = scene.wait_for_phase(ENGINE, EnginePhase::Stable).await;
        let mut found = owners::<StatefulSet>(&stage).await;
        found.extend(owners::<Service>(&stage).await);
        found.extend(owners::<ConfigMap>(&stage).await);
        let serves = found.contains_key(&format!("{ENGINE}-g{}", status.active_generation));
        (serves && found.len() == 4 && found.values().all(|uid| *uid == owner)).then_some(())
    };
    let what = "everything that is left belongs to the new engine";
    scene.eventually(what, all_owned).await;
}

/// As a user does who will not wait for the operator.
async fn remove_by_force(stage: &Stage, engine: &FireboltEngine) {
    stage.scene.delete::<FireboltEngine>(ENGINE).await;
    let finalizers = json!({ "metadata": { "finalizers": null } });
    let is_first = async || {
        let there = stage.scene.get::<FireboltEngine>(ENGINE).await;
        let there = there.filter(|there| there.uid() == engine.uid())?;
        there
            .finalizers()
            .contains(&Finalizer::Engine.key().to_owned())
            .then_some(())
    };
    if is_first().await.is_some() {
        stage.scene.edit_engine(ENGINE, finalizers).await;
    }
    stage.scene.wait_until_gone::<FireboltEngine>(ENGINE).await;
}

/// The controlling owner of each object that claims to belong to an engine.
async fn owners<K: Namespaced>(stage: &Stage) -> BTreeMap<String, String> {
    let objects = stage.scene.list::<K>().await;
    let ours = objects
        .iter()
        .filter(|object| object.labels().contains_key(Label::Engine.key()));
    let controller = |object: &K| {
        let mut owners = object.owner_references().iter();
        owners
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.uid.clone())
    };
    ours.map(|object| (object.name_any(), controller(object).unwrap_or_default()))
        .collect()
}

/// A name and labels of ours on an object of somebody else.
fn metadata(name: &str) -> ObjectMeta {
    let label = |label: Label, value: &str| (label.key().to_owned(), value.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([
            label(Label::Engine, ENGINE),
            label(Label::Generation, "0"),
        ])),
        ..ObjectMeta::default()
    }
}

/// Puts an object of somebody else in the place of one of ours, while no operator looks.
async fn replace<K: Namespaced>(stage: &Stage, object: K) -> K {
    stage.scene.delete::<K>(&object.name_any()).await;
    stage.scene.wait_until_gone::<K>(&object.name_any()).await;
    stage.scene.create(&object).await
}

/// Through a rollout, and through the deletion of the engine, the object of somebody else stays as it is: neither
/// deleted nor overwritten, and never touched under our name.
async fn outlives_the_engine<K: Namespaced>(mut stage: Stage, object: K, settled: impl AsyncFn(&Stage)) {
    stage.kill();
    let foreign = replace(&stage, object).await;
    stage.start();
    settled(&stage).await;
    stage.change(1).await;
    settled(&stage).await;
    untouched(&stage, &foreign).await;
    stage.scene.delete::<FireboltEngine>(ENGINE).await;
    stage.scene.wait_until_gone::<FireboltEngine>(ENGINE).await;
    untouched(&stage, &foreign).await;
}

async fn untouched<K: Namespaced>(stage: &Stage, foreign: &K) {
    let now = stage.scene.the::<K>(&foreign.name_any()).await;
    assert_eq!(now.uid(), foreign.uid());
    assert_eq!(now.meta().deletion_timestamp, None);
    let managers = now.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    assert!(!managers.into_iter().any(|manager| manager == FIELD_MANAGER), "{now:?}");
    let (before, after) = (foreign.owner_references(), now.owner_references());
    assert_eq!((after, now.labels()), (before, foreign.labels()));
}

async fn stable(stage: &Stage) {
    stage.scene.wait_for_phase(ENGINE, EnginePhase::Stable).await;
}

fn service(name: &str) -> Service {
    let port = ServicePort {
        port: 80,
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        ports: Some(vec![port]),
        selector: Some(BTreeMap::from([("app".to_owned(), "somebody-else".to_owned())])),
        ..ServiceSpec::default()
    };
    Service {
        metadata: metadata(name),
        spec: Some(spec),
        ..Service::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_of_somebody_else_is_left_alone() {
    let map = ConfigMap {
        metadata: metadata("a-g0-config"),
        data: Some(BTreeMap::from([("theirs".to_owned(), "yes".to_owned())])),
        ..ConfigMap::default()
    };
    outlives_the_engine(Stage::deployed().await, map, stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_headless_service_of_somebody_else_is_left_alone() {
    outlives_the_engine(Stage::deployed().await, service("a-g0-hl"), stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_of_somebody_else_is_left_alone() {
    let set = StatefulSet {
        metadata: metadata("a-g0"),
        ..stateful_set("a-g0", 1)
    };
    outlives_the_engine(Stage::deployed().await, set, stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routing_service_of_somebody_else_is_left_alone_and_named() {
    let named = async |stage: &Stage| {
        let condition = stage.scene.wait_for_reason(ENGINE, "ForeignObject").await;
        assert!(condition.message.contains("a-service"), "{}", condition.message);
    };
    outlives_the_engine(Stage::deployed().await, service("a-service"), named).await;
}
