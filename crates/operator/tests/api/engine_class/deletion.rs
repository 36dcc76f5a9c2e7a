//! A class is deleted only once no engine refers to it.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;
use serde_json::json;

use super::testenv::{ALONE, CLASS, bound, ready, status};
use crate::fault_proxy::{Disturbance, Proxy};
use crate::fixtures::{class, engine};
use crate::support::Operator;
use crate::testenv::TestEnv;

const MANUAL: &str = include_str!("../../../../../docs/operations/classes.md");

impl TestEnv {
    /// Deletes the class and waits until it says that it is held up.
    async fn delete_bound(&self, class: &str) -> String {
        self.delete::<FireboltEngineClass>(class).await;
        let observed = self.wait_for_class_reason(class, "DeletionBlocked").await;
        assert_eq!(observed.status, "False");
        observed.message
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreferenced_class_is_deleted() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.create(&engine("other").replicas(0).class("d").0).await;
    env.wait_for_bound(CLASS, 0).await;
    env.delete::<FireboltEngineClass>(CLASS).await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    // Its successor starts anew.
    env.create(&class(CLASS).0).await;
    env.wait_for_class_reason(CLASS, "Admissible").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_is_kept_while_engines_reference_it_and_its_status_names_them() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    for name in ["a", "b"] {
        env.create(&bound(name).0).await;
    }
    env.wait_for_bound(CLASS, 2).await;
    let message = env.delete_bound(CLASS).await;
    let named = format!(
        "Class {CLASS} in namespace {} cannot be deleted while engines reference it. It is referenced by 2 \
         engines (a, b).",
        env.namespace
    );
    assert!(message.starts_with(&named), "{message}");
    let reported = env.wait_for_class_event(CLASS, "DeletionBlocked").await;
    assert_eq!((reported.severity.as_str(), reported.message), ("Warning", message));

    env.edit_engine("a", json!({ "spec": { "engineClassRef": null } }))
        .await;
    let after = env.wait_for_class_message(CLASS, "is referenced by engine b").await;
    assert_eq!(status(&after).bound_engines, 1);
    assert_eq!(ready(&after).unwrap().reason, "DeletionBlocked");
    env.delete::<FireboltEngine>("b").await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// An engine can use a class to its end: what it needs to be cleared away is there.
#[tokio::test(flavor = "multi_thread")]
async fn engines_work_with_a_class_that_is_being_deleted() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).pod_label("team", "one").0).await;
    env.deploy(&engine("a").class(CLASS)).await;
    env.delete_bound(CLASS).await;
    env.edit_engine("a", json!({ "spec": { "uiSidecar": true } })).await;
    env.wait_for_generation("a", 1).await;
    env.wait_for_reason("a", "EngineReady").await;
    env.delete::<FireboltEngine>("a").await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_created_after_the_deletion_began_counts_too() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.create(&bound("early").0).await;
    env.wait_for_bound(CLASS, 1).await;
    env.delete_bound(CLASS).await;
    env.create(&bound("late").0).await;
    env.wait_for_class_message(CLASS, "2 engines (early, late)").await;
    env.delete::<FireboltEngine>("early").await;
    env.wait_for_class_message(CLASS, "engine late").await;
    env.delete::<FireboltEngine>("late").await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// Engines that the watches have not delivered yet count: a live list decides.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_not_in_the_cache_yet_keeps_its_class() {
    let env = TestEnv::without_operator().await;
    let proxy = Proxy::start(&env.cluster, env.kubeconfig());
    let flags = [ALONE, "--namespaces", &env.namespace];
    let _operator = Operator::start(&env.cluster, &proxy.kubeconfig(), &flags);
    env.create(&class(CLASS).0).await;
    env.wait_for_bound(CLASS, 0).await;
    // The list of engines is enough to reconcile the class; their watch begins after it.
    let silenced = async || (proxy.disturb("fireboltengines", Disturbance::Silence) == 1).then_some(());
    env.eventually("the watch of engines is silenced", silenced).await;
    env.create(&bound("unseen").0).await;
    let message = env.delete_bound(CLASS).await;
    assert!(message.contains("is referenced by engine unseen"), "{message}");
    assert_eq!(status(&env.the(CLASS).await).bound_engines, 1);
}

