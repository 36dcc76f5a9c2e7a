//! Causes that only Kubernetes can report are returned for the field that the user wrote.

use serde_json::{Value, json};

use crate::admission::client::{ApiResult, FireboltKind, Refusal, eventually};
use crate::admission::manifests::{
    CLASS, ENGINE, INSTANCE, class_with, engine_of, engine_with, instance_with, new_template,
};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::validation::assert_refused;

const DRY_RUNS: &str = "firebolt_operator_webhook_dry_runs_total";
/// How often a request is repeated: on a busy machine a dry run may time out, and the webhook then accepts the object.
const ASKED_AGAIN: usize = 5;

/// The rejection of an object in which only the dry run of the webhook finds a mistake. The request is a dry run too: it is
/// repeated if that of the webhook has no result, and must not have stored the object.
async fn rejection(env: &AdmissionEnv, request: impl AsyncFn() -> ApiResult) -> Refusal {
    for _ in 0..=ASKED_AGAIN {
        let before = unknown_dry_runs(env);
        match request().await {
            Err(refusal) => return refusal,
            Ok(accepted) => assert!(unknown_dry_runs(env) > before, "it is accepted: {accepted}"),
        }
    }
    panic!("no dry run of the webhook has a result");
}

/// How many dry runs of the webhook had no result.
fn unknown_dry_runs(env: &AdmissionEnv) -> f64 {
    env.operator().metric_over(DRY_RUNS, &[r#"outcome="unknown""#])
}

/// Templates that pass our rules, with the field that Kubernetes rejects and a part of its message.
fn faults(container: &str) -> [(Value, String, &'static str); 3] {
    let excess = json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "1" } });
    [
        (
            json!({ "spec": { "containers": [{ "name": "side" }] } }),
            "template.spec.containers[side]".to_owned(),
            "image is required",
        ),
        (
            json!({ "spec": { "containers": [{ "name": container, "resources": excess }] } }),
            format!("template.spec.containers[{container}].resources.requests"),
            "must be less than or equal to cpu limit",
        ),
        (
            json!({ "metadata": { "labels": { "team": "not a label" } } }),
            "template.metadata.labels".to_owned(),
            "a valid label",
        ),
    ]
}

#[track_caller]
fn assert_refused_with(refusal: &Refusal, path: &str, text: &str) {
    assert_eq!(refusal.fields(), [path], "{refusal:?}");
    assert!(refusal.message.contains(text), "{text} in {refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fields_of_engines_and_classes_are_named() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    env.has(&[engine_with("stored", &json!({})), class_with("stored", &json!({}))])
        .await;
    for (template, path, text) in faults("engine") {
        let path = format!("spec.{path}");
        let edit = new_template(&template);
        for new in [engine_with(ENGINE, &template), class_with(CLASS, &template)] {
            let refusal = rejection(&env, async || env.dry_run(&new).await).await;
            assert_refused_with(&refusal, &path, text);
        }
        for kind in [FireboltKind::Engine, FireboltKind::Class] {
            let refusal = rejection(&env, async || env.dry_run_edit(kind, "stored", &edit).await).await;
            assert_refused_with(&refusal, &path, text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fields_of_instances_are_named() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    for (component, container) in [("gateway", "envoy"), ("metadata", "metadata")] {
        for (template, path, text) in faults(container) {
            let path = format!("spec.{component}.{path}");
            let edit = json!({ "spec": { component: { "template": template } } });
            let new = instance_with("another", component, &template);
            let refusal = rejection(&env, async || env.dry_run(&new).await).await;
            assert_refused_with(&refusal, &path, text);
            let edited = async || env.dry_run_edit(FireboltKind::Instance, INSTANCE, &edit).await;
            assert_refused_with(&rejection(&env, edited).await, &path, text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_fields_that_an_engine_inherits_are_reported_with_the_name_of_the_class() {
    let mut env = AdmissionEnv::bare().await;
    env.has_instance().await;
    for (index, (template, ..)) in faults("engine").iter().enumerate() {
        env.has(&[class_with(&format!("bad-{index}"), template)]).await;
    }
    env.admit_with(&[]).await;
    for (index, (_, path, text)) in faults("engine").iter().enumerate() {
        let class = format!("bad-{index}");
        let engine = engine_of(ENGINE, &class);
        let refusal = rejection(&env, async || env.dry_run(&engine).await).await;
        assert_refused_with(&refusal, "spec.engineClassRef", text);
        let place = format!("In FireboltEngineClass {class}, spec.{path}");
        assert!(refusal.message.contains(&place), "{place} in {refusal:?}");
    }
}

/// A template that mounts a volume which it does not have.
fn mounting() -> Value {
    let mounts = json!([{ "name": "cache", "mountPath": "/cache" }]);
    json!({ "spec": {
        "containers": [{ "name": "side", "image": "registry.example/side:1", "volumeMounts": mounts }],
    } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_mounted_comes_from_the_engine_or_its_class() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    let mount = "template.spec.containers[side].volumeMounts[0].name";
    let engine = engine_with(ENGINE, &mounting());
    let refusal = rejection(&env, async || env.dry_run(&engine).await).await;
    assert_refused(Err(refusal), &[&format!("spec.{mount}")]);
    for component in ["gateway", "metadata"] {
        let instance = instance_with("another", component, &mounting());
        let refusal = rejection(&env, async || env.dry_run(&instance).await).await;
        assert_refused_with(&refusal, &format!("spec.{component}.{mount}"), "Not found");
    }
    // A class may leave the volume to its engines.
    env.has(&[class_with(CLASS, &mounting())]).await;
    let engine = engine_of(ENGINE, CLASS);
    let refusal = rejection(&env, async || env.dry_run(&engine).await).await;
    assert_refused_with(
        &refusal,
        "spec.engineClassRef",
        &format!("FireboltEngineClass {CLASS}, at spec.{mount}"),
    );
    let mut bringing = engine_of(ENGINE, CLASS);
    bringing["spec"]["template"] = json!({ "spec": { "volumes": [{ "name": "cache", "emptyDir": {} }] } });
    env.has(&[bringing]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_denied_by_a_cluster_policy_does_not_reject_the_object() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    let name = &env.namespace;
    let policy = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
          "metadata": { "name": name }, "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["statefulsets"],
            }] },
            "validations": [{ "expression": "'team' in object.spec.template.metadata.labels" }],
        } },
        { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
          "metadata": { "name": name }, "spec": {
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
        } },
    ] });
    env.kubectl(&["apply", "-f", "-"], &policy.to_string()).unwrap();
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "any" }, "spec": {
        "selector": { "matchLabels": { "app": "any" } },
        "template": { "metadata": { "labels": { "app": "any" } }, "spec": { "containers": [{ "name": "a", "image": "a" }] } },
    } });
    let refuses = async || {
        let create = ["create", "--dry-run=server", "-n", name, "-f", "-"];
        let refusal = env.kubectl(&create, &set.to_string()).err()?;
        refusal.contains("ValidatingAdmissionPolicy").then_some(())
    };
    eventually("the policy holds", refuses).await;
    let plain = json!({ "spec": { "tolerations": [{ "key": "a", "operator": "Exists" }] } });
    env.create(&class_with(CLASS, &plain)).await.unwrap();
    env.create(&engine_with(ENGINE, &plain)).await.unwrap();
    assert!(unknown_dry_runs(&env) >= 2.0);
    let gone = [
        "delete",
        "validatingadmissionpolicy,validatingadmissionpolicybinding",
        name,
    ];
    env.kubectl(&gone, "").unwrap();
}
