//! What users do with `kubectl`, with the `kubectl` they would use.

use localkube::{Cluster, Options};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Edit, Kube, engine, engine_class, instance, kube, wait_for_crds};

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");

impl Kube {
    /// Runs kubectl in the namespace of the tests.
    fn kubectl(&self, arguments: &[&str]) -> String {
        let arguments = [&["--namespace", self.namespace.as_str()], arguments].concat();
        self.cluster
            .kubectl(&arguments)
            .unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// A cluster of its own: the others have the CRDs already.
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
    // An update goes the same way, and changes nothing.
    let second = cluster.kubectl(&apply).expect("apply again");
    assert!(
        second
            .lines()
            .all(|line| line.ends_with("unchanged") || line.ends_with("serverside-applied")),
        "{second}"
    );
    let conditions = cluster
        .kubectl(&["get", "crd", "-o", "jsonpath={..status.conditions[*].type}"])
        .expect("get");
    assert!(!conditions.contains("NonStructuralSchema"), "{conditions}");
}

#[rstest]
#[case::auto_stop("fireng.spec.autoStop", &["activeReplicas", "<integer> -required-", "idleTimeout", "30m"])]
#[case::engine("fireng", &["A FireboltEngine is a set of compute nodes that serves queries."])]
#[case::id("fire.spec.id", &["Cannot be changed or removed once set."])]
#[case::class("firengc.spec.template", &["Settings for the pods of every engine of this class"])]
#[case::pod_field("fireng.spec.template.spec.tolerations", &["FIELDS", "tolerationSeconds"])]
#[tokio::test]
async fn explains_every_field(#[case] path: &str, #[case] expected: &[&str]) {
    // Where kubectl breaks its lines is of no interest.
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
async fn every_field_of_ours_is_explained() {
    fn undocumented(path: &str, schema: &Value, found: &mut Vec<String>) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property.get("description").is_none() {
                found.push(path.clone());
            }
            // Pod templates are explained by Kubernetes.
            if name != "template" {
                undocumented(&path, property, found);
                undocumented(&path, property.get("items").unwrap_or(&Value::Null), found);
            }
        }
    }
    let mut found = Vec::new();
    for crd in firebolt_api::crds() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        undocumented(
            &crd.spec.names.kind,
            &schema["openAPIV3Schema"]["properties"]["spec"],
            &mut found,
        );
        undocumented(
            &crd.spec.names.kind,
            &schema["openAPIV3Schema"]["properties"]["status"],
            &mut found,
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test]
async fn scale_changes_the_replicas() {
    let kube = kube().await;
    let engine = kube.create(&engine()).await;
    kube.kubectl(&["scale", "fireng", name(&engine), "--replicas=4"]);
    let replicas = kube.kubectl(&["get", "fireng", name(&engine), "-o", "jsonpath={.spec.replicas}"]);
    assert_eq!(replicas, "4");
}

#[tokio::test]
async fn the_scale_subresource_shows_pods_and_selector() {
    let kube = kube().await;
    let engine = kube.create(&engine()).await;
    let status = json!({ "status": {
        "currentGeneration": 0, "activeGeneration": 0, "replicas": 1, "selector": "firebolt.io/engine=e",
    } });
    let status = status.to_string();
    kube.kubectl(&[
        "patch",
        "fireng",
        name(&engine),
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ]);
    let scale = kube.kubectl(&["get", "fireng", name(&engine), "--subresource=scale", "-o", "json"]);
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(
        scale["status"],
        json!({ "replicas": 1, "selector": "firebolt.io/engine=e" })
    );
}

#[rstest]
#[case::instance("fire", &["NAME", "PHASE", "GATEWAY", "METADATA", "AGE"], &["REASON", "MESSAGE"])]
#[case::engine("fireng", &["NAME", "REPLICAS", "PHASE", "READY", "GENERATION", "AGE"], &["INSTANCE", "CLASS", "REASON", "MESSAGE"])]
#[case::class("firengc", &["NAME", "BOUND", "READY", "AGE"], &["REASON", "MESSAGE"])]
#[tokio::test]
async fn get_prints_columns(#[case] kind: &str, #[case] narrow: &[&str], #[case] wide: &[&str]) {
    let kube = kube().await;
    let manifest = match kind {
        "fire" => instance(),
        "fireng" => engine(),
        _ => engine_class(),
    };
    kube.create(&manifest).await;
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

/// A condition has one entry per type, whoever writes it.
#[tokio::test]
async fn conditions_are_kept_by_type() {
    let kube = kube().await;
    for (kind, manifest) in [("fire", instance()), ("fireng", engine()), ("firengc", engine_class())] {
        let object = kube.create(&manifest).await;
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "Tested", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let twice = json!({ "observedGeneration": 1, "currentGeneration": 0, "activeGeneration": 0, "conditions": [condition("Ready"), condition("Ready")] });
        let patch = json!({ "status": twice }).to_string();
        let arguments = [
            "-n",
            &kube.namespace,
            "patch",
            kind,
            name(&object),
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        let refusal = kube.cluster.kubectl(&arguments).expect_err("refuse").to_string();
        assert!(refusal.contains("status.conditions[1]: Duplicate value"), "{refusal}");
        let once = json!({ "status": twice.with("conditions", json!([condition("Ready")])) }).to_string();
        let arguments = [
            "patch",
            kind,
            name(&object),
            "--subresource=status",
            "--type=merge",
            "-p",
            &once,
        ];
        kube.kubectl(&arguments);
    }
}

#[tokio::test]
async fn an_engine_status_needs_its_counters() {
    let kube = kube().await;
    let object = kube.create(&engine()).await;
    let arguments = [
        "-n",
        &kube.namespace,
        "patch",
        "fireng",
        name(&object),
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"phase":"stable"}}"#,
    ];
    let refusal = kube.cluster.kubectl(&arguments).expect_err("refuse").to_string();
    for field in ["status.currentGeneration", "status.activeGeneration"] {
        assert!(refusal.contains(&format!("{field}: Required value")), "{refusal}");
    }
}
