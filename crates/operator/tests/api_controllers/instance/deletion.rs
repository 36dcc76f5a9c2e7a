//! The end of an instance: nothing stays behind, and nothing goes that engines need.

use std::collections::{BTreeMap, BTreeSet};

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, PropagationPolicy};
use rstest::rstest;
use serde_json::json;

use super::fixture::{MAIN, credentials, engine_of, external, instance, minimal};
use super::stage::{Component, Stage, condition, status};
use crate::pod_status::Behaviour;

impl Stage {
    async fn delete_with(&self, policy: PropagationPolicy) {
        let parameters = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        self.api::<FireboltInstance>().delete(MAIN, &parameters).await.unwrap();
    }

    /// Waits until the operator has looked at instances so many times more.
    async fn wait_for_looks(&self, more: u32) {
        let looks = || {
            let count = r#"firebolt_instance_reconcile_duration_seconds_count{outcome="success"}"#;
            self.operator().metric(count).unwrap_or_default()
        };
        let enough = looks() + f64::from(more);
        let looked = async || (looks() >= enough).then_some(());
        self.eventually(&format!("{more} more looks"), looked).await;
    }

    /// Waits until there is nothing in the namespace but what was there before.
    async fn wait_for_inventory(&self, expected: &BTreeSet<String>) {
        self.wait_until_gone::<FireboltInstance>(MAIN).await;
        self.wait_until_cleared().await;
        let gone = async || (self.inventory().await == *expected).then_some(());
        self.eventually(&format!("nothing is left but {expected:?}"), gone)
            .await;
    }
}

#[rstest]
#[case::as_usual(PropagationPolicy::Background)]
#[case::with_what_it_owns_first(PropagationPolicy::Foreground)]
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_leaves_nothing_behind(#[case] policy: PropagationPolicy) {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    let claim = "PersistentVolumeClaim data-main-metadata-pg-0".to_owned();
    assert!(stage.inventory().await.contains(&claim));
    stage.delete_with(policy).await;
    stage.wait_for_inventory(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_database_of_somebody_else_its_secret_stays() {
    let stage = Stage::begin().await;
    stage.create(&credentials("open sesame")).await;
    let before = stage.inventory().await;
    stage
        .deploy(&instance(MAIN, &json!({ "postgres": external() }), &json!({})))
        .await;
    stage.delete::<FireboltInstance>(MAIN).await;
    stage.wait_for_inventory(&before).await;
}

/// Data and password of a database that was given up for another one belong to the instance all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_exchanged_database_left_goes_too() {
    let stage = Stage::begin().await;
    stage.create(&credentials("open sesame")).await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    stage
        .edit_instance(MAIN, json!({ "spec": { "metadata": { "postgres": external() } } }))
        .await;
    stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    stage.delete::<FireboltInstance>(MAIN).await;
    stage.wait_for_inventory(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_can_be_deleted_before_it_is_ready() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    for (stuck, said) in [
        (None, ""),
        (Some(Component::Postgres), "PostgreSQL"),
        (
            Some(Component::Metadata),
            "The metadata service is not ready: 0 of 1 pods ready",
        ),
        (Some(Component::Gateway), "The gateway is not ready: 0 of 2 pods ready"),
    ] {
        if let Some(component) = stuck {
            stage.fares(MAIN, component, Behaviour::Pending);
        }
        stage.create(&minimal(MAIN)).await;
        if stuck.is_some() {
            stage.wait_for_message(MAIN, said).await;
        }
        stage.delete::<FireboltInstance>(MAIN).await;
        stage.wait_for_inventory(&before).await;
        if let Some(component) = stuck {
            stage.fares(MAIN, component, Behaviour::Ready);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_stays_as_long_as_engines_need_it() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    for name in ["a", "b"] {
        stage.create(&engine_of(MAIN, name).0).await;
    }
    stage.wait_for_generation("a", 0).await;
    stage.wait_for_generation("b", 0).await;
    stage.delete::<FireboltInstance>(MAIN).await;
    let said = stage
        .wait_for_reason(MAIN, InstanceCondition::Ready, "DeletionBlocked")
        .await;
    assert!(said.message.contains("2 engines (a, b)"), "{said:?}");
    stage.wait_for_told(MAIN, "DeletionBlocked").await;
    // It is looked after as ever.
    let held = stage.the::<FireboltInstance>(MAIN).await;
    assert!(status(&held).metadata_ready && !status(&held).metadata_endpoint.is_empty());
    let old = stage.remove("ConfigMap", "main-gateway-config").await;
    stage.wait_for_another("ConfigMap", "main-gateway-config", &old).await;

    stage.delete::<FireboltEngine>("a").await;
    stage.wait_for_message(MAIN, "engine b").await;
    stage.delete::<FireboltEngine>("b").await;
    stage.wait_for_inventory(&before).await;
}

/// What Kubernetes takes away by itself is not put back, which would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_goes_with_what_it_owns_first_says_who_needs_it() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    stage.create(&engine_of(MAIN, "a").0).await;
    stage.wait_for_generation("a", 0).await;
    stage.delete_with(PropagationPolicy::Foreground).await;
    let said = stage
        .wait_for_reason(MAIN, InstanceCondition::Ready, "DeletionBlocked")
        .await;
    assert!(said.message.contains("engine a"), "{said:?}");
    stage.delete::<FireboltEngine>("a").await;
    stage.wait_for_inventory(&before).await;
}

const HELD: &str = "example.com/hold";

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_holds_is_told_and_left_behind() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    let held = [
        ("Deployment", "main-metadata"),
        ("Secret", "main-metadata-postgres-creds"),
    ];
    for (kind, name) in held {
        let finalizers = json!({ "metadata": { "finalizers": [HELD] } });
        stage.merge(kind, name, finalizers).await;
    }
    stage.delete::<FireboltInstance>(MAIN).await;
    stage.wait_until_gone::<FireboltInstance>(MAIN).await;
    let told = async || {
        let events = stage.events_about::<FireboltInstance>(MAIN).await;
        let told = events
            .into_iter()
            .filter(|event| event.reason == "ExternalFinalizerOnOwnedResource");
        let told: Vec<String> = told.map(|event| event.message).collect();
        let names = |(kind, name): &(&str, &str)| told.iter().any(|text| text.contains(&format!("{kind} {name}")));
        (held.iter().all(names) && told.iter().all(|text| text.contains(HELD))).then_some(())
    };
    stage.eventually("the finalizers are told", told).await;
    for (kind, name) in held {
        assert!(
            stage.known(kind, name).await.metadata.deletion_timestamp.is_some(),
            "{kind} {name}"
        );
        let release = json!({ "metadata": { "finalizers": null } });
        stage.merge(kind, name, release).await;
    }
    stage.wait_for_inventory(&before).await;
}

/// The password is of no use without the data, nor the data without the password.
#[tokio::test(flavor = "multi_thread")]
async fn data_that_somebody_else_holds_keeps_its_password_and_the_instance() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    let (kind, name) = ("PersistentVolumeClaim", "data-main-metadata-pg-0");
    let held = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection", HELD] } });
    stage.merge(kind, name, held).await;
    stage.delete::<FireboltInstance>(MAIN).await;
    let said = stage
        .wait_for_reason(MAIN, InstanceCondition::Ready, "ExternalFinalizer")
        .await;
    for part in [kind, name, HELD] {
        assert!(said.message.contains(part), "{part} in {said:?}");
    }
    stage.wait_for_told(MAIN, "ExternalFinalizerOnOwnedResource").await;
    stage.wait_until_gone::<StatefulSet>("main-metadata-pg").await;
    assert!(stage.find("Secret", "main-metadata-postgres-creds").await.is_some());
    stage
        .merge(kind, name, json!({ "metadata": { "finalizers": null } }))
        .await;
    stage.wait_for_inventory(&before).await;
}

/// With `--cascade=orphan`, people say that they want to keep everything but the instance.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_to_leave_everything_behind_does() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    let everything = async || {
        let mut objects = stage.children(MAIN).await;
        let claim = stage.known("PersistentVolumeClaim", "data-main-metadata-pg-0").await;
        objects.insert("the data".to_owned(), claim);
        objects
    };
    let before = everything().await;
    stage.delete_with(PropagationPolicy::Orphan).await;
    stage.wait_until_gone::<FireboltInstance>(MAIN).await;
    let after = everything().await;
    let uids = |objects: &BTreeMap<String, DynamicObject>| {
        let uids = objects.iter().map(|(name, object)| (name.clone(), object.uid()));
        uids.collect::<Vec<_>>()
    };
    assert_eq!(uids(&after), uids(&before));
    for (name, object) in &after {
        assert!(object.owner_references().is_empty(), "{name}");
        assert_eq!(object.metadata.deletion_timestamp, None, "{name}");
    }
}

