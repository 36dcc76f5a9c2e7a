//! The manifests: the API server accepts them unchanged, and they match what the operator serves.

use firebolt_api::key::Annotation;
use localkube::Cluster;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::wait::{SOON, eventually};

use crate::shipped_manifests::files::{OPERATOR, POLICY, WEBHOOKS, documents};
use crate::shipped_manifests::testenv::PolicyEnv;
use crate::support::prepare;

/// Without storing them: webhooks without a server would break every other test.
#[rstest]
#[case::policy(POLICY)]
#[case::webhooks(WEBHOOKS)]
#[case::operator(OPERATOR)]
#[tokio::test]
async fn the_api_server_accepts_the_manifests(#[case] manifest: &str) {
    let cluster = Cluster::attach();
    // For the namespace.
    prepare(&cluster).await;
    let dry_run = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "-f",
        "-",
    ];
    cluster.kubectl_with_input(&dry_run, manifest).unwrap();
}

/// The complaints of Kubernetes about the expressions of a stored policy, as soon as it has checked them.
fn warnings(env: &PolicyEnv, policy: &str) -> Value {
    let mut warnings = Value::Null;
    eventually("the expressions are checked", SOON, || {
        let policy = env.get("validatingadmissionpolicy", policy);
        let status = &policy["status"];
        warnings = status["typeChecking"]["expressionWarnings"].clone();
        status["typeChecking"].is_object() && status["observedGeneration"] == policy["metadata"]["generation"]
    });
    warnings
}

#[tokio::test]
async fn the_expressions_of_the_policy_match_the_schema_of_engines() {
    let env = PolicyEnv::start().await;
    assert_eq!(warnings(&env, &env.namespace), Value::Null);
    let misspelt =
        json!([{ "op": "add", "path": "/spec/validations/-", "value": { "expression": "object.spec.replica == 1" } }]);
    let patch = format!("--patch={misspelt}");
    let edit = [
        "patch",
        "validatingadmissionpolicy",
        &env.namespace,
        "--type=json",
        &patch,
    ];
    env.as_admin(&edit, "").unwrap();
    let complaint = warnings(&env, &env.namespace).to_string();
    assert!(complaint.contains("undefined field 'replica'"), "{complaint}");
}

/// Name, path, operations, resources and failure policy of each webhook.
const VALIDATING: [[&str; 5]; 3] = [
    [
        "vfireboltengine.compute.firebolt.io",
        "/validate-compute-firebolt-io-v1alpha1-fireboltengine",
        "CREATE UPDATE",
        "fireboltengines",
        "Fail",
    ],
    [
        "vfireboltengineclass.compute.firebolt.io",
        "/validate-compute-firebolt-io-v1alpha1-fireboltengineclass",
        "CREATE UPDATE DELETE",
        "fireboltengineclasses",
        "Fail",
    ],
    [
        "vfireboltinstance.compute.firebolt.io",
        "/validate-compute-firebolt-io-v1alpha1-fireboltinstance",
        "CREATE UPDATE DELETE",
        "fireboltinstances",
        "Fail",
    ],
];
const MUTATING: [[&str; 5]; 1] = [[
    "mfireboltinstance.compute.firebolt.io",
    "/mutate-compute-firebolt-io-v1alpha1-fireboltinstance",
    "CREATE",
    "fireboltinstances",
    "Ignore",
]];

/// The whole of a webhook that differs from others in these five.
fn webhook([name, path, operations, resources, failure_policy]: [&str; 5]) -> Value {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    json!({
        "name": name,
        "clientConfig": { "service": {
            "name": "firebolt-operator-webhook", "namespace": "firebolt-system", "path": path, "port": 443,
        } },
        "rules": [{
            "apiGroups": ["compute.firebolt.io"], "apiVersions": ["v1alpha1"], "operations": words(operations),
            "resources": words(resources), "scope": "Namespaced",
        }],
        "failurePolicy": failure_policy, "matchPolicy": "Equivalent", "sideEffects": "None",
        "timeoutSeconds": 10, "admissionReviewVersions": ["v1"],
    })
}

/// The same for a validating webhook: not called for what has to go on while no replica answers.
fn with_match_conditions(columns: [&str; 5]) -> Value {
    let mut with_match_conditions = webhook(columns);
    let operator = "system:serviceaccount:firebolt-system:firebolt-operator";
    with_match_conditions["matchConditions"] = json!([
        { "name": "not-the-operator", "expression": format!("request.userInfo.username != '{operator}'") },
        {
            "name": "not-being-deleted",
            "expression": "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)",
        },
        {
            "name": "specification-changed",
            "expression": "request.operation != 'UPDATE' || object.spec != oldObject.spec",
        },
    ]);
    with_match_conditions
}

/// The same for one that fills in an id: called only for objects without one, and with a short timeout.
fn identifying(columns: [&str; 5]) -> Value {
    let mut identifying = webhook(columns);
    identifying["matchConditions"] =
        json!([{ "name": "has-no-id", "expression": "object.spec.?id.orValue('') == ''" }]);
    identifying["timeoutSeconds"] = json!(5);
    identifying
}

#[test]
fn the_webhook_manifest_contains_exactly_the_expected_webhooks() {
    let [service, validating, mutating] = documents(WEBHOOKS);
    assert_eq!(validating["kind"], "ValidatingWebhookConfiguration");
    assert_eq!(validating["webhooks"], json!(VALIDATING.map(with_match_conditions)));
    assert_eq!(mutating["kind"], "MutatingWebhookConfiguration");
    assert_eq!(mutating["webhooks"], json!(MUTATING.map(identifying)));
    for configuration in [&validating, &mutating] {
        assert_eq!(configuration["metadata"], json!({ "name": "firebolt-operator" }));
    }
    let metadata = json!({ "name": "firebolt-operator-webhook", "namespace": "firebolt-system" });
    assert_eq!((&service["kind"], &service["metadata"]), (&json!("Service"), &metadata));
    let selector = json!({ "app.kubernetes.io/name": "firebolt-operator" });
    let ports = json!([{ "name": "webhook", "port": 443, "targetPort": 9443 }]);
    assert_eq!(service["spec"], json!({ "selector": selector, "ports": ports }));
}

/// The file cannot take the key from where the code has it.
#[test]
fn the_policy_and_the_operator_use_the_same_wake_annotation() {
    let [policy, _] = documents(POLICY);
    let validations = policy["spec"]["validations"].as_array().unwrap();
    for validation in validations {
        let message = validation["message"].as_str().unwrap();
        assert!(message.contains(Annotation::WakeRequested.key()), "{message}");
    }
}
