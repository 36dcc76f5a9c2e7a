//! Objects that engines depend on cannot be deleted.

use serde_json::json;

use crate::admission::client::{FireboltKind, Objects, Refusal};
use crate::admission::manifests::{CLASS, ENGINE, INSTANCE, class, engine, engine_of};
use crate::admission::testenv::AdmissionEnv;
use crate::support::namespace;

#[track_caller]
fn assert_held(answer: Result<(), Refusal>, parts: &[&str]) {
    let refusal = answer.expect_err("it is held");
    assert_eq!(
        (refusal.code, refusal.reason.as_str()),
        (403, "Forbidden"),
        "{refusal:?}"
    );
    assert_eq!(refusal.fields(), ["metadata.name"], "{refusal:?}");
    for part in parts {
        assert!(refusal.message.contains(part), "{part} in {refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_is_deleted_when_no_engine_references_it() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    let here = format!("FireboltEngineClass large in namespace {}", env.namespace);
    env.has(&[class(CLASS), class("small"), engine("free")]).await;
    env.has(&[engine_of("one", CLASS), engine_of("two", CLASS)]).await;
    assert_held(
        env.delete(FireboltKind::Class, CLASS).await,
        &[&here, "2 engines (one, two)", "spec.engineClassRef"],
    );
    let another = json!({ "spec": { "engineClassRef": "small" } });
    env.edit(FireboltKind::Engine, "one", &another).await.unwrap();
    assert_held(
        env.delete(FireboltKind::Class, CLASS).await,
        &[&here, "referenced by engine two"],
    );
    let none = json!({ "spec": { "engineClassRef": null } });
    env.edit(FireboltKind::Engine, "two", &none).await.unwrap();
    // Bound a moment ago: this counts whatever any cache knows.
    env.edit(
        FireboltKind::Engine,
        "free",
        &json!({ "spec": { "engineClassRef": CLASS } }),
    )
    .await
    .unwrap();
    assert_held(
        env.delete(FireboltKind::Class, CLASS).await,
        &["referenced by engine free"],
    );
    env.edit(FireboltKind::Engine, "free", &none).await.unwrap();
    env.delete(FireboltKind::Class, CLASS).await.unwrap();
    env.wait_until_gone(FireboltKind::Class, CLASS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_the_same_name_in_another_namespace_is_another_class() {
    let mut env = AdmissionEnv::bare().await;
    let other = namespace(&env.cluster).await;
    env.start_replica(&["--namespaces", &format!("{},{other}", env.namespace)]);
    let address = env.replicas[0].address.clone();
    env.register_for(&address, &[&env.namespace, &other]).await;
    env.wait_for_admission().await;
    let there = Objects::new(&env.client, &other);
    env.has(&[class(CLASS), engine_of(ENGINE, CLASS)]).await;
    there.create(&class(CLASS)).await.unwrap();
    assert_held(
        env.delete(FireboltKind::Class, CLASS).await,
        &["referenced by engine sales"],
    );
    there.delete(FireboltKind::Class, CLASS).await.unwrap();
    there.wait_until_gone(FireboltKind::Class, CLASS).await;
    let _best_effort = env.cluster.kubectl(&["delete", "namespace", &other, "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_can_be_deleted_once_its_engines_are_gone_or_terminating() {
    let env = AdmissionEnv::start().await;
    let mut going = engine("going");
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    env.has_instance().await;
    env.has(&[engine("one"), going]).await;
    let here = format!("FireboltInstance main in namespace {}", env.namespace);
    env.delete(FireboltKind::Engine, "going").await.unwrap();
    assert_held(
        env.delete(FireboltKind::Instance, INSTANCE).await,
        &[&here, "referenced by engine one", "Delete the engines first"],
    );
    env.delete(FireboltKind::Engine, "one").await.unwrap();
    env.wait_until_gone(FireboltKind::Engine, "one").await;
    // The last engine is held, and itself holds nothing.
    env.delete(FireboltKind::Instance, INSTANCE).await.unwrap();
    let engine = env.get(FireboltKind::Engine, "going").await.expect("it is held");
    assert!(engine["metadata"]["deletionTimestamp"].is_string());
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit(FireboltKind::Engine, "going", &release).await.unwrap();
    env.wait_until_gone(FireboltKind::Instance, INSTANCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_is_blocked_too_when_all_are_deleted_at_once() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    env.has(&[class(CLASS), engine_of(ENGINE, CLASS)]).await;
    assert_held(
        env.delete_all(FireboltKind::Class).await,
        &["large", "referenced by engine sales"],
    );
    assert_held(
        env.delete_all(FireboltKind::Instance).await,
        &["main", "referenced by engine sales"],
    );
    for (kind, name) in [(FireboltKind::Class, CLASS), (FireboltKind::Instance, INSTANCE)] {
        let object = env.get(kind, name).await.expect("it is held");
        assert_eq!(object["metadata"].get("deletionTimestamp"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_cannot_reference_a_class_that_is_being_deleted() {
    let env = AdmissionEnv::start().await;
    env.has_instance().await;
    let mut held = class(CLASS);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    env.has(&[held, engine("free")]).await;
    env.delete(FireboltKind::Class, CLASS).await.unwrap();
    let bind = json!({ "spec": { "engineClassRef": CLASS } });
    for answer in [
        env.create(&engine_of(ENGINE, CLASS)).await,
        env.edit(FireboltKind::Engine, "free", &bind).await,
    ] {
        let refusal = answer.expect_err("the class is going");
        assert_eq!(refusal.fields(), ["spec.engineClassRef"], "{refusal:?}");
        assert!(refusal.message.contains("is being deleted"), "{refusal:?}");
    }
    let release = json!({ "metadata": { "finalizers": null } });
    env.edit(FireboltKind::Class, CLASS, &release).await.unwrap();
    env.wait_until_gone(FireboltKind::Class, CLASS).await;
}
