//! A template that sets fields of the operator, without a webhook to reject it.

use firebolt_api::FireboltEngineClass;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::testenv::{ALONE, CLASS, bound, status};
use crate::fault_proxy::{Fault, Proxy, writes};
use crate::fixtures::{class, engine};
use crate::support::Operator;
use crate::testenv::TestEnv;

const PATH: &str = "spec.template.spec.containers[engine].command: Forbidden";

fn corrected() -> Value {
    json!({ "spec": { "template": { "spec": null } } })
}

fn invalid() -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "engine", "command": ["sh"] }] } } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_class_is_reported_and_its_engines_wait_until_it_is_corrected() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).bad().0).await;
    env.create(&engine("a").class(CLASS).0).await;
    let observed = env.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    assert!(
        observed.status == "False" && observed.message.contains(PATH),
        "{observed:?}"
    );
    env.wait_for_bound(CLASS, 1).await;
    let reported = env.wait_for_class_event(CLASS, "OperatorOwnedFieldSet").await;
    assert_eq!(
        (reported.severity.as_str(), reported.message),
        ("Warning", observed.message)
    );
    let of_engine = env.wait_for_reason("a", "FireboltEngineClassUnready").await;
    assert!(of_engine.message.contains(PATH), "{of_engine:?}");
    assert_eq!(env.list::<StatefulSet>().await.len(), 0, "nothing is rendered from it");

    env.edit::<FireboltEngineClass>(CLASS, corrected()).await;
    assert_eq!(env.wait_for_class_reason(CLASS, "Admissible").await.status, "True");
    assert_eq!(env.wait_for_class_event(CLASS, "Admissible").await.severity, "Normal");
    env.wait_for_reason("a", "EngineReady").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_class_does_not_affect_serving_engines() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).0).await;
    env.deploy(&engine("a").class(CLASS)).await;
    let serving = env.the::<StatefulSet>("a-g0").await.uid();
    env.edit::<FireboltEngineClass>(CLASS, invalid()).await;
    env.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    env.wait_for_reason("a", "FireboltEngineClassUnready").await;
    env.edit::<FireboltEngineClass>(CLASS, corrected()).await;
    env.wait_for_class_reason(CLASS, "Admissible").await;
    env.wait_for_reason("a", "EngineReady").await;
    assert_eq!(env.generations("a").await, [0]);
    assert_eq!(env.the::<StatefulSet>("a-g0").await.uid(), serving);
}

/// A bad template is no reason not to let it go.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_class_that_is_being_deleted_is_not_validated() {
    let env = TestEnv::start().await;
    env.create(&class(CLASS).bad().0).await;
    env.create(&bound("a").0).await;
    env.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    env.wait_for_bound(CLASS, 1).await;
    env.delete::<FireboltEngineClass>(CLASS).await;
    env.wait_for_class_reason(CLASS, "DeletionBlocked").await;
    env.edit_engine("a", json!({ "spec": { "engineClassRef": null } }))
        .await;
    env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
}

/// As an admission policy does that applies to every write, also to objects that were stored before it.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_class_is_reported_even_if_its_finalizer_is_rejected() {
    let env = TestEnv::without_operator().await;
    let proxy = Proxy::start(&env.cluster, env.kubeconfig());
    let refused = Fault::Answer {
        code: 403,
        retry_after: None,
    };
    let rule = proxy.on(writes().of("fireboltengineclasses").saying(r#""finalizers""#), refused);
    let flags = [ALONE, "--namespaces", &env.namespace];
    let _operator = Operator::start(&env.cluster, &proxy.kubeconfig(), &flags);
    env.create(&class(CLASS).bad().0).await;
    env.wait_for_class_reason(CLASS, "OperatorOwnedFieldSet").await;
    env.wait_for_class_event(CLASS, "OperatorOwnedFieldSet").await;
    let found: FireboltEngineClass = env.the(CLASS).await;
    assert!(found.finalizers().is_empty() && rule.struck() > 0);
    rule.remove();
    let held = |class: &FireboltEngineClass| !class.finalizers().is_empty();
    let after = env.wait_for_class(CLASS, "is held", held).await;
    assert_eq!(status(&after), status(&found));
}