/// An operator that is restricted to some engines does not take a class away from the others.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_not_reconciled_keeps_its_class() {
    let env = TestEnv::start_with(&["--watch-label-selector=team=ours"]).await;
    let mut ours = class(CLASS).0;
    ours.labels_mut().insert("team".to_owned(), "ours".to_owned());
    env.create(&ours).await;
    env.wait_for_bound(CLASS, 0).await;
    env.create(&bound("theirs").0).await;
    let message = env.delete_bound(CLASS).await;
    assert!(message.contains("is referenced by engine theirs"), "{message}");
    env.delete::<FireboltEngine>("theirs").await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// The references of an engine that cannot be read are unknown.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_be_read_keeps_the_class_until_it_is_gone() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.wait_for_bound(CLASS, 0).await;
    let levels = 200;
    let deep = format!("{}{{}}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let odd = format!(
        r#"{{"apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltEngine", "metadata": {{"name": "odd"}},
            "spec": {{"instanceRef": "i", "replicas": 0, "customEngineConfig": {deep}}}}}"#
    );
    let create = ["create", "-n", &env.namespace, "-f", "-"];
    env.cluster.kubectl_with_input(&create, &odd).unwrap();
    env.operator().wait_for_log("odd cannot be parsed");
    let message = env.delete_bound(CLASS).await;
    assert!(
        message.contains("may be referenced by engine odd, which cannot be parsed"),
        "{message}"
    );
    assert_eq!(status(&env.the(CLASS).await).bound_engines, 0);
    env.wait_until_no_class_reconcile_is_scheduled().await;
    env.kubectl(&["delete", "fireng", "odd"]).unwrap();
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_being_deleted_gets_no_finalizer() {
    let mut env = TestEnv::without_operator().await;
    let mut held = class(CLASS).0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    env.create(&held).await;
    env.create(&bound("a").0).await;
    env.delete::<FireboltEngineClass>(CLASS).await;
    let before = env.mark();
    env.start_operator_with(&[ALONE]);
    env.wait_until_class_was_reconciled(CLASS).await;
    env.wait_until_no_class_reconcile_is_scheduled().await;
    let writes = before.writes(&env.namespace);
    let to_classes: Vec<_> = writes
        .iter()
        .filter(|write| write.resource.starts_with("fireboltengineclasses"))
        .collect();
    assert!(to_classes.is_empty(), "{to_classes:?}");
    assert_eq!(
        env.the::<FireboltEngineClass>(CLASS).await.finalizers(),
        ["example.com/hold"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_finalizer_on_a_class_is_reported() {
    let env = TestEnv::start().await;
    let mut held = class(CLASS).0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    env.create(&held).await;
    env.create(&bound("a").0).await;
    env.wait_for_bound(CLASS, 1).await;
    env.delete_bound(CLASS).await;
    env.delete::<FireboltEngine>("a").await;
    let left = env
        .wait_for_class_message(CLASS, "the finalizer example.com/hold")
        .await;
    assert_eq!(left.finalizers(), ["example.com/hold"]);
    assert_eq!(status(&left).bound_engines, 0);
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit::<FireboltEngineClass>(CLASS, release).await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_find_and_free_the_engines_of_a_class() {
    let env = TestEnv::start().await;
    env.create(&class("large").0).await;
    env.create(&engine("analytics").replicas(0).class("large").0).await;
    env.create(&engine("other").replicas(0).0).await;
    env.wait_for_bound("large", 1).await;
    env.delete_bound("large").await;
    let run = |command: &str| {
        let documented = MANUAL
            .lines()
            .find_map(|line| line.strip_prefix("    kubectl ")?.starts_with(command).then_some(line));
        let arguments = documented
            .expect("it is documented")
            .trim()
            .trim_start_matches("kubectl ");
        let kubectl = env.cluster.kubectl_command(&env.cluster.kubeconfig_admin()).unwrap();
        // The shell of a reader of the documentation removes the quotes.
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-ec", &format!("\"$0\" \"$@\" {arguments}")])
            .arg(kubectl.get_program())
            .args(kubectl.get_args())
            .args(["-n", &env.namespace]);
        for (name, value) in kubectl.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        let output = shell.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{arguments}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    };
    let listed = run("get fireng ");
    assert!(
        listed
            .lines()
            .any(|line| line.split_whitespace().eq(["analytics", "large"])),
        "{listed}"
    );
    run("patch fireng ");
    env.wait_until_gone::<FireboltEngineClass>("large").await;
}
