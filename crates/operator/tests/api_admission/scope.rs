//! Namespaces: those of others are not judged, and one that goes takes everything with it.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::fixture::{
    CLASS, COMMAND, ENGINE, INSTANCE, class, class_with, commanded, container, engine, engine_of, engine_with,
    instance, instance_with,
};
use crate::kinds::assert_refused;
use crate::objects::{Kind, Objects, eventually};
use crate::stage::Stage;
use crate::support::namespace;

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_namespaces_of_others_are_not_judged() {
    let mut stage = Stage::bare().await;
    let other = namespace(&stage.cluster);
    stage.start(&[]);
    let address = stage.replicas[0].address.clone();
    stage.register_for(&address, &[&stage.namespace, &other]).await;
    stage.wait_for_admission().await;
    let there = Objects::new(&stage.client, &other);
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
    assert_refused(stage.create(&bad[0]).await, &[COMMAND]);
    there.delete(Kind::Class, CLASS).await.unwrap();
    there.delete(Kind::Instance, INSTANCE).await.unwrap();
    assert_eq!(there.get(Kind::Class, CLASS).await, None);
    let _best_effort = stage.cluster.kubectl(&["delete", "namespace", &other, "--wait=false"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_with_everything_in_it() {
    let stage = Stage::begin().await;
    stage.has(&[class(CLASS), instance(INSTANCE)]).await;
    stage
        .has(&[engine(ENGINE), engine_of("one", CLASS), engine_of("two", CLASS)])
        .await;
    let looked_after = async || {
        for name in [ENGINE, "one", "two"] {
            let engine = stage.get(Kind::Engine, name).await?;
            engine["metadata"]["finalizers"].as_array()?;
        }
        Some(())
    };
    eventually("the engines have finalizers", looked_after).await;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    namespaces
        .delete(&stage.namespace, &DeleteParams::default())
        .await
        .unwrap();
    let gone = async || {
        namespaces
            .get_opt(&stage.namespace)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    };
    eventually("the namespace is gone", gone).await;
}
