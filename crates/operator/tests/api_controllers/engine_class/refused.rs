//! A template that sets what belongs to the operator, with no webhook to refuse it.

use firebolt_api::FireboltEngineClass;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::stage::{ALONE, CLASS, bound, status};
use crate::fixture::{class, engine};
use crate::proxy::{Fault, Proxy, writes};
use crate::scene::Scene;
use crate::support::Operator;

const PATH: &str = "spec.template.spec.containers[engine].command: Forbidden";

fn corrected() -> Value {
    json!({ "spec": { "template": { "spec": null } } })
}

fn spoiled() -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "engine", "command": ["sh"] }] } } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_class_says_so_and_its_engines_wait_until_it_is_corrected() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).bad().0).await;
    scene.create(&engine("a").class(CLASS).0).await;
    let said = scene.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    assert!(said.status == "False" && said.message.contains(PATH), "{said:?}");
    scene.wait_for_bound(CLASS, 1).await;
    let told = scene.wait_for_told_of_class(CLASS, "OperatorOwnedFieldSet").await;
    assert_eq!((told.severity.as_str(), told.message), ("Warning", said.message));
    let engine_says = scene.wait_for_reason("a", "FireboltEngineClassUnready").await;
    assert!(engine_says.message.contains(PATH), "{engine_says:?}");
    assert_eq!(
        scene.list::<StatefulSet>().await.len(),
        0,
        "nothing is rendered from it"
    );

    scene.edit::<FireboltEngineClass>(CLASS, corrected()).await;
    assert_eq!(scene.wait_for_class_reason(CLASS, "Admissible").await.status, "True");
    assert_eq!(
        scene.wait_for_told_of_class(CLASS, "Admissible").await.severity,
        "Normal"
    );
    scene.wait_for_reason("a", "EngineReady").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_spoiled_stops_no_engine_that_serves() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).0).await;
    scene.deploy(&engine("a").class(CLASS)).await;
    let serving = scene.the::<StatefulSet>("a-g0").await.uid();
    scene.edit::<FireboltEngineClass>(CLASS, spoiled()).await;
    scene.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    scene.wait_for_reason("a", "FireboltEngineClassUnready").await;
    scene.edit::<FireboltEngineClass>(CLASS, corrected()).await;
    scene.wait_for_class_reason(CLASS, "Admissible").await;
    scene.wait_for_reason("a", "EngineReady").await;
    assert_eq!(scene.generations("a").await, [0]);
    assert_eq!(scene.the::<StatefulSet>("a-g0").await.uid(), serving);
}

/// A bad template is no reason not to let it go.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_class_that_is_being_deleted_is_not_judged() {
    let scene = Scene::begin().await;
    scene.create(&class(CLASS).bad().0).await;
    scene.create(&bound("a").0).await;
    scene.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    scene.wait_for_bound(CLASS, 1).await;
    scene.delete::<FireboltEngineClass>(CLASS).await;
    scene.wait_for_class_reason(CLASS, "DeletionBlocked").await;
    scene
        .edit_engine("a", json!({ "spec": { "engineClassRef": null } }))
        .await;
    scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// As a policy does that judges whatever is written, also if it was stored before there was a policy.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_nothing_may_be_written_to_has_a_status_all_the_same() {
    let scene = Scene::without_operator().await;
    let proxy = Proxy::start(&scene.cluster, scene.kubeconfig());
    let refused = Fault::Answer {
        code: 403,
        retry_after: None,
    };
    let rule = proxy.on(writes().of("fireboltengineclasses").saying(r#""finalizers""#), refused);
    let flags = [ALONE, "--namespaces", &scene.namespace];
    let _operator = Operator::start(&scene.cluster, &proxy.kubeconfig(), &flags);
    scene.create(&class(CLASS).bad().0).await;
    scene.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    scene.wait_for_told_of_class(CLASS, "OperatorOwnedFieldSet").await;
    let found: FireboltEngineClass = scene.the(CLASS).await;
    assert!(found.finalizers().is_empty() && rule.struck() > 0);
    rule.remove();
    let held = |class: &FireboltEngineClass| !class.finalizers().is_empty();
    let after = scene.wait_for_class(CLASS, "is held", held).await;
    assert_eq!(status(&after), status(&found));
}
