//! Children that lost their owner, never had it, or have another one.

use firebolt_api::FireboltEngine;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::faults::testenv::{ENGINE, ProxiedEnv};
use crate::fault_proxy::{Fault, writes};
use crate::fixtures::engine;
use crate::testenv::{Namespaced, TestEnv};

/// A child of generation 0, or the routing Service.
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

    async fn edit(self, proxied: &ProxiedEnv, metadata: Value) {
        let patch = json!({ "metadata": metadata });
        match self {
            Self::Set => drop(proxied.env.edit::<StatefulSet>(self.name(), patch).await),
            Self::Config => drop(proxied.env.edit::<ConfigMap>(self.name(), patch).await),
            Self::Headless | Self::Routing => drop(proxied.env.edit::<Service>(self.name(), patch).await),
        }
    }

    /// Its spec, labels and owners, without the fields that Kubernetes maintains. `None` if it is deleted.
    async fn essence(self, proxied: &ProxiedEnv) -> Option<Value> {
        match self {
            Self::Set => essence::<StatefulSet>(proxied, self.name()).await,
            Self::Config => essence::<ConfigMap>(proxied, self.name()).await,
            Self::Headless | Self::Routing => essence::<Service>(proxied, self.name()).await,
        }
    }

    /// How many times the operator has tried to write it.
    fn written(self, proxied: &ProxiedEnv) -> usize {
        let writes = proxied.proxy.writes();
        let of_child = writes
            .iter()
            .filter(|write| write.call.name.as_deref() == Some(self.name()));
        of_child.count()
    }
}

async fn essence<K: Namespaced>(proxied: &ProxiedEnv, name: &str) -> Option<Value> {
    let object = proxied.env.get::<K>(name).await?;
    let value = serde_json::to_value(&object).unwrap();
    let owners = object.owner_references();
    let going = object.meta().deletion_timestamp.is_some();
    Some(json!({
        "uid": object.uid(), "going": going, "owners": owners, "labels": object.labels(), "spec": value["spec"],
        "data": value["data"],
    }))
}

/// The owner references of a child are removed. It does not belong to the engine any more, so it is neither deleted nor
/// overwritten, during a rollout and during the deletion of the engine; the engine continues in another generation.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_owner_reference_is_left_alone_and_the_engine_starts_a_new_generation(
    #[values(Child::Set, Child::Config, Child::Headless)] child: Child,
) {
    let proxied = ProxiedEnv::deployed().await;
    let env = &proxied.env;
    child.edit(&proxied, json!({ "ownerReferences": null })).await;
    let taken = child.essence(&proxied).await;
    let written = child.written(&proxied);
    env.wait_for_generation(ENGINE, 1).await;
    assert_eq!(env.routed_to(ENGINE).await, Some(1));
    proxied.change(1).await;
    env.wait_for_generation(ENGINE, 2).await;
    env.delete::<FireboltEngine>(ENGINE).await;
    env.wait_until_gone::<FireboltEngine>(ENGINE).await;
    assert_eq!(
        (child.essence(&proxied).await, child.written(&proxied)),
        (taken, written)
    );
}

