//! A6: two operators and one lease, and an API server that goes away in the middle of a switch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firebolt_api::EnginePhase;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use localkube::{Cluster, Component, Options};
use rustix::process::Signal;

use super::invariants::Invariants;
use super::stage::{ENGINE, hold_at, operator_kubeconfig};
use crate::fixture::{INSTANCE, engine, instance, new_image};
use crate::kubelet::Kubelet;
use crate::node::Orders;
use crate::proxy::{Fault, Proxy, Write, writes};
use crate::scene::Scene;
use crate::support::{
    CONTROL_PLANES, OPERATOR_NAMESPACE, Operator, SOON, eventually, install_definitions, namespace, service_account,
};

/// Long enough that a busy machine is in time with each renewal.
const LEASE_DURATION: &str = "--lease-duration=6s";

/// Two operators, each behind a proxy of its own, and what the first of them is held at.
struct Rivals {
    leader: Operator,
    standby: Operator,
    leading: Proxy,
    standing_by: Proxy,
    invariants: Invariants,
    scene: Scene,
}

fn join(cluster: &Cluster, proxy: &Path, namespace: &str, lease: &str) -> Operator {
    let flags = ["--namespaces", namespace, "--lease-name", lease, LEASE_DURATION];
    Operator::start(cluster, proxy, &flags)
}

impl Rivals {
    /// An engine that is deployed by the one that leads.
    async fn begin() -> Self {
        let scene = Scene::without_operator().await;
        let kubeconfig = operator_kubeconfig(&scene).await;
        let [leading, standing_by] = [(); 2].map(|()| Proxy::start(&scene.cluster, &kubeconfig));
        let start = |proxy: &Proxy| join(&scene.cluster, &proxy.kubeconfig(), &scene.namespace, scene.lease());
        let leader = start(&leading);
        eventually("the first one leads", SOON, || leader.leads());
        let standby = start(&standing_by);
        standby.wait_for_log("this process stands by");
        scene.create(&engine(ENGINE).0).await;
        scene.wait_for_generation(ENGINE, 0).await;
        Self {
            leader,
            standby,
            leading,
            standing_by,
            invariants: Invariants::watch(&scene.cluster, &scene.namespace, ENGINE).await,
            scene,
        }
    }
}

/// A leader that slept through the end of its term has nothing more to say: it ends without a stored write, and the
/// rollout that it had begun is ended by the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_while_switching_writes_nothing_when_it_wakes() {
    let _quiet = CONTROL_PLANES.read().await;
    let mut rivals = Rivals::begin().await;
    let rule = hold_at(&rivals.leading, EnginePhase::Switching);
    rivals
        .scene
        .edit_engine(ENGINE, new_image("registry.example/engine:2"))
        .await;
    rivals
        .scene
        .eventually("it switches", async || (rule.struck() > 0).then_some(()))
        .await;
    rivals.leader.signal(Signal::STOP);
    rule.release();
    let asked = rivals.leading.writes().len();
    eventually("the standby leads", SOON, || rivals.standby.leads());
    rivals.scene.wait_for_generation(ENGINE, 1).await;

    rivals.leader.signal(Signal::CONT);
    assert_eq!(rivals.leader.wait(SOON).code(), Some(3));
    let late = rivals.leading.writes().split_off(asked);
    assert!(!late.iter().any(Write::is_stored), "{late:?}");
    assert!(!rivals.standing_by.writes().is_empty());
    assert!(rivals.standby.leads());
    rivals.invariants.hold().await;
}

