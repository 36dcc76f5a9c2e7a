//! Requests that the policy denies to the service account of a gateway, whatever its permissions.

use std::path::Path;

use firebolt_api::key::Annotation;
use serde_json::json;

use crate::shipped_manifests::policy_allowed::wake;
use crate::shipped_manifests::testenv::{ACCOUNT, BARE, FOREIGN, FULL, PolicyEnv};
use crate::support::namespace;

/// Merge patches of an engine, and the error of each.
const PATCHES: [(&str, &str, &str); 17] = [
    (BARE, r#"{"spec":{"replicas":0}}"#, SPEC),
    (BARE, r#"{"spec":{"engineClassRef":"large"}}"#, SPEC),
    (
        BARE,
        r#"{"spec":{"replicas":0},"metadata":{"annotations":{"firebolt.io/wake-requested":"2026-01-01T00:00:00Z"}}}"#,
        SPEC,
    ),
    (BARE, r#"{"metadata":{"labels":{"team":"sales"}}}"#, LABELS),
    (FULL, r#"{"metadata":{"labels":{"team":"support"}}}"#, LABELS),
    (FULL, r#"{"metadata":{"labels":{"team":null}}}"#, LABELS),
    (BARE, r#"{"metadata":{"annotations":{"note":"new"}}}"#, ANNOTATIONS),
    (FULL, r#"{"metadata":{"annotations":{"note":"other"}}}"#, ANNOTATIONS),
    (FULL, r#"{"metadata":{"annotations":{"note":null}}}"#, ANNOTATIONS),
    (FULL, r#"{"metadata":{"annotations":null}}"#, ANNOTATIONS),
    (
        FULL,
        r#"{"metadata":{"annotations":{"note":null,"firebolt.io/wake-requested":"2026-01-01T00:00:00Z"}}}"#,
        ANNOTATIONS,
    ),
    (BARE, r#"{"metadata":{"finalizers":["example.com/hold"]}}"#, FINALIZERS),
    (FULL, r#"{"metadata":{"finalizers":null}}"#, FINALIZERS),
    (
        BARE,
        r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"b"}]}}"#,
        OWNERS,
    ),
    (BARE, r#"{"metadata":{"generateName":"bare-"}}"#, METADATA),
    (
        FOREIGN,
        r#"{"metadata":{"annotations":{"firebolt.io/wake-requested":"2026-01-01T00:00:00Z"}}}"#,
        INSTANCE,
    ),
    (FOREIGN, r#"{"spec":{"replicas":0}}"#, INSTANCE),
];

const ANOTHER: &str = r#"{"apiVersion":"compute.firebolt.io/v1alpha1","kind":"FireboltEngine",
    "metadata":{"name":"another"},"spec":{"instanceRef":"main","replicas":1}}"#;
const LARGER: &str = r#"{"apiVersion":"compute.firebolt.io/v1alpha1","kind":"FireboltEngine",
    "metadata":{"name":"bare"},"spec":{"instanceRef":"main","replicas":9}}"#;

/// Other attempts: arguments and input of kubectl, and the error of each.
const COMMANDS: [(&str, &str, &str); 9] = [
    (
        "create --filename=-",
        ANOTHER,
        "A gateway may not create fireboltengines.",
    ),
    (
        "apply --server-side --filename=-",
        ANOTHER,
        "A gateway may not create fireboltengines.",
    ),
    ("apply --server-side --force-conflicts --filename=-", LARGER, SPEC),
    ("replace --filename=-", LARGER, SPEC),
    (
        "delete fireboltengine bare --wait=false",
        "",
        "A gateway may not delete fireboltengines.",
    ),
    (
        "delete fireboltengines --all --wait=false",
        "",
        "A gateway may not delete fireboltengines.",
    ),
    (
        "scale fireboltengine bare --replicas=0",
        "",
        "A gateway may not update fireboltengines/scale.",
    ),
    (
        r#"patch fireboltengine bare --subresource=scale --type=merge --patch={"spec":{"replicas":0}}"#,
        "",
        "A gateway may not update fireboltengines/scale.",
    ),
    (
        r#"patch fireboltengine bare --subresource=status --type=merge --patch={"status":{"activeGeneration":7,"currentGeneration":7}}"#,
        "",
        "A gateway may not update fireboltengines/status.",
    ),
];

const INSTANCE: &str = "This engine belongs to the instance main-gateway in the namespace";
const SPEC: &str = "A gateway may not change the spec of an engine";
const LABELS: &str = "A gateway may not add, change or remove labels of an engine";
const ANNOTATIONS: &str = "A gateway may not add, change or remove annotations of an engine other than";
const WAKE: &str = "A gateway may not remove the annotation firebolt.io/wake-requested";
const FINALIZERS: &str = "A gateway may not add or remove finalizers of an engine";
const OWNERS: &str = "A gateway may not add, change or remove owner references of an engine";
const METADATA: &str = "A gateway may not change the metadata of an engine";
/// Every refusal says what is allowed.
const REMEDY: &str = "firebolt.io/wake-requested";

impl PolicyEnv {
    /// Has a user try, and checks that the policy refuses it with this message and nothing has changed.
    fn assert_refused(&self, kubeconfig: &Path, attempt: &[&str], input: &str, message: &str) {
        let engines = || self.as_admin(&["get", "fireboltengines", "--output=json"], "").unwrap();
        let before = engines();
        let error = self.kubectl(kubeconfig, attempt, input).expect_err(message);
        let policy = format!("ValidatingAdmissionPolicy '{}'", self.namespace);
        for part in ["(Forbidden)", &policy, message, REMEDY] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(before, engines());
    }
}

#[tokio::test]
async fn a_gateway_changes_nothing_but_the_wake_annotation() {
    let env = PolicyEnv::start().await;
    for (engine, patch, message) in PATCHES {
        let attempt = ["patch", "fireboltengine", engine, "--type=merge", "--patch", patch];
        env.assert_refused(&env.gateway, &attempt, "", message);
    }
}

#[tokio::test]
async fn a_gateway_with_every_permission_is_still_denied_other_commands() {
    let env = PolicyEnv::start().await;
    let itself = format!("--serviceaccount={}:{ACCOUNT}", env.namespace);
    env.grant_everything(&[(&env.gateway, &itself)]);
    for (attempt, input, message) in COMMANDS {
        let attempt: Vec<&str> = attempt.split(' ').collect();
        env.assert_refused(&env.gateway, &attempt, input, message);
    }
}

#[tokio::test]
async fn a_gateway_cannot_remove_a_wake_request() {
    let env = PolicyEnv::start().await;
    let withdrawn = json!({ "metadata": { "annotations": { Annotation::WakeRequested.key(): null } } }).to_string();
    for engine in [FULL, BARE] {
        env.patch(&env.gateway, engine, &wake("2026-01-01T00:00:00Z")).unwrap();
        let attempt = ["patch", "fireboltengine", engine, "--type=merge", "--patch", &withdrawn];
        env.assert_refused(&env.gateway, &attempt, "", WAKE);
    }
}

/// RBAC rejects it, and the admission policy does if it is granted permission.
#[tokio::test]
async fn a_gateway_of_another_namespace_cannot_wake_an_engine() {
    let env = PolicyEnv::start().await;
    let elsewhere = namespace(&env.cluster).await;
    let other_gateway = env.account(&elsewhere, ACCOUNT).await;
    let patch = wake("2026-01-01T00:00:00Z");
    let error = env.patch(&other_gateway, BARE, &patch).unwrap_err();
    assert!(
        error.contains(&format!("User \"system:serviceaccount:{elsewhere}:{ACCOUNT}\" cannot")),
        "{error}"
    );

    env.grant_everything(&[(&other_gateway, &format!("--serviceaccount={elsewhere}:{ACCOUNT}"))]);
    let attempt = [
        "patch",
        "fireboltengine",
        BARE,
        "--type=merge",
        "--patch",
        &patch.to_string(),
    ];
    let message = format!(
        "This engine belongs to the instance main in the namespace {}.",
        env.namespace
    );
    env.assert_refused(&other_gateway, &attempt, "", &message);
    env.as_admin(&["delete", "namespace", &elsewhere, "--wait=false"], "")
        .unwrap();
}
