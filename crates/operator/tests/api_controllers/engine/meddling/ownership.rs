//! Children that no longer belong to the engine, never did, or are held by somebody else.

use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::stage::{ENGINE, Stage};
use crate::fixture::engine;
use crate::proxy::{Fault, writes};
use crate::scene::Namespaced;

/// A child of generation 0, or the one of all generations.
#[derive(Clone, Copy, Debug)]
enum Child {
    Set,
    Config,
    Headless,
    Routing,
}

impl Child {
    fn name(self) -> &'static str {
        match self {
            Self::Set => "a-g0",
            Self::Config => "a-g0-config",
            Self::Headless => "a-g0-hl",
            Self::Routing => "a-service",
        }
    }

    async fn edit(self, stage: &Stage, metadata: Value) {
        let patch = json!({ "metadata": metadata });
        match self {
            Self::Set => drop(stage.scene.edit::<StatefulSet>(self.name(), patch).await),
            Self::Config => drop(stage.scene.edit::<ConfigMap>(self.name(), patch).await),
            Self::Headless | Self::Routing => drop(stage.scene.edit::<Service>(self.name(), patch).await),
        }
    }

    /// What it asks for and whose it is, without what Kubernetes itself notes in it. None if it is gone.
    async fn essence(self, stage: &Stage) -> Option<Value> {
        match self {
            Self::Set => essence::<StatefulSet>(stage, self.name()).await,
            Self::Config => essence::<ConfigMap>(stage, self.name()).await,
            Self::Headless | Self::Routing => essence::<Service>(stage, self.name()).await,
        }
    }

    /// How often the operator has tried to write it.
    fn written(self, stage: &Stage) -> usize {
        let writes = stage.proxy.writes();
        let of_child = writes
            .iter()
            .filter(|write| write.call.name.as_deref() == Some(self.name()));
        of_child.count()
    }
}

async fn essence<K: Namespaced>(stage: &Stage, name: &str) -> Option<Value> {
    let object = stage.scene.get::<K>(name).await?;
    let value = serde_json::to_value(&object).unwrap();
    let owners = object.owner_references();
    let going = object.meta().deletion_timestamp.is_some();
    Some(json!({
        "uid": object.uid(), "going": going, "owners": owners, "labels": object.labels(), "spec": value["spec"],
        "data": value["data"],
    }))
}

/// Fault: the owner references of a child stripped. Invariant 14: it is not ours any more, so it is neither deleted nor
/// overwritten, through a rollout and through the deletion of the engine; and the engine goes on in another generation.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_was_taken_away_is_left_alone_and_the_engine_goes_on_without_it(
    #[values(Child::Set, Child::Config, Child::Headless)] child: Child,
) {
    let stage = Stage::deployed().await;
    let scene = &stage.scene;
    child.edit(&stage, json!({ "ownerReferences": null })).await;
    let taken = child.essence(&stage).await;
    let written = child.written(&stage);
    scene.wait_for_generation(ENGINE, 1).await;
    assert_eq!(scene.routed_to(ENGINE).await, Some(1));
    stage.change(1).await;
    scene.wait_for_generation(ENGINE, 2).await;
    scene.delete::<FireboltEngine>(ENGINE).await;
    scene.wait_until_gone::<FireboltEngine>(ENGINE).await;
    assert_eq!((child.essence(&stage).await, child.written(&stage)), (taken, written));
}

/// Fault: the owner references of the routing Service stripped. Invariant 14: it is left alone and named as what keeps
/// the engine from being ready; once it is gone, the engine makes one of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_routing_service_that_was_taken_away_is_named_and_replaced_once_it_is_gone() {
    let stage = Stage::deployed().await;
    let scene = &stage.scene;
    Child::Routing.edit(&stage, json!({ "ownerReferences": null })).await;
    let taken = Child::Routing.essence(&stage).await;
    let said = scene.wait_for_reason(ENGINE, "ForeignObject").await;
    assert!(said.message.contains("a-service"), "{said:?}");
    assert_eq!(Child::Routing.essence(&stage).await, taken);
    scene.delete::<Service>("a-service").await;
    scene.wait_for_reason(ENGINE, "EngineReady").await;
    assert_eq!(scene.routed_to(ENGINE).await, Some(0));
    assert_eq!(scene.status(ENGINE).await.current_generation, 0);
}

/// Fault: a Service of somebody else under the name of the routing Service. Invariant 14: it is reported and untouched;
/// invariant 10: deleting it lets the rollout finish. With labels of ours it is watched, without it is not.
#[rstest]
#[case::unlabelled(json!({}))]
#[case::labelled(json!({ "firebolt.io/engine": ENGINE }))]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_somebody_else_holds_the_rollout_until_it_is_gone(#[case] labels: Value) {
    let stage = Stage::begin().await;
    let scene = &stage.scene;
    let service = json!({
        "metadata": { "name": "a-service", "labels": labels },
        "spec": { "ports": [{ "port": 80 }], "selector": { "app": "somebody-else" } },
    });
    scene.create(&serde_json::from_value::<Service>(service).unwrap()).await;
    let theirs = Child::Routing.essence(&stage).await;
    scene.create(&engine(ENGINE).0).await;
    let said = scene.wait_for_reason(ENGINE, "ForeignObject").await;
    assert!(said.status == "False" && said.message.contains("a-service"), "{said:?}");
    scene.wait_for_event(ENGINE, "ForeignObject").await;
    assert_eq!(Child::Routing.essence(&stage).await, theirs);
    scene.delete::<Service>("a-service").await;
    stage.at_rest(0).await;
}

/// Fault: a finalizer of somebody else on a child of an engine that is deleted. It is reported, in an event and in the
/// condition, and the engine does not wait for it for ever: the child stays behind, everything else goes.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_of_somebody_else_is_reported_and_does_not_hold_the_engine(
    #[values(Child::Set, Child::Config, Child::Headless, Child::Routing)] child: Child,
) {
    let stage = Stage::deployed().await;
    let scene = &stage.scene;
    child.edit(&stage, json!({ "finalizers": ["example.com/hold"] })).await;
    // Afterwards there is no condition left to look at.
    let letting_go = writes().of("fireboltengines").saying("\"finalizers\":");
    let rule = stage.proxy.on(letting_go.next(1), Fault::Hold);
    scene.delete::<FireboltEngine>(ENGINE).await;
    stage.struck(&rule).await;
    let said = scene.wait_for_reason(ENGINE, "ExternalFinalizer").await;
    for part in [child.name(), "example.com/hold"] {
        assert!(said.message.contains(part), "{part} in {said:?}");
    }
    rule.release();
    scene.wait_until_gone::<FireboltEngine>(ENGINE).await;
    let told = scene.wait_for_event(ENGINE, "ExternalFinalizerOnOwnedResource").await;
    assert!(
        told.severity == "Warning" && told.message.contains(child.name()),
        "{told:?}"
    );
    let kinds = "statefulsets,services,configmaps";
    let left = scene.kubectl(&[
        "get",
        kinds,
        "-l",
        "firebolt.io/engine=a",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    assert_eq!(left.unwrap(), child.name());
    child.edit(&stage, json!({ "finalizers": null })).await;
}
