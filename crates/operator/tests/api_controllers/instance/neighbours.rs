//! Instances side by side: in one namespace, and under one name in two.

use std::collections::BTreeMap;

use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;

use super::chronicle::Chronicle;
use super::fixture::{MAIN, minimal};
use super::stage::{Component, Stage};
use crate::pod_status::Behaviour;
use crate::support::Operator;

impl Stage {
    /// The identity of everything that was made for an instance.
    async fn identities(&self, instance: &str) -> BTreeMap<String, Option<String>> {
        let children = self.children(instance).await;
        children.into_iter().map(|(name, child)| (name, child.uid())).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_one_namespace_do_not_disturb_each_other() {
    let stage = Stage::begin().await;
    // One name is the beginning of the other.
    let (one, other) = ("a", "a-gateway");
    for name in [one, other] {
        stage.deploy(&minimal(name)).await;
    }
    let (identities, chronicle) = (stage.identities(other).await, Chronicle::of(&stage, other).await);
    assert_eq!(identities.len(), 13);
    stage.fares(one, Component::Metadata, Behaviour::Unready);
    stage.wait_for_phase(one, InstancePhase::Degraded).await;
    stage.delete::<FireboltInstance>(one).await;
    stage.wait_until_gone::<FireboltInstance>(one).await;
    assert_eq!(stage.children(one).await.len(), 0);
    assert_eq!(stage.identities(other).await, identities);
    assert_eq!(chronicle.phases(&stage).await, [InstancePhase::Ready]);
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_one_name_do_not_disturb_each_other() {
    let (here, there) = (Stage::set().await, Stage::set().await);
    let both = format!("{},{}", here.namespace, there.namespace);
    let flags = ["--leader-elect=false", "--namespaces", &both];
    let _operator = Operator::start(&here.cluster, here.kubeconfig(), &flags);
    let ids = [here.deploy(&minimal(MAIN)).await, there.deploy(&minimal(MAIN)).await].map(|it| it.spec.id);
    assert_ne!(ids[0], ids[1]);
    let (identities, chronicle) = (there.identities(MAIN).await, Chronicle::of(&there, MAIN).await);
    here.fares(MAIN, Component::Gateway, Behaviour::Unready);
    here.wait_for_phase(MAIN, InstancePhase::Degraded).await;
    here.delete::<FireboltInstance>(MAIN).await;
    here.wait_until_gone::<FireboltInstance>(MAIN).await;
    assert_eq!(there.identities(MAIN).await, identities);
    assert_eq!(chronicle.phases(&there).await, [InstancePhase::Ready]);
}
