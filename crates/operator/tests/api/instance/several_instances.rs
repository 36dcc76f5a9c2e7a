//! Several instances: in one namespace, and with one name in two namespaces.

use std::collections::BTreeMap;

use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;

use super::fixtures::{MAIN, minimal};
use super::status_history::StatusHistory;
use super::testenv::{Component, InstanceEnv};
use crate::kubelet::pod_status::Behaviour;
use crate::support::Operator;

impl InstanceEnv {
    /// The identity of everything that was made for an instance.
    async fn identities(&self, instance: &str) -> BTreeMap<String, Option<String>> {
        let children = self.children(instance).await;
        children.into_iter().map(|(name, child)| (name, child.uid())).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_one_namespace_do_not_disturb_each_other() {
    let env = InstanceEnv::start().await;
    // One name is the beginning of the other.
    let (one, other) = ("a", "a-gateway");
    for name in [one, other] {
        env.deploy(&minimal(name)).await;
    }
    let (identities, history) = (env.identities(other).await, StatusHistory::of(&env, other).await);
    assert_eq!(identities.len(), 13);
    env.set_behaviour(one, Component::Metadata, Behaviour::Unready);
    env.wait_for_phase(one, InstancePhase::Degraded).await;
    env.delete::<FireboltInstance>(one).await;
    env.wait_until_gone::<FireboltInstance>(one).await;
    assert_eq!(env.children(one).await.len(), 0);
    assert_eq!(env.identities(other).await, identities);
    assert_eq!(history.phases(&env).await, [InstancePhase::Ready]);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_one_name_do_not_disturb_each_other() {
    let (here, there) = (
        InstanceEnv::without_operator().await,
        InstanceEnv::without_operator().await,
    );
    let both = format!("{},{}", here.namespace, there.namespace);
    let flags = ["--leader-elect=false", "--namespaces", &both];
    let _operator = Operator::start(&here.cluster, here.kubeconfig(), &flags);
    let ids = [here.deploy(&minimal(MAIN)).await, there.deploy(&minimal(MAIN)).await].map(|it| it.spec.id);
    assert_ne!(ids[0], ids[1]);
    let (identities, history) = (there.identities(MAIN).await, StatusHistory::of(&there, MAIN).await);
    here.set_behaviour(MAIN, Component::Gateway, Behaviour::Unready);
    here.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    here.delete::<FireboltInstance>(MAIN).await;
    here.wait_until_gone::<FireboltInstance>(MAIN).await;
    assert_eq!(there.identities(MAIN).await, identities);
    assert_eq!(history.phases(&there).await, [InstancePhase::Ready]);
}
