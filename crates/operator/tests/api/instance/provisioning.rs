//! From a manifest to an instance that serves: created objects, their owners, and what users see.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;
use strum::IntoEnumIterator;

use super::children::{CHILDREN, at};
use super::fixtures::{MAIN, minimal};
use super::status_history::StatusHistory;
use super::testenv::{Component, InstanceEnv, condition, status};
use crate::kubelet::pod_status::Behaviour;

const MINIMAL: &str = include_str!("../../../../../examples/minimal.yaml");
const EXTERNAL: &str = include_str!("../../../../../examples/external-postgres.yaml");
const PRODUCTION: &str = include_str!("../../../../../examples/production.yaml");

impl InstanceEnv {
    fn apply(&self, manifest: &str) {
        let apply = ["apply", "--namespace", &self.namespace, "--filename", "-"];
        self.cluster.kubectl_with_input(&apply, manifest).unwrap();
    }
}

fn is_ulid(id: &str) -> bool {
    id.len() == 26 && id.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_minimal_example_provisions_an_instance_with_an_engine() {
    let env = InstanceEnv::start().await;
    env.apply(MINIMAL);
    let instance = env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    assert!(is_ulid(&instance.spec.id.clone().unwrap_or_default()), "{instance:?}");
    let owner = json!([{
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltInstance", "name": MAIN,
        "uid": instance.uid(), "controller": true, "blockOwnerDeletion": true,
    }]);
    for (kind, rest, component) in CHILDREN {
        let child = env.known(kind, &format!("{MAIN}-{rest}")).await;
        let labels = json!({ "firebolt.io/instance": MAIN, "firebolt.io/component": component });
        assert_eq!(at(&child, "/metadata/labels"), labels, "{kind} {rest}");
        assert_eq!(at(&child, "/metadata/ownerReferences"), owner, "{kind} {rest}");
    }
    let claim: PersistentVolumeClaim = env.the("data-main-metadata-pg-0").await;
    assert_eq!(claim.labels()["firebolt.io/instance"], MAIN);
    assert!(
        claim.owner_references().is_empty(),
        "data outlives whatever is made for it"
    );
    env.wait_for_generation("analytics", 0).await;
    env.wait_until_engine_knows("analytics", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_production_example_provisions_an_instance() {
    let env = InstanceEnv::start().await;
    env.apply(PRODUCTION);
    env.wait_for_phase("production", InstancePhase::Ready).await;
    let gateway: Deployment = env.the("production-gateway").await;
    assert_eq!(gateway.spec.and_then(|spec| spec.replicas), Some(3));
    let postgres = env.children("production").await;
    assert!(
        !postgres
            .keys()
            .any(|name| name.contains("postgres") || name.contains("-pg")),
        "{postgres:?}"
    );
    assert_eq!(postgres.len(), 10);
    assert_eq!(
        env.get::<PersistentVolumeClaim>("data-production-metadata-pg-0").await,
        None
    );
    for engine in ["reporting", "ingest"] {
        env.wait_until_engine_knows(engine, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_with_an_external_database_provisions_an_instance() {
    let env = InstanceEnv::start().await;
    env.apply(EXTERNAL);
    env.wait_for_phase("external", InstancePhase::Ready).await;
    let config = env.known("ConfigMap", "external-metadata-config").await;
    let config = at(&config, "/data").to_string();
    assert!(config.contains("postgres.databases.svc.cluster.local"), "{config}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_provisioned_step_by_step_and_then_ready() {
    let mut env = InstanceEnv::without_operator().await;
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Pending);
    env.create(&minimal(MAIN)).await;
    let history = StatusHistory::of(&env, MAIN).await;
    env.start_operator();
    let waiting = env
        .wait_for_message(MAIN, "The metadata service is not ready: 0 of 1 pods ready")
        .await;
    assert_eq!(status(&waiting).phase, Some(InstancePhase::Provisioning));
    let gateway = condition(&waiting, InstanceCondition::GatewayReady);
    assert_eq!(gateway.reason, "Provisioning");
    assert!(
        gateway
            .message
            .contains("Waiting for the metadata service to become ready"),
        "{gateway:?}"
    );
    assert_eq!(env.find("Deployment", "main-gateway").await, None);
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    let ready = env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    assert_eq!(
        history.phases(&env).await,
        [InstancePhase::Provisioning, InstancePhase::Ready]
    );

    let (namespace, is) = (&env.namespace, status(&ready));
    assert!(is.metadata_ready && is.gateway_ready);
    assert_eq!(
        is.metadata_endpoint,
        format!("main-metadata.{namespace}.svc.cluster.local:7000")
    );
    assert_eq!(
        is.gateway_endpoint,
        format!("main-gateway.{namespace}.svc.cluster.local")
    );
    assert_eq!(is.observed_generation, ready.metadata.generation);
    for kind in InstanceCondition::iter() {
        let condition = condition(&ready, kind);
        let (holds, reason) = match kind {
            InstanceCondition::Ready => ("True", "AllComponentsReady"),
            InstanceCondition::MetadataReady | InstanceCondition::GatewayReady => ("True", "Ready"),
            // Present only while they hold.
            InstanceCondition::RenderingOutdated | InstanceCondition::Reconciling | InstanceCondition::Stalled => {
                ("", "")
            }
        };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (holds, reason));
        let generation = ready.metadata.generation.filter(|_| !holds.is_empty());
        assert_eq!(condition.observed_generation, generation);
    }
    let reported = async || {
        let events = env.events_about::<FireboltInstance>(MAIN).await;
        (events.len() == 2).then_some(events)
    };
    let reported = env.eventually("both phases are reported", reported).await;
    let reported: Vec<_> = reported
        .iter()
        .map(|reported| (reported.severity.as_str(), reported.reason.as_str()))
        .collect();
    assert_eq!(reported, [("Normal", "Provisioning"), ("Normal", "Ready")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_matters() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = env.kubectl(&["get", "fire", MAIN]).unwrap();
    let [head, row] = &table.lines().map(words).collect::<Vec<_>>()[..] else {
        panic!("a head and a row: {table}");
    };
    assert_eq!(head[..], ["NAME", "PHASE", "GATEWAY", "METADATA", "AGE"]);
    assert_eq!(row[..4], [MAIN, "Ready", "true", "true"]);
    let wide = env.kubectl(&["get", "fire", MAIN, "--output=wide"]).unwrap();
    let message = "The metadata service and the gateway are ready.";
    assert!(wide.contains("AllComponentsReady") && wide.contains(message), "{wide}");
    assert!(
        env.kubectl(&["get", "firebolt"])
            .unwrap()
            .contains("fireboltinstance.compute.firebolt.io/main")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_an_instance_never_changes() {
    let mut env = InstanceEnv::start().await;
    let mut ids = Vec::new();
    for (name, given) in [("unnamed", None), ("empty", Some("")), ("named", Some("our-account"))] {
        let mut desired = minimal(name);
        desired.spec.id = given.map(str::to_owned);
        let id = env.deploy(&desired).await.spec.id.unwrap_or_default();
        match given.filter(|given| !given.is_empty()) {
            Some(given) => assert_eq!(id, given),
            None => assert!(is_ulid(&id), "{id}"),
        }
        ids.push((name, id));
    }
    assert_ne!(ids[0].1, ids[1].1);
    env.kill_operator();
    let mut lost = Vec::new();
    for (name, _) in &ids {
        let config = format!("{name}-metadata-config");
        lost.push((env.remove("ConfigMap", &config).await, config));
    }
    env.start_operator();
    for ((name, id), (old, config)) in ids.iter().zip(lost) {
        env.wait_for_another("ConfigMap", &config, &old).await;
        let text = at(&env.known("ConfigMap", &config).await, "/data/config.xml");
        let account = format!("<default_account_id>{id}</default_account_id>");
        assert!(text.as_str().is_some_and(|text| text.contains(&account)), "{text}");
        assert_eq!(env.the::<FireboltInstance>(name).await.spec.id.as_ref(), Some(id));
    }
}
