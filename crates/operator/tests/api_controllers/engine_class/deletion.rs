//! The end of a class: none goes that an engine refers to, and none stays that nobody needs.

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;
use serde_json::json;

use super::stage::{ALONE, CLASS, bound, ready, status};
use crate::fixture::{class, engine};
use crate::proxy::{Disturbance, Proxy};
use crate::scene::Scene;
use crate::support::Operator;

const MANUAL: &str = include_str!("../../../../../docs/operations/classes.md");

impl Scene {
    /// Deletes the class and waits until it says that it is held up.
    async fn delete_bound(&self, class: &str) -> String {
        self.delete::<FireboltEngineClass>(class).await;
        let said = self.wait_for_class_reason(class, "DeletionBlocked").await;
        assert_eq!(said.status, "False");
        said.message
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_nobody_needs_goes() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.create(&engine("other").replicas(0).class("d").0).await;
    scene.wait_for_bound(CLASS, 0).await;
    scene.delete::<FireboltEngineClass>(CLASS).await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    // Its successor starts anew.
    scene.create(&class(CLASS).0).await;
    scene.wait_for_class_reason(CLASS, "Admissible").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_stays_while_engines_refer_to_it_and_names_them() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    for name in ["a", "b"] {
        scene.create(&bound(name).0).await;
    }
    scene.wait_for_bound(CLASS, 2).await;
    let message = scene.delete_bound(CLASS).await;
    let named = format!(
        "Class {CLASS} in namespace {} is being deleted, but 2 engines (a, b) refer to it.",
        scene.namespace
    );
    assert!(message.starts_with(&named), "{message}");
    let told = scene.wait_for_told_of_class(CLASS, "DeletionBlocked").await;
    assert_eq!((told.severity.as_str(), told.message), ("Warning", message));

    scene
        .edit_engine("a", json!({ "spec": { "engineClassRef": null } }))
        .await;
    let after = scene.wait_for_class_message(CLASS, "engine b refers to it").await;
    assert_eq!(status(&after).bound_engines, 1);
    assert_eq!(ready(&after).unwrap().reason, "DeletionBlocked");
    scene.delete::<FireboltEngine>("b").await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// An engine can use a class to its end: what it needs to be cleared away is there.
#[tokio::test(flavor = "multi_thread")]
async fn engines_work_with_a_class_that_is_being_deleted() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).pod_label("team", "one").0).await;
    scene.deploy(&engine("a").class(CLASS)).await;
    scene.delete_bound(CLASS).await;
    scene.edit_engine("a", json!({ "spec": { "uiSidecar": true } })).await;
    scene.wait_for_generation("a", 1).await;
    scene.wait_for_reason("a", "EngineReady").await;
    scene.delete::<FireboltEngine>("a").await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_comes_after_the_deletion_was_asked_for_counts_too() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.create(&bound("early").0).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.delete_bound(CLASS).await;
    scene.create(&bound("late").0).await;
    scene.wait_for_class_message(CLASS, "2 engines (early, late)").await;
    scene.delete::<FireboltEngine>("early").await;
    scene.wait_for_class_message(CLASS, "engine late").await;
    scene.delete::<FireboltEngine>("late").await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// What the watches have not shown yet counts: the last word is that of a live list.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_the_watches_do_not_show_yet_keeps_its_class() {
    let scene = Scene::without_operator().await;
    let proxy = Proxy::start(&scene.cluster, scene.kubeconfig());
    let flags = [ALONE, "--namespaces", &scene.namespace];
    let _operator = Operator::start(&scene.cluster, &proxy.kubeconfig(), &flags);
    scene.create(&class(CLASS).0).await;
    scene.wait_for_bound(CLASS, 0).await;
    assert_eq!(proxy.disturb("fireboltengines", Disturbance::Silence), 1);
    scene.create(&bound("unseen").0).await;
    let message = scene.delete_bound(CLASS).await;
    assert!(message.contains("engine unseen refers to it"), "{message}");
    assert_eq!(status(&scene.the(CLASS).await).bound_engines, 1);
}

