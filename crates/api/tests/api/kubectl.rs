//! What users do with `kubectl`, tested with the real `kubectl`.

use localkube::{Cluster, Options};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::cluster::wait_for_crds;

use crate::support::{Edit, Kube, assert_message, engine, engine_class, instance, kube};

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

impl Kube {
    /// Runs kubectl in the namespace of the tests.
    fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments)
            .unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    fn try_kubectl(&self, arguments: &[&str]) -> localkube::Result<String> {
        // What another program discovered before the kinds were served would hide their short names.
        let cache = self.cluster.dir().join("kubectl-cache-of-the-api-tests");
        let cache = format!("--cache-dir={}", cache.display());
        let arguments = [&[&cache, "--namespace", self.namespace.as_str()], arguments].concat();
        self.cluster.kubectl(&arguments)
    }

    /// Writes the status of an object, or returns why the API server rejects it.
    fn try_status(&self, kind: &str, name: &str, status: &Value) -> Result<(), String> {
        let patch = json!({ "status": status }).to_string();
        let arguments = [
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        let written = self.try_kubectl(&arguments);
        written.map(drop).map_err(|error| error.to_string())
    }
}

/// A valid object of the kind with this short name.
fn example(kind: &str) -> Value {
    match kind {
        "fire" => instance(),
        "fireng" => engine(),
        _ => engine_class(),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// Uses a separate cluster, because the shared one already has the CRDs.
#[rstest]
#[case::client_side(&["apply"])]
#[case::server_side(&["apply", "--server-side"])]
#[tokio::test]
async fn the_crds_can_be_applied(#[case] apply: &[&str]) {
    let cluster = Cluster::start(Options::default()).await.expect("start a cluster");
    let apply = [apply, &["-f", CRDS]].concat();
    let first = cluster.kubectl(&apply).expect("apply");
    assert_eq!(first.lines().count(), 3, "{first}");
    wait_for_crds(&cluster.client().await.expect("connect as admin")).await;
    // A second apply is an update and changes nothing.
    let generations = || {
        cluster
            .kubectl(&["get", "crd", "-o", "jsonpath={..metadata.generation}"])
            .expect("get")
    };
    let before = generations();
    cluster.kubectl(&apply).expect("apply again");
    assert_eq!(generations(), before);
    let conditions = cluster
        .kubectl(&["get", "crd", "-o", "jsonpath={..status.conditions[*].type}"])
        .expect("get");
    assert!(!conditions.contains("NonStructuralSchema"), "{conditions}");
}

#[rstest]
#[case::auto_stop("fireng.spec.autoStop", &["activeReplicas", "<integer> -required-", "idleTimeout", "30m"])]
#[case::engine("fireng", &["A FireboltEngine is a set of compute nodes that serve queries."])]
#[case::id("fire.spec.id", &["Immutable once set."])]
#[case::rollout("fireng.spec.rollout", &["`graceful` waits for its running queries to finish", "or to `graceful`"])]
#[case::wake_timeout("fire.spec.gateway.wakeTimeout", &["query for a stopped engine is held", "at most `1h`"])]
#[case::phase("fireng.status.phase", &["Current phase of the engine."])]
#[case::class("firengc.spec.template", &["Template for the pods of every engine that references this class"])]
#[case::pod_field("fireng.spec.template.spec.tolerations", &["FIELDS", "tolerationSeconds"])]
#[tokio::test]
async fn explains_every_field(#[case] path: &str, #[case] expected: &[&str]) {
    // The line breaks of kubectl do not matter.
    let text = kube()
        .await
        .kubectl(&["explain", path])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn scale_changes_the_replicas() {
    let kube = kube().await;
    let engine = kube.create(&engine().without("spec.replicas")).await;
    kube.kubectl(&["scale", "fireng", name(&engine), "--current-replicas=1", "--replicas=4"]);
    let replicas = kube.kubectl(&["get", "fireng", name(&engine), "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(replicas, "4");
}

#[tokio::test]
async fn the_scale_subresource_shows_pods_and_selector() {
    let kube = kube().await;
    let engine = kube.create(&engine()).await;
    let status = counters(json!({ "replicas": 1, "selector": "firebolt.io/engine=e" }));
    kube.try_status("fireng", name(&engine), &status).expect("accept");
    let scale = kube.kubectl(&["get", "fireng", name(&engine), "--subresource=scale", "-o", "json"]);
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(
        scale["status"],
        json!({ "replicas": 1, "selector": "firebolt.io/engine=e" })
    );
}

#[rstest]
#[case::instance("fire", &["NAME", "PHASE", "GATEWAY", "METADATA", "AGE"], &["REASON", "MESSAGE"])]
#[case::engine("fireng", &["NAME", "REPLICAS", "PHASE", "READY", "GENERATION", "AGE"], &["INSTANCE", "CLASS", "READY-PODS", "REASON", "MESSAGE"])]
#[case::class("firengc", &["NAME", "BOUND", "READY", "AGE"], &["REASON", "MESSAGE"])]
#[tokio::test]
async fn get_prints_columns(#[case] kind: &str, #[case] narrow: &[&str], #[case] wide: &[&str]) {
    let kube = kube().await;
    kube.create(&example(kind)).await;
    let columns = |output: &str| {
        output
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(&kube.kubectl(&["get", kind])), narrow);
    let mut all = narrow.to_vec();
    all.splice(all.len() - 1..all.len() - 1, wide.iter().copied());
    assert_eq!(columns(&kube.kubectl(&["get", kind, "-o", "wide"])), all);
}

#[tokio::test]
async fn one_category_lists_everything() {
    let kube = kube().await;
    for manifest in [instance(), engine(), engine_class()] {
        kube.create(&manifest).await;
    }
    let names = kube.kubectl(&["get", "firebolt", "-o", "name"]);
    for kind in [
        "fireboltinstance.compute",
        "fireboltengine.compute",
        "fireboltengineclass.compute",
    ] {
        assert!(names.contains(kind), "{kind} is not in:\n{names}");
    }
}

/// A condition has one entry per type, regardless of its writer.
#[rstest]
#[case("fire")]
#[case("fireng")]
#[case("firengc")]
#[tokio::test]
async fn conditions_are_merged_by_type(#[case] kind: &str) {
    let kube = kube().await;
    let object = kube.create(&example(kind)).await;
    let mut status = counters(conditions("Ready", "True", "Tested"));
    kube.try_status(kind, name(&object), &status).expect("accept one");
    let again = status["conditions"][0].clone();
    status["conditions"].as_array_mut().expect("a list").push(again);
    let refusal = kube.try_status(kind, name(&object), &status).expect_err("refuse two");
    assert_message(&refusal, "status.conditions[1]", "Duplicate value");
}

/// Only the operator writes the status, but its schema still restricts the values.
#[rstest]
#[case::counters("fireng", json!({ "phase": "stable" }), "status.currentGeneration", "Required value")]
#[case::active_counter("fireng", json!({ "currentGeneration": 1 }), "status.activeGeneration", "Required value")]
#[case::engine_phase("fireng", counters(json!({ "phase": "asleep" })), "status.phase", r#"supported values: "stable""#)]
#[case::auto_stop_reason("fireng", counters(json!({ "autoStopReason": "Bored" })), "status.autoStopReason", r#"supported values: "Disabled""#)]
#[case::time("fireng", counters(json!({ "lastScaledAt": "yesterday" })), "status.lastScaledAt", "must be of type date-time")]
#[case::instance_phase("fire", json!({ "phase": "Asleep" }), "status.phase", r#"supported values: "Provisioning""#)]
#[case::condition_status(
    "firengc",
    conditions("Ready", "Yes", "Fine"),
    "status.conditions[0].status",
    r#"supported values: "True", "False", "Unknown""#
)]
#[case::condition_reason(
    "firengc",
    conditions("Ready", "True", "all fine"),
    "status.conditions[0].reason",
    "should match"
)]
#[case::condition_type(
    "firengc",
    conditions("/Ready", "True", "Fine"),
    "status.conditions[0].type",
    "should match"
)]
#[tokio::test]
async fn rejects_an_invalid_status(
    #[case] kind: &str,
    #[case] status: Value,
    #[case] field: &str,
    #[case] message: &str,
) {
    let kube = kube().await;
    let object = kube.create(&example(kind)).await;
    let refusal = kube.try_status(kind, name(&object), &status).expect_err("refuse");
    assert_message(&refusal, field, message);
}

fn counters(mut status: Value) -> Value {
    status["currentGeneration"] = json!(0);
    status["activeGeneration"] = json!(0);
    status
}

fn conditions(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "conditions": [{
        "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] })
}