/// Nobody can say who leads for a moment; the rollout ends all the same, and no two work on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_deleted_while_switching_costs_nothing() {
    let _quiet = CONTROL_PLANES.read().await;
    let rivals = Rivals::begin().await;
    let rule = hold_at(&rivals.leading, EnginePhase::Switching);
    rivals
        .scene
        .edit_engine(ENGINE, new_image("registry.example/engine:2"))
        .await;
    rivals
        .scene
        .eventually("it switches", async || (rule.struck() > 0).then_some(()))
        .await;
    let lease = rivals.scene.lease();
    let delete = ["delete", "lease", "-n", OPERATOR_NAMESPACE, lease];
    rivals.scene.cluster.kubectl(&delete).unwrap();
    let leases: Api<Lease> = Api::namespaced(rivals.scene.client.clone(), OPERATOR_NAMESPACE);
    let back = async || leases.get_opt(lease).await.unwrap().map(drop);
    rivals.scene.eventually("the lease is back", back).await;
    rule.release();
    rivals.scene.wait_for_generation(ENGINE, 1).await;
    rivals.invariants.hold().await;
    let leads = [rivals.leader.leads(), rivals.standby.leads()];
    assert_eq!(leads.iter().filter(|leads| **leads).count(), 1, "{leads:?}");
    let [of_leader, of_standby] = [&rivals.leading, &rivals.standing_by].map(|proxy| proxy.writes().len());
    assert!(
        of_leader == 0 || of_standby == 0 || leads[1],
        "{of_leader} and {of_standby} writes"
    );
}

/// The outage is shorter than the term of the leader, who goes on where it was. Needs a cluster of its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_restarts_while_switching_costs_nothing() {
    let _alone = CONTROL_PLANES.write().await;
    let cluster = Cluster::start(Options::default()).await.unwrap();
    install_definitions(&cluster);
    let proxy = Proxy::start(&cluster, &service_account(&cluster).await);
    let node = Kubelet::register(&cluster, Arc::<Orders>::default()).await;
    tokio::spawn(node.run());
    let stage = Own::set(&cluster);
    let flags = ["--namespaces", &stage.namespace, "--leader-elect=false"];
    let mut operator = Operator::start(&cluster, &proxy.kubeconfig(), &flags);
    let invariants = Invariants::watch(&cluster, &stage.namespace, ENGINE).await;
    stage.apply("1");
    stage.wait_for("0");

    let rule = hold_at(&proxy, EnginePhase::Switching);
    stage.apply("2");
    rule.happened().await;
    let pause = proxy.on(writes(), Fault::Hold);
    cluster.stop_component(Component::KubeApiserver).unwrap();
    rule.release();
    cluster.start_component(Component::KubeApiserver).await.unwrap();
    // An API server that has just started knows nothing of the past, so nothing may happen before we look again.
    let everything = "fireboltengines,statefulsets,services,configmaps,pods";
    stage.kubectl(&["annotate", everything, "--all", "seen=yes"]).unwrap();
    invariants.catch_up().await;
    pause.release();
    stage.wait_for("1");
    assert!(operator.runs());
    invariants.hold().await;
}

/// A scene on a cluster of its own.
struct Own<'a> {
    cluster: &'a Cluster,
    namespace: String,
}

impl<'a> Own<'a> {
    fn set(cluster: &'a Cluster) -> Self {
        let namespace = namespace(cluster);
        let own = Self { cluster, namespace };
        own.put(&serde_json::to_value(instance(INSTANCE)).unwrap());
        own
    }

    fn kubectl(&self, arguments: &[&str]) -> localkube::Result<String> {
        self.cluster.kubectl(&[arguments, &["-n", &self.namespace]].concat())
    }

    fn put(&self, object: &serde_json::Value) {
        let apply = ["apply", "--server-side", "-n", &self.namespace, "-f", "-"];
        self.cluster.kubectl_with_input(&apply, &object.to_string()).unwrap();
    }

    fn apply(&self, tag: &str) {
        let engine = engine(ENGINE).image(&format!("registry.example/engine:{tag}"));
        self.put(&serde_json::to_value(engine.0).unwrap());
    }

    fn wait_for(&self, generation: &str) {
        let path = "jsonpath={.status.phase} {.status.activeGeneration} {.status.currentGeneration}";
        let expected = format!("stable {generation} {generation}");
        eventually(&expected, Duration::from_secs(90), || {
            self.kubectl(&["get", "fireboltengine", ENGINE, "-o", path])
                .is_ok_and(|status| status == expected)
        });
    }
}