/// Nothing goes that is still needed by what goes before it; the data and its password go last.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_pods_take_their_time_is_awaited() {
    let stage = Stage::begin().await;
    let before = stage.inventory().await;
    stage.deploy(&minimal(MAIN)).await;
    let since = stage.mark();
    stage.fares(MAIN, Component::Gateway, Behaviour::HoldTermination);
    stage.delete::<FireboltInstance>(MAIN).await;
    let said = stage.wait_for_message(MAIN, "Gateway is being removed").await;
    assert_eq!(condition(&said, InstanceCondition::Ready).reason, "Deleting");
    assert_eq!(
        (status(&said).metadata_endpoint, status(&said).gateway_endpoint),
        (String::new(), String::new())
    );
    stage.wait_for_looks(3).await;
    let rest = stage.children(MAIN).await;
    for name in [
        "Deployment main-metadata",
        "StatefulSet main-metadata-pg",
        "Secret main-metadata-postgres-creds",
    ] {
        let object = rest
            .get(name)
            .unwrap_or_else(|| panic!("{name} went before the gateway"));
        assert_eq!(object.metadata.deletion_timestamp, None, "{name}");
    }
    stage.fares(MAIN, Component::Gateway, Behaviour::Ready);
    stage.wait_for_inventory(&before).await;
    let writes = since.writes(&stage.namespace);
    let deletions = writes.iter().filter(|write| write.verb == "delete");
    let order: Vec<String> = deletions
        .map(|write| format!("{} {}", write.resource, write.name))
        .collect();
    let place = |object: &str| order.iter().position(|deleted| deleted == object);
    let expected = [
        "deployments main-gateway",
        "deployments main-metadata",
        "statefulsets main-metadata-pg",
        "persistentvolumeclaims data-main-metadata-pg-0",
        "secrets main-metadata-postgres-creds",
    ];
    let places = expected.map(place);
    assert!(places[0].is_some() && places.is_sorted(), "{order:?}");
}