/// An operator that is told to look after some engines only does not take a class away from the others.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_not_looked_after_keeps_its_class() {
    let scene = Scene::begin_with(&["--watch-label-selector=team=ours"]).await;
    let mut ours = class(CLASS).0;
    ours.labels_mut().insert("team".to_owned(), "ours".to_owned());
    scene.create(&ours).await;
    scene.wait_for_bound(CLASS, 0).await;
    scene.create(&bound("theirs").0).await;
    let message = scene.delete_bound(CLASS).await;
    assert!(message.contains("engine theirs refers to it"), "{message}");
    scene.delete::<FireboltEngine>("theirs").await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// Nobody knows what an engine refers to that cannot be read.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_cannot_be_read_keeps_the_class_until_it_is_gone() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.wait_for_bound(CLASS, 0).await;
    let levels = 200;
    let deep = format!("{}{{}}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let odd = format!(
        r#"{{"apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltEngine", "metadata": {{"name": "odd"}},
            "spec": {{"instanceRef": "i", "replicas": 0, "customEngineConfig": {deep}}}}}"#
    );
    let create = ["create", "-n", &scene.namespace, "-f", "-"];
    scene.cluster.kubectl_with_input(&create, &odd).unwrap();
    scene.operator().wait_for_log("odd cannot be read");
    let message = scene.delete_bound(CLASS).await;
    assert!(message.contains("engine odd cannot be read"), "{message}");
    assert_eq!(status(&scene.the(CLASS).await).bound_engines, 0);
    scene.wait_until_no_class_is_planned().await;
    scene.kubectl(&["delete", "fireng", "odd"]).unwrap();
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_already_going_gets_no_finalizer() {
    let mut scene = Scene::without_operator().await;
    let mut held = class(CLASS).0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    scene.create(&held).await;
    scene.create(&bound("a").0).await;
    scene.delete::<FireboltEngineClass>(CLASS).await;
    let before = scene.mark();
    scene.start_operator_with(&[ALONE]);
    scene.wait_until_class_was_looked_at(CLASS).await;
    scene.wait_until_no_class_is_planned().await;
    let writes = before.writes(&scene.namespace);
    let to_classes: Vec<_> = writes
        .iter()
        .filter(|write| write.resource.starts_with("fireboltengineclasses"))
        .collect();
    assert!(to_classes.is_empty(), "{to_classes:?}");
    assert_eq!(
        scene.the::<FireboltEngineClass>(CLASS).await.finalizers(),
        ["example.com/hold"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_somebody_else_holds_says_so() {
    let scene = Scene::begin().await;
    let mut held = class(CLASS).0;
    held.finalizers_mut().push("example.com/hold".to_owned());
    scene.create(&held).await;
    scene.create(&bound("a").0).await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.delete_bound(CLASS).await;
    scene.delete::<FireboltEngine>("a").await;
    let left = scene
        .wait_for_class_message(CLASS, "the finalizer example.com/hold")
        .await;
    assert_eq!(left.finalizers(), ["example.com/hold"]);
    assert_eq!(status(&left).bound_engines, 0);
    let release = json!({ "metadata": { "finalizers": null } });
    scene.edit::<FireboltEngineClass>(CLASS, release).await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_find_and_free_the_engines_of_a_class() {
    let scene = Scene::begin().await;
    scene.create(&class("large").0).await;
    scene.create(&engine("analytics").replicas(0).class("large").0).await;
    scene.create(&engine("other").replicas(0).0).await;
    scene.wait_for_bound("large", 1).await;
    scene.delete_bound("large").await;
    let run = |command: &str| {
        let documented = MANUAL
            .lines()
            .find_map(|line| line.strip_prefix("    kubectl ")?.starts_with(command).then_some(line));
        let arguments = documented
            .expect("it is documented")
            .trim()
            .trim_start_matches("kubectl ");
        let kubectl = scene
            .cluster
            .kubectl_command(&scene.cluster.kubeconfig_admin())
            .unwrap();
        // The shell of whoever follows the manual takes the quotes off.
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-ec", &format!("\"$0\" \"$@\" {arguments}")])
            .arg(kubectl.get_program())
            .args(kubectl.get_args())
            .args(["-n", &scene.namespace]);
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
    scene.wait_until_gone::<FireboltEngineClass>("large").await;
}