/// An object of another owner has the name of a child of the first or of the next generation. Without the labels of the
/// operator no cache contains it. It is not changed, and the engine continues in the generation after it.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_object_with_a_child_name_skips_a_generation(
    #[values(0, 1)] generation: i64,
    #[values(Child::Set, Child::Config, Child::Headless)] child: Child,
) {
    let proxied = ProxiedEnv::start().await;
    let env = &proxied.env;
    let name = child.name().replace("g0", &format!("g{generation}"));
    let theirs = match child {
        Child::Set => foreign::<StatefulSet>(
            env,
            &name,
            json!({ "replicas": 0, "serviceName": "x", "selector": { "matchLabels": { "app": "x" } },
                "template": { "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "x", "image": "x" }] } } }),
        )
        .await,
        Child::Config => foreign::<ConfigMap>(env, &name, Value::Null).await,
        Child::Headless | Child::Routing => foreign::<Service>(env, &name, json!({ "ports": [{ "port": 80 }] })).await,
    };
    env.create(&engine(ENGINE).0).await;
    if generation > 0 {
        env.wait_for_generation(ENGINE, 0).await;
        proxied.change(1).await;
    }
    env.wait_for_generation(ENGINE, generation + 1).await;
    assert_eq!(env.routed_to(ENGINE).await, Some(generation + 1));
    let now = match child {
        Child::Set => env.the::<StatefulSet>(&name).await.metadata,
        Child::Config => env.the::<ConfigMap>(&name).await.metadata,
        Child::Headless | Child::Routing => env.the::<Service>(&name).await.metadata,
    };
    assert_eq!((now.uid, now.owner_references), (theirs, None));
}

/// Creates an object without labels and owners. Returns its UID.
async fn foreign<K: Namespaced>(env: &TestEnv, name: &str, spec: Value) -> Option<String> {
    let mut object = json!({ "metadata": { "name": name } });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    env.create(&serde_json::from_value::<K>(object).unwrap()).await.uid()
}

/// The owner references of the routing Service are removed. It is left alone and reported as the reason why the engine
/// is not ready; once it is deleted, the operator creates another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_routing_service_without_owner_reference_is_reported_and_replaced_once_it_is_deleted() {
    let proxied = ProxiedEnv::deployed().await;
    let env = &proxied.env;
    Child::Routing.edit(&proxied, json!({ "ownerReferences": null })).await;
    let taken = Child::Routing.essence(&proxied).await;
    let observed = env.wait_for_reason(ENGINE, "ForeignObject").await;
    assert!(observed.message.contains("a-service"), "{observed:?}");
    assert_eq!(Child::Routing.essence(&proxied).await, taken);
    env.delete::<Service>("a-service").await;
    env.wait_for_reason(ENGINE, "EngineReady").await;
    assert_eq!(env.routed_to(ENGINE).await, Some(0));
    assert_eq!(env.status(ENGINE).await.current_generation, 0);
}

/// A foreign Service with the name of the routing Service. It is reported and not changed; once it is deleted, the
/// rollout completes. With the labels of the operator it is watched, without them it is not.
#[rstest]
#[case::unlabelled(json!({}))]
#[case::labelled(json!({ "firebolt.io/engine": ENGINE }))]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_another_owner_blocks_the_rollout_until_it_is_deleted(#[case] labels: Value) {
    let proxied = ProxiedEnv::start().await;
    let env = &proxied.env;
    let service = json!({
        "metadata": { "name": "a-service", "labels": labels },
        "spec": { "ports": [{ "port": 80 }], "selector": { "app": "another-app" } },
    });
    env.create(&serde_json::from_value::<Service>(service).unwrap()).await;
    let theirs = Child::Routing.essence(&proxied).await;
    env.create(&engine(ENGINE).0).await;
    let observed = env.wait_for_reason(ENGINE, "ForeignObject").await;
    assert!(
        observed.status == "False" && observed.message.contains("a-service"),
        "{observed:?}"
    );
    env.wait_for_event(ENGINE, "ForeignObject").await;
    assert_eq!(Child::Routing.essence(&proxied).await, theirs);
    env.delete::<Service>("a-service").await;
    proxied.at_rest(0).await;
}

/// A foreign finalizer on a child of an engine that is deleted. It is reported, in an event and in the condition, and
/// the engine does not wait for it forever: the child stays, everything else is deleted.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_finalizer_is_reported_and_does_not_block_the_deletion_of_the_engine(
    #[values(Child::Set, Child::Config, Child::Headless, Child::Routing)] child: Child,
) {
    let proxied = ProxiedEnv::deployed().await;
    let env = &proxied.env;
    child
        .edit(&proxied, json!({ "finalizers": ["example.com/hold"] }))
        .await;
    // Afterwards there is no condition left to read.
    let letting_go = writes().of("fireboltengines").saying("\"finalizers\":");
    let rule = proxied.proxy.on(letting_go.next(1), Fault::Hold);
    env.delete::<FireboltEngine>(ENGINE).await;
    proxied.struck(&rule).await;
    let observed = env.wait_for_reason(ENGINE, "ExternalFinalizer").await;
    for part in [child.name(), "example.com/hold"] {
        assert!(observed.message.contains(part), "{part} in {observed:?}");
    }
    rule.release();
    env.wait_until_gone::<FireboltEngine>(ENGINE).await;
    let reported = env.wait_for_event(ENGINE, "ExternalFinalizerOnOwnedResource").await;
    assert!(
        reported.severity == "Warning" && reported.message.contains(child.name()),
        "{reported:?}"
    );
    let kinds = "statefulsets,services,configmaps";
    let left = env.kubectl(&[
        "get",
        kinds,
        "-l",
        "firebolt.io/engine=a",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ]);
    assert_eq!(left.unwrap(), child.name());
    child.edit(&proxied, json!({ "finalizers": null })).await;
}
