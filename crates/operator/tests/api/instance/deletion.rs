//! Deletion of an instance: nothing stays behind, and nothing goes that engines need.

use std::collections::{BTreeMap, BTreeSet};

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, PropagationPolicy};
use rstest::rstest;
use serde_json::json;

use super::fixtures::{MAIN, credentials, engine_of, external, instance, minimal};
use super::testenv::{Component, InstanceEnv, condition, status};
use crate::audit::AuditedRequest;
use crate::kubelet::pod_status::Behaviour;

impl InstanceEnv {
    async fn delete_with(&self, policy: PropagationPolicy) {
        let parameters = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        self.api::<FireboltInstance>().delete(MAIN, &parameters).await.unwrap();
    }

    /// Waits for so many more reconciles of instances without an error.
    async fn wait_for_reconciles(&self, more: u32) {
        let successes = || {
            let total = "controller_runtime_reconcile_total";
            let of = r#"controller="fireboltinstance""#;
            let with = |result: &str| self.operator().metric_over(total, &[of, result]);
            with(r#"result="success""#) + with(r#"result="requeue_after""#)
        };
        let enough = successes() + f64::from(more);
        let reconciled = async || (successes() >= enough).then_some(());
        self.eventually(&format!("{more} more reconciles"), reconciled).await;
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
async fn a_deleted_instance_leaves_nothing_behind(#[case] policy: PropagationPolicy) {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    let claim = "PersistentVolumeClaim data-main-metadata-pg-0".to_owned();
    assert!(env.inventory().await.contains(&claim));
    env.delete_with(policy).await;
    env.wait_for_inventory(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_database_of_another_owner_its_secret_stays() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    let before = env.inventory().await;
    env.deploy(&instance(MAIN, &json!({ "postgres": external() }), &json!({})))
        .await;
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_for_inventory(&before).await;
}

/// Data and password of a database that was given up for another one belong to the instance all the same.
#[tokio::test(flavor = "multi_thread")]
async fn data_of_a_replaced_internal_database_is_deleted_with_the_instance() {
    let env = InstanceEnv::start().await;
    env.create(&credentials("open sesame")).await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    env.edit_instance(MAIN, json!({ "spec": { "metadata": { "postgres": external() } } }))
        .await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_for_inventory(&before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_can_be_deleted_before_it_is_ready() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    for (stuck, message) in [
        (None, ""),
        (Some(Component::Postgres), "PostgreSQL"),
        (
            Some(Component::Metadata),
            "The metadata service is not ready: 0 of 1 pods ready",
        ),
        (Some(Component::Gateway), "The gateway is not ready: 0 of 2 pods ready"),
    ] {
        if let Some(component) = stuck {
            env.set_behaviour(MAIN, component, Behaviour::Pending);
        }
        env.create(&minimal(MAIN)).await;
        if stuck.is_some() {
            env.wait_for_message(MAIN, message).await;
        }
        env.delete::<FireboltInstance>(MAIN).await;
        env.wait_for_inventory(&before).await;
        if let Some(component) = stuck {
            env.set_behaviour(MAIN, component, Behaviour::Ready);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_not_deleted_while_engines_reference_it() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    for name in ["a", "b"] {
        env.create(&engine_of(MAIN, name).0).await;
    }
    env.wait_for_generation("a", 0).await;
    env.wait_for_generation("b", 0).await;
    env.delete::<FireboltInstance>(MAIN).await;
    let observed = env
        .wait_for_reason(MAIN, InstanceCondition::Ready, "DeletionBlocked")
        .await;
    assert!(observed.message.contains("2 engines (a, b)"), "{observed:?}");
    env.wait_for_event(MAIN, "DeletionBlocked").await;
    // It is reconciled as ever.
    let held = env.the::<FireboltInstance>(MAIN).await;
    assert!(status(&held).metadata_ready && !status(&held).metadata_endpoint.is_empty());
    let old = env.remove("ConfigMap", "main-gateway-config").await;
    env.wait_for_another("ConfigMap", "main-gateway-config", &old).await;

    env.delete::<FireboltEngine>("a").await;
    env.wait_for_message(MAIN, "engine b").await;
    env.delete::<FireboltEngine>("b").await;
    env.wait_for_inventory(&before).await;
}

/// What Kubernetes takes away by itself is not put back, which would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_in_foreground_deletion_reports_the_engines_that_reference_it() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    env.create(&engine_of(MAIN, "a").0).await;
    env.wait_for_generation("a", 0).await;
    env.delete_with(PropagationPolicy::Foreground).await;
    let observed = env
        .wait_for_reason(MAIN, InstanceCondition::Ready, "DeletionBlocked")
        .await;
    assert!(observed.message.contains("engine a"), "{observed:?}");
    env.delete::<FireboltEngine>("a").await;
    env.wait_for_inventory(&before).await;
}

const HELD: &str = "example.com/hold";

#[tokio::test(flavor = "multi_thread")]
async fn objects_with_foreign_finalizers_are_reported_and_left_behind() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    let held = [
        ("Deployment", "main-metadata"),
        ("Secret", "main-metadata-postgres-creds"),
    ];
    for (kind, name) in held {
        let finalizers = json!({ "metadata": { "finalizers": [HELD] } });
        env.merge(kind, name, finalizers).await;
    }
    env.delete::<FireboltInstance>(MAIN).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
    let reported = async || {
        let events = env.events_about::<FireboltInstance>(MAIN).await;
        let reported = events
            .into_iter()
            .filter(|event| event.reason == "ExternalFinalizerOnOwnedResource");
        let reported: Vec<String> = reported.map(|event| event.message).collect();
        let names = |(kind, name): &(&str, &str)| reported.iter().any(|text| text.contains(&format!("{kind} {name}")));
        (held.iter().all(names) && reported.iter().all(|text| text.contains(HELD))).then_some(())
    };
    env.eventually("the finalizers are reported", reported).await;
    for (kind, name) in held {
        assert!(
            env.known(kind, name).await.metadata.deletion_timestamp.is_some(),
            "{kind} {name}"
        );
        let release = json!({ "metadata": { "finalizers": null } });
        env.merge(kind, name, release).await;
    }
    env.wait_for_inventory(&before).await;
}

/// The password is of no use without the data, nor the data without the password.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_finalizer_on_the_data_keeps_the_password_and_the_instance() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    let (kind, name) = ("PersistentVolumeClaim", "data-main-metadata-pg-0");
    let held = json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection", HELD] } });
    env.merge(kind, name, held).await;
    env.delete::<FireboltInstance>(MAIN).await;
    let observed = env
        .wait_for_reason(MAIN, InstanceCondition::Ready, "ExternalFinalizer")
        .await;
    for part in [kind, name, HELD] {
        assert!(observed.message.contains(part), "{part} in {observed:?}");
    }
    env.wait_for_event(MAIN, "ExternalFinalizerOnOwnedResource").await;
    env.wait_until_gone::<StatefulSet>("main-metadata-pg").await;
    assert!(env.find("Secret", "main-metadata-postgres-creds").await.is_some());
    env.merge(kind, name, json!({ "metadata": { "finalizers": null } }))
        .await;
    env.wait_for_inventory(&before).await;
}

/// With `--cascade=orphan`, users say that they want to keep everything but the instance.
#[tokio::test(flavor = "multi_thread")]
async fn cascade_orphan_keeps_all_objects() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let everything = async || {
        let mut objects = env.children(MAIN).await;
        let claim = env.known("PersistentVolumeClaim", "data-main-metadata-pg-0").await;
        objects.insert("the data".to_owned(), claim);
        objects
    };
    let before = everything().await;
    env.delete_with(PropagationPolicy::Orphan).await;
    env.wait_until_gone::<FireboltInstance>(MAIN).await;
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
async fn deletion_waits_for_slow_gateway_pods() {
    let env = InstanceEnv::start().await;
    let before = env.inventory().await;
    env.deploy(&minimal(MAIN)).await;
    let since = env.mark();
    env.set_behaviour(MAIN, Component::Gateway, Behaviour::HoldTermination);
    env.delete::<FireboltInstance>(MAIN).await;
    let observed = env.wait_for_message(MAIN, "Deleting the gateway").await;
    assert_eq!(condition(&observed, InstanceCondition::Ready).reason, "Deleting");
    assert_eq!(
        (status(&observed).metadata_endpoint, status(&observed).gateway_endpoint),
        (String::new(), String::new())
    );
    env.wait_for_reconciles(3).await;
    let rest = env.children(MAIN).await;
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
    env.set_behaviour(MAIN, Component::Gateway, Behaviour::Ready);
    env.wait_for_inventory(&before).await;
    // Before the mark, nothing was deleted. The API server may answer a request before it records it.
    let recorded = async || {
        let writes = since.writes_logged_since(&env.namespace);
        let is_last = |write: &AuditedRequest| write.verb == "delete" && write.resource == "secrets";
        writes.iter().any(is_last).then_some(writes)
    };
    let writes = env.eventually("the last deletion is in the audit log", recorded).await;
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
    assert!(places[0].is_some() && places.is_sorted(), "{since:?}: {writes:#?}");
}
