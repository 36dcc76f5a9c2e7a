//! Namespaces: those of others are not validated, and a terminating one takes everything with it.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::admission::client::{FireboltKind, Objects, eventually};
use crate::admission::manifests::{
    CLASS, COMMAND, ENGINE, INSTANCE, class, class_with, commanded, container, engine, engine_of, engine_with,
    instance, instance_with,
};
use crate::admission::testenv::AdmissionEnv;
use crate::admission::validation::assert_refused;
use crate::support::namespace;

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_namespaces_of_others_are_not_validated() {
    let mut env = AdmissionEnv::bare().await;
    let other = namespace(&env.cluster).await;
    env.start_replica(&[]);
    let address = env.replicas[0].address.clone();
    env.register_for(&address, &[&env.namespace, &other]).await;
    env.wait_for_admission().await;
    let there = Objects::new(&env.client, &other);
    let envoy = container("envoy", "command", &json!(["sh"]));
    let bad = [
        class_with(CLASS, &commanded()),
        instance_with(INSTANCE, "gateway", &envoy),
        engine_with(ENGINE, &commanded()),
        engine_of("orphan", "missing"),
        engine_of("bound", CLASS),
    ];
    for object in &bad {
        let stored = there.create(object).await.unwrap();
        assert_eq!(stored["spec"].get("id"), None, "nor is anything filled in");
    }
    assert_refused(env.create(&bad[0]).await, &[COMMAND]);
    there.delete(FireboltKind::Class, CLASS).await.unwrap();
    there.delete(FireboltKind::Instance, INSTANCE).await.unwrap();
    assert_eq!(there.get(FireboltKind::Class, CLASS).await, None);
    let _best_effort = env.cluster.kubectl(&["delete", "namespace", &other, "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_engines_can_be_deleted() {
    let env = AdmissionEnv::start().await;
    env.has(&[class(CLASS), instance(INSTANCE)]).await;
    env.has(&[engine(ENGINE), engine_of("one", CLASS), engine_of("two", CLASS)])
        .await;
    let reconciled = async || {
        for name in [ENGINE, "one", "two"] {
            let engine = env.get(FireboltKind::Engine, name).await?;
            engine["metadata"]["finalizers"].as_array()?;
        }
        Some(())
    };
    eventually("the engines have finalizers", reconciled).await;
    let namespaces: Api<Namespace> = Api::all(env.client.clone());
    namespaces
        .delete(&env.namespace, &DeleteParams::default())
        .await
        .unwrap();
    let gone = async || {
        namespaces
            .get_opt(&env.namespace)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    };
    eventually("the namespace is gone", gone).await;
}
