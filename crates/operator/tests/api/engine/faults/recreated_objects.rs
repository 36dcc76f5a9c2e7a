//! Objects that are deleted and created again under the same name.

use std::collections::BTreeMap;

use firebolt_api::key::{FIELD_MANAGER, Finalizer, Label};
use firebolt_api::{EnginePhase, FireboltEngine};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use rstest::rstest;
use serde_json::json;

use super::testenv::{ENGINE, ProxiedEnv};
use crate::fault_proxy::{Fault, Match, writes};
use crate::fixtures::{engine, stateful_set};
use crate::testenv::Namespaced;

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
    let proxied = ProxiedEnv::start().await;
    let env = &proxied.env;
    let rule = proxied.proxy.on(held.next(1), Fault::Hold);
    let first = env.create(&engine(ENGINE).0).await;
    proxied.struck(&rule).await;
    remove_by_force(&proxied, &first).await;
    let second = env.create(&engine(ENGINE).0).await;
    rule.release();

    let owner = second.uid().unwrap();
    let all_owned = async || {
        let status = env.wait_for_phase(ENGINE, EnginePhase::Stable).await;
        let mut found = owners::<StatefulSet>(&proxied).await;
        found.extend(owners::<Service>(&proxied).await);
        found.extend(owners::<ConfigMap>(&proxied).await);
        let serves = found.contains_key(&format!("{ENGINE}-g{}", status.active_generation));
        (serves && found.len() == 4 && found.values().all(|uid| *uid == owner)).then_some(())
    };
    let what = "everything that is left belongs to the new engine";
    env.eventually(what, all_owned).await;
}

/// As a user does who will not wait for the operator.
async fn remove_by_force(proxied: &ProxiedEnv, engine: &FireboltEngine) {
    proxied.env.delete::<FireboltEngine>(ENGINE).await;
    let finalizers = json!({ "metadata": { "finalizers": null } });
    let is_first = async || {
        let there = proxied.env.get::<FireboltEngine>(ENGINE).await;
        let there = there.filter(|there| there.uid() == engine.uid())?;
        there
            .finalizers()
            .contains(&Finalizer::Engine.key().to_owned())
            .then_some(())
    };
    if is_first().await.is_some() {
        proxied.env.edit_engine(ENGINE, finalizers).await;
    }
    proxied.env.wait_until_gone::<FireboltEngine>(ENGINE).await;
}

/// The controlling owner of each object that claims to belong to an engine.
async fn owners<K: Namespaced>(proxied: &ProxiedEnv) -> BTreeMap<String, String> {
    let objects = proxied.env.list::<K>().await;
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

/// A foreign object with a name and labels of the operator.
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

/// Replaces an object of the operator with a foreign one, while no operator watches.
async fn replace<K: Namespaced>(proxied: &ProxiedEnv, object: K) -> K {
    proxied.env.delete::<K>(&object.name_any()).await;
    proxied.env.wait_until_gone::<K>(&object.name_any()).await;
    proxied.env.create(&object).await
}

/// Through a rollout, and through the deletion of the engine, the object of another owner stays as it is: neither
/// deleted nor overwritten, and never touched under our name.
async fn outlives_the_engine<K: Namespaced>(mut proxied: ProxiedEnv, object: K, settled: impl AsyncFn(&ProxiedEnv)) {
    proxied.kill_operator();
    let foreign = replace(&proxied, object).await;
    proxied.start_operator();
    settled(&proxied).await;
    proxied.change(1).await;
    settled(&proxied).await;
    untouched(&proxied, &foreign).await;
    proxied.env.delete::<FireboltEngine>(ENGINE).await;
    proxied.env.wait_until_gone::<FireboltEngine>(ENGINE).await;
    untouched(&proxied, &foreign).await;
}

async fn untouched<K: Namespaced>(proxied: &ProxiedEnv, foreign: &K) {
    let now = proxied.env.the::<K>(&foreign.name_any()).await;
    assert_eq!(now.uid(), foreign.uid());
    assert_eq!(now.meta().deletion_timestamp, None);
    let managers = now.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    assert!(!managers.into_iter().any(|manager| manager == FIELD_MANAGER), "{now:?}");
    let (before, after) = (foreign.owner_references(), now.owner_references());
    assert_eq!((after, now.labels()), (before, foreign.labels()));
}

async fn stable(proxied: &ProxiedEnv) {
    proxied.env.wait_for_phase(ENGINE, EnginePhase::Stable).await;
}

fn service(name: &str) -> Service {
    let port = ServicePort {
        port: 80,
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        ports: Some(vec![port]),
        selector: Some(BTreeMap::from([("app".to_owned(), "another-app".to_owned())])),
        ..ServiceSpec::default()
    };
    Service {
        metadata: metadata(name),
        spec: Some(spec),
        ..Service::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_of_another_owner_is_left_alone() {
    let map = ConfigMap {
        metadata: metadata("a-g0-config"),
        data: Some(BTreeMap::from([("theirs".to_owned(), "yes".to_owned())])),
        ..ConfigMap::default()
    };
    outlives_the_engine(ProxiedEnv::deployed().await, map, stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_headless_service_of_another_owner_is_left_alone() {
    outlives_the_engine(ProxiedEnv::deployed().await, service("a-g0-hl"), stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_of_another_owner_is_left_alone() {
    let set = StatefulSet {
        metadata: metadata("a-g0"),
        ..stateful_set("a-g0", 1)
    };
    outlives_the_engine(ProxiedEnv::deployed().await, set, stable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routing_service_of_another_owner_is_left_alone_and_named() {
    let named = async |proxied: &ProxiedEnv| {
        let condition = proxied.env.wait_for_reason(ENGINE, "ForeignObject").await;
        assert!(condition.message.contains("a-service"), "{}", condition.message);
    };
    outlives_the_engine(ProxiedEnv::deployed().await, service("a-service"), named).await;
}
