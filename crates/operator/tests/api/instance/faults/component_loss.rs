//! Components that are lost and recovered, and how engines are affected.

use firebolt_api::condition::InstanceCondition;
use firebolt_api::{FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::instance::fixtures::{MAIN, engine_of, minimal};
use crate::instance::status_history::StatusHistory;
use crate::instance::testenv::{Component, InstanceEnv, condition, status};
use crate::kubelet::pod_status::Behaviour;

/// Addresses that the instance gives: of the metadata service, and of the gateway.
fn addresses(instance: &FireboltInstance) -> [bool; 2] {
    let status = status(instance);
    [status.metadata_endpoint, status.gateway_endpoint].map(|endpoint| !endpoint.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_component_degrades_the_instance_until_it_is_back() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let crash = |exit_code| Behaviour::CrashLoop { exit_code };
    for (component, behaviour, cause, kept) in [
        (
            Component::Metadata,
            Behaviour::Unready,
            "The metadata service is not ready: 0 of 1 pods ready",
            [false, true],
        ),
        (
            Component::Metadata,
            crash(3),
            "container metadata exited with code 3",
            [false, true],
        ),
        (
            Component::Gateway,
            Behaviour::Unready,
            "The gateway is not ready: 0 of 2 pods ready",
            [true, false],
        ),
        (
            Component::Gateway,
            crash(139),
            "container envoy exited with code 139",
            [true, false],
        ),
    ] {
        env.set_behaviour(MAIN, component, behaviour);
        let degraded = env.wait_for_message(MAIN, cause).await;
        let is = status(&degraded);
        assert_eq!(is.phase, Some(InstancePhase::Degraded));
        assert_eq!(addresses(&degraded), kept);
        assert_eq!([is.metadata_ready, is.gateway_ready], kept);
        assert_eq!(condition(&degraded, InstanceCondition::Ready).status, "False");
        env.set_behaviour(MAIN, component, Behaviour::Ready);
        let ready = env.wait_for_phase(MAIN, InstancePhase::Ready).await;
        assert_eq!(addresses(&ready), [true, true]);
    }
    env.wait_for_event(MAIN, "Degraded").await;
}

/// The metadata service notices first whether it can do without its database for a while; either way it is reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_database_is_reported_and_degrades_the_instance_with_the_metadata_service() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let lost = "PostgreSQL is not ready: 0 of 1 pods ready";
    env.set_behaviour(MAIN, Component::Postgres, Behaviour::CrashLoop { exit_code: 1 });
    // The pod becomes unready first, and only then its container is reported.
    let cause = "container postgresql exited with code 1";
    let reported = env.wait_for_message(MAIN, cause).await;
    let message = condition(&reported, InstanceCondition::Ready).message;
    assert!(message.contains(lost), "{message}");
    // One change: the database must not be ready in between.
    let both = [
        ("main-metadata", Behaviour::Unready),
        ("main-metadata-pg", Behaviour::CrashLoop { exit_code: 1 }),
    ];
    env.node.set_behaviours(&env.namespace, &both);
    let degraded = env.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    let observed = condition(&degraded, InstanceCondition::MetadataReady).message;
    assert!(
        observed.contains("0 of 1 pods ready") && observed.contains(lost),
        "{observed}"
    );
    assert_eq!(addresses(&degraded), [false, true]);
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    // The pod of the database has a name with the same prefix, so it is ready again as well.
    let ready = env.wait_until_ready_with_database(MAIN).await;
    assert_eq!(condition(&ready, InstanceCondition::Ready).status, "True");
    assert_eq!(addresses(&ready), [true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_deleted_are_replaced() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    let before = env.list::<Pod>().await;
    assert_eq!(before.len(), 4);
    for pod in &before {
        env.delete::<Pod>(&pod.name_any()).await;
    }
    let uids: Vec<_> = before.iter().map(ResourceExt::uid).collect();
    let replaced = async || {
        let pods = env.list::<Pod>().await;
        (pods.len() == 4 && !pods.iter().any(|pod| uids.contains(&pod.uid()))).then_some(())
    };
    env.eventually("all pods are new", replaced).await;
    env.wait_for_phase(MAIN, InstancePhase::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_gateway_pod_is_enough() {
    let env = InstanceEnv::deployed(&minimal(MAIN)).await;
    // An instance is ready with one of them.
    env.wait_for_ready_gateways(2).await;
    let history = StatusHistory::of(&env, MAIN).await;
    let pods = env.list::<Pod>().await;
    let gateway = pods
        .iter()
        .map(ResourceExt::name_any)
        .find(|name| name.starts_with("main-gateway-"));
    env.node
        .set_behaviour(&env.namespace, &gateway.unwrap(), Behaviour::Unready);
    env.wait_for_ready_gateways(1).await;
    env.force_reconcile(MAIN).await;
    assert_eq!(history.phases(&env).await, [InstancePhase::Ready]);
    let instance = env.the::<FireboltInstance>(MAIN).await;
    assert_eq!(
        (status(&instance).phase, addresses(&instance)),
        (Some(InstancePhase::Ready), [true, true])
    );
}

impl InstanceEnv {
    /// Waits until the engine knows that its instance can be used, or that it cannot.
    pub(crate) async fn wait_until_engine_knows(&self, engine: &str, ready: bool) {
        let expected = if ready { "True" } else { "False" };
        let knows = |engine: &FireboltEngine| {
            let mut conditions = engine.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|it| it.type_ == "InstanceReady" && it.status == expected)
        };
        let what = format!("knows that its instance is ready: {ready}");
        self.base().wait_for(engine, &what, knows).await;
    }

    /// Waits until engines can use the instance.
    async fn wait_for_metadata_address(&self) {
        let has_address = |instance: &FireboltInstance| addresses(instance)[0];
        self.wait_for(MAIN, "has an address of the metadata service", has_address)
            .await;
    }
}

/// Neither an engine that is blocked nor one that is stable is requeued, so only the change of the instance can make it go
/// on.
#[tokio::test(flavor = "multi_thread")]
async fn engines_wait_for_the_metadata_service_and_continue_at_once() {
    let env = InstanceEnv::start().await;
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Unready);
    env.create(&minimal(MAIN)).await;
    env.create(&engine_of(MAIN, "a").0).await;
    env.wait_for_message(MAIN, "The metadata service is not ready: 0 of 1 pods ready")
        .await;
    let blocked = env.base().wait_for_reason("a", "InstanceNotReady").await;
    assert!(blocked.message.contains(MAIN), "{blocked:?}");
    assert_eq!(
        env.generations("a").await,
        Vec::<i64>::new(),
        "nothing is made for a blocked engine"
    );
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    env.wait_for_metadata_address().await;
    let created = async || env.get::<StatefulSet>("a-g0").await;
    env.eventually("the engine goes on", created).await;
    env.wait_for_generation("a", 0).await;

    // One that serves goes on to serve, and is reported.
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Unready);
    env.wait_until_engine_knows("a", false).await;
    assert_eq!(env.generations("a").await, [0]);
    env.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    env.set_behaviour(MAIN, Component::Metadata, Behaviour::Ready);
    env.wait_for_metadata_address().await;
    env.wait_until_engine_knows("a", true).await;
    assert_eq!(env.generations("a").await, [0]);
}
