//! From a manifest to an instance that serves: what is made, whose it is, and what people see.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;
use strum::IntoEnumIterator;

use super::chronicle::Chronicle;
use super::fixture::{MAIN, minimal};
use super::inventory::{CHILDREN, at};
use super::stage::{Component, Stage, condition, status};
use crate::pod_status::Behaviour;

const MINIMAL: &str = include_str!("../../../../../examples/minimal.yaml");
const EXTERNAL: &str = include_str!("../../../../../examples/external-postgres.yaml");
const PRODUCTION: &str = include_str!("../../../../../examples/production.yaml");

impl Stage {
    fn apply(&self, manifest: &str) {
        let apply = ["apply", "--namespace", &self.namespace, "--filename", "-"];
        self.cluster.kubectl_with_input(&apply, manifest).unwrap();
    }
}

fn is_ulid(id: &str) -> bool {
    id.len() == 26 && id.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_manifest_becomes_an_instance_with_an_engine() {
    let stage = Stage::begin().await;
    stage.apply(MINIMAL);
    let instance = stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    assert!(is_ulid(&instance.spec.id.clone().unwrap_or_default()), "{instance:?}");
    let owner = json!([{
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltInstance", "name": MAIN,
        "uid": instance.uid(), "controller": true, "blockOwnerDeletion": true,
    }]);
    for (kind, rest, component) in CHILDREN {
        let child = stage.known(kind, &format!("{MAIN}-{rest}")).await;
        let labels = json!({ "firebolt.io/instance": MAIN, "firebolt.io/component": component });
        assert_eq!(at(&child, "/metadata/labels"), labels, "{kind} {rest}");
        assert_eq!(at(&child, "/metadata/ownerReferences"), owner, "{kind} {rest}");
    }
    let claim: PersistentVolumeClaim = stage.the("data-main-metadata-pg-0").await;
    assert_eq!(claim.labels()["firebolt.io/instance"], MAIN);
    assert!(
        claim.owner_references().is_empty(),
        "data outlives whatever is made for it"
    );
    stage.wait_for_generation("analytics", 0).await;
    stage.wait_until_engine_knows("analytics", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_for_production_becomes_an_instance() {
    let stage = Stage::begin().await;
    stage.apply(PRODUCTION);
    stage.wait_for_phase("production", InstancePhase::Ready).await;
    let gateway: Deployment = stage.the("production-gateway").await;
    assert_eq!(gateway.spec.and_then(|spec| spec.replicas), Some(3));
    let postgres = stage.children("production").await;
    assert!(
        !postgres
            .keys()
            .any(|name| name.contains("postgres") || name.contains("-pg")),
        "{postgres:?}"
    );
    assert_eq!(postgres.len(), 10);
    assert_eq!(
        stage
            .get::<PersistentVolumeClaim>("data-production-metadata-pg-0")
            .await,
        None
    );
    for engine in ["reporting", "ingest"] {
        stage.wait_until_engine_knows(engine, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_for_a_database_of_ones_own_becomes_an_instance() {
    let stage = Stage::begin().await;
    stage.apply(EXTERNAL);
    stage.wait_for_phase("external", InstancePhase::Ready).await;
    let config = stage.known("ConfigMap", "external-metadata-config").await;
    let config = at(&config, "/data").to_string();
    assert!(config.contains("postgres.databases.svc.cluster.local"), "{config}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_provisioned_step_by_step_and_then_ready() {
    let mut stage = Stage::set().await;
    stage.fares(MAIN, Component::Metadata, Behaviour::Pending);
    stage.create(&minimal(MAIN)).await;
    let chronicle = Chronicle::of(&stage, MAIN).await;
    stage.start();
    let waiting = stage.wait_for_message(MAIN, "0 of 1 pods ready").await;
    assert_eq!(status(&waiting).phase, Some(InstancePhase::Provisioning));
    let gateway = condition(&waiting, InstanceCondition::GatewayReady);
    assert_eq!(gateway.reason, "Provisioning");
    assert!(
        gateway.message.contains("once the metadata service is ready"),
        "{gateway:?}"
    );
    assert_eq!(stage.find("Deployment", "main-gateway").await, None);
    stage.fares(MAIN, Component::Metadata, Behaviour::Ready);
    let ready = stage.wait_for_phase(MAIN, InstancePhase::Ready).await;
    assert_eq!(
        chronicle.phases(&stage).await,
        [InstancePhase::Provisioning, InstancePhase::Ready]
    );

    let (namespace, is) = (&stage.namespace, status(&ready));
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
        let reason = match kind {
            InstanceCondition::Ready => "AllComponentsReady",
            InstanceCondition::MetadataReady | InstanceCondition::GatewayReady => "Ready",
        };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", reason));
        assert_eq!(condition.observed_generation, ready.metadata.generation);
    }
    let told = async || {
        let events = stage.events_about::<FireboltInstance>(MAIN).await;
        (events.len() == 2).then_some(events)
    };
    let told = stage.eventually("both phases are told", told).await;
    let told: Vec<_> = told
        .iter()
        .map(|told| (told.severity.as_str(), told.reason.as_str()))
        .collect();
    assert_eq!(told, [("Normal", "Provisioning"), ("Normal", "Ready")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_what_matters() {
    let stage = Stage::deployed(&minimal(MAIN)).await;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = stage.kubectl(&["get", "fire", MAIN]).unwrap();
    let [head, row] = &table.lines().map(words).collect::<Vec<_>>()[..] else {
        panic!("a head and a row: {table}");
    };
    assert_eq!(head[..], ["NAME", "PHASE", "GATEWAY", "METADATA", "AGE"]);
    assert_eq!(row[..4], [MAIN, "Ready", "true", "true"]);
    let wide = stage.kubectl(&["get", "fire", MAIN, "--output=wide"]).unwrap();
    let said = "The metadata service and the gateway are ready.";
    assert!(wide.contains("AllComponentsReady") && wide.contains(said), "{wide}");
    assert!(
        stage
            .kubectl(&["get", "firebolt"])
            .unwrap()
            .contains("fireboltinstance.compute.firebolt.io/main")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_is_kept_for_good() {
    let mut stage = Stage::begin().await;
    let mut ids = Vec::new();
    for (name, given) in [("unnamed", None), ("empty", Some("")), ("named", Some("our-account"))] {
        let mut wish = minimal(name);
        wish.spec.id = given.map(str::to_owned);
        let id = stage.deploy(&wish).await.spec.id.unwrap_or_default();
        match given.filter(|given| !given.is_empty()) {
            Some(given) => assert_eq!(id, given),
            None => assert!(is_ulid(&id), "{id}"),
        }
        ids.push((name, id));
    }
    assert_ne!(ids[0].1, ids[1].1);
    stage.kill_operator();
    let mut lost = Vec::new();
    for (name, _) in &ids {
        let config = format!("{name}-metadata-config");
        lost.push((stage.remove("ConfigMap", &config).await, config));
    }
    stage.start();
    for ((name, id), (old, config)) in ids.iter().zip(lost) {
        stage.wait_for_another("ConfigMap", &config, &old).await;
        let text = at(&stage.known("ConfigMap", &config).await, "/data/config.xml");
        let account = format!("<default_account_id>{id}</default_account_id>");
        assert!(text.as_str().is_some_and(|text| text.contains(&account)), "{text}");
        assert_eq!(stage.the::<FireboltInstance>(name).await.spec.id.as_ref(), Some(id));
    }
}
