//! Two operators and one lease, and an API server that goes away during a switch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firebolt_api::EnginePhase;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use localkube::{Cluster, Component, Options};
use rustix::process::Signal;
use testkit::wait::{SOON, eventually};

use super::invariants::Invariants;
use super::testenv::{ENGINE, hold_at};
use crate::fault_proxy::{Fault, ProxiedWrite, Proxy, writes};
use crate::fixtures::{INSTANCE, engine, instance, new_image};
use crate::kubelet::Instructions;
use crate::kubelet::agent::Kubelet;
use crate::support::{CONTROL_PLANES, OPERATOR_NAMESPACE, Operator, namespace, prepare};
use crate::testenv::TestEnv;

/// Long enough that a busy machine is in time with each renewal.
const LEASE_DURATION: &str = "--lease-duration=6s";

/// Two operators, each behind a proxy of its own, and what the first of them is held at.
struct TwoOperators {
    leader: Operator,
    standby: Operator,
    leading: Proxy,
    standing_by: Proxy,
    invariants: Invariants,
    env: TestEnv,
}

fn join(cluster: &Cluster, proxy: &Path, namespace: &str, lease: &str) -> Operator {
    let flags = ["--namespaces", namespace, "--lease-name", lease, LEASE_DURATION];
    Operator::start(cluster, proxy, &flags)
}

impl TwoOperators {
    /// An engine that is deployed by the one that leads.
    async fn start() -> Self {
        let env = TestEnv::without_operator().await;
        let [leading, standing_by] = [(); 2].map(|()| Proxy::start(&env.cluster, env.kubeconfig()));
        let start = |proxy: &Proxy| join(&env.cluster, &proxy.kubeconfig(), &env.namespace, env.lease());
        let leader = start(&leading);
        eventually("the first one leads", SOON, || leader.leads());
        let standby = start(&standing_by);
        standby.wait_for_log("standing by");
        env.create(&engine(ENGINE).0).await;
        env.wait_for_generation(ENGINE, 0).await;
        Self {
            leader,
            standby,
            leading,
            standing_by,
            invariants: Invariants::watch(&env.cluster, &env.namespace, ENGINE).await,
            env,
        }
    }
}

/// A leader that was paused beyond the end of its lease writes nothing more: it exits without a stored write, and the
/// other operator completes its rollout.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_while_switching_writes_nothing_when_it_resumes() {
    let _quiet = CONTROL_PLANES.read().await;
    let mut operators = TwoOperators::start().await;
    let rule = hold_at(&operators.leading, EnginePhase::Switching);
    operators
        .env
        .edit_engine(ENGINE, new_image("registry.example/engine:2"))
        .await;
    operators
        .env
        .eventually("it switches", async || (rule.struck() > 0).then_some(()))
        .await;
    operators.leader.signal(Signal::STOP);
    rule.release();
    let asked = operators.leading.writes().len();
    eventually("the standby leads", SOON, || operators.standby.leads());
    operators.env.wait_for_generation(ENGINE, 1).await;

    operators.leader.signal(Signal::CONT);
    assert_eq!(operators.leader.wait(SOON).code(), Some(3));
    let late = operators.leading.writes().split_off(asked);
    assert!(!late.iter().any(ProxiedWrite::is_stored), "{late:?}");
    assert!(!operators.standing_by.writes().is_empty());
    assert!(operators.standby.leads());
    operators.invariants.hold().await;
}

/// The leader is unknown for a moment; the rollout completes, and only one operator works on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lease_does_not_disturb_a_switch() {
    let _quiet = CONTROL_PLANES.read().await;
    let operators = TwoOperators::start().await;
    let rule = hold_at(&operators.leading, EnginePhase::Switching);
    operators
        .env
        .edit_engine(ENGINE, new_image("registry.example/engine:2"))
        .await;
    operators
        .env
        .eventually("it switches", async || (rule.struck() > 0).then_some(()))
        .await;
    let lease = operators.env.lease();
    let delete = ["delete", "lease", "-n", OPERATOR_NAMESPACE, lease];
    operators.env.cluster.kubectl(&delete).unwrap();
    let leases: Api<Lease> = Api::namespaced(operators.env.client.clone(), OPERATOR_NAMESPACE);
    let back = async || leases.get_opt(lease).await.unwrap().map(drop);
    operators.env.eventually("the lease is back", back).await;
    rule.release();
    operators.env.wait_for_generation(ENGINE, 1).await;
    operators.invariants.hold().await;
    let leads = [operators.leader.leads(), operators.standby.leads()];
    assert_eq!(leads.iter().filter(|leads| **leads).count(), 1, "{leads:?}");
    let [of_leader, of_standby] = [&operators.leading, &operators.standing_by].map(|proxy| proxy.writes().len());
    assert!(
        of_leader == 0 || of_standby == 0 || leads[1],
        "{of_leader} and {of_standby} writes"
    );
}

/// The outage is shorter than the lease duration, and the leader continues the rollout. Needs a cluster of its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_restart_does_not_disturb_a_switch() {
    let _alone = CONTROL_PLANES.write().await;
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let proxy = Proxy::start(&cluster, &prepare(&cluster).await);
    let node = Kubelet::register(&cluster, Arc::<Instructions>::default()).await;
    tokio::spawn(node.run());
    let own = OwnCluster::new(&cluster).await;
    let flags = ["--namespaces", &own.namespace, "--leader-elect=false"];
    let mut operator = Operator::start(&cluster, &proxy.kubeconfig(), &flags);
    let invariants = Invariants::watch(&cluster, &own.namespace, ENGINE).await;
    own.apply("1");
    own.wait_for("0");

    let rule = hold_at(&proxy, EnginePhase::Switching);
    own.apply("2");
    rule.happened().await;
    let pause = proxy.on(writes(), Fault::Hold);
    cluster.stop_component(Component::KubeApiserver).unwrap();
    rule.release();
    cluster.start_component(Component::KubeApiserver).await.unwrap();
    // An API server that has just started has no watch history, so nothing may change before the watches are
    // re-established.
    let everything = "fireboltengines,statefulsets,services,configmaps,pods";
    own.kubectl(&["annotate", everything, "--all", "seen=yes"]).unwrap();
    invariants.catch_up().await;
    pause.release();
    own.wait_for("1");
    assert!(operator.runs());
    invariants.hold().await;
}

/// A test environment on a cluster of its own.
struct OwnCluster<'a> {
    cluster: &'a Cluster,
    namespace: String,
}

impl<'a> OwnCluster<'a> {
    async fn new(cluster: &'a Cluster) -> Self {
        let namespace = namespace(cluster).await;
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
