//! Leader election between processes on a real API server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use localkube::{Cluster, Component, Options};
use rustix::process::Signal;
use testkit::wait::{SOON, eventually};
use tokio::sync::RwLockReadGuard;

use crate::support::{CONTROL_PLANES, OPERATOR_NAMESPACE, Operator, prepare, unique};

/// Long enough that a busy machine is in time with each renewal.
const LEASE_DURATION: Duration = Duration::from_secs(6);
/// What a busy machine may add to the lease duration. Not more: a standby that does not watch the lease takes it after up to
/// twice the lease duration.
const SLACK: Duration = Duration::from_secs(6);

/// Several operators that share one lease, and everything that was ever written into it.
struct Election {
    cluster: Cluster,
    kubeconfig: PathBuf,
    lease: String,
    holders: Arc<Mutex<Vec<Option<String>>>>,
    _quiet: Option<RwLockReadGuard<'static, ()>>,
}

impl Election {
    async fn start() -> Self {
        let quiet = CONTROL_PLANES.read().await;
        Self::start_on(Cluster::attach(), Some(quiet)).await
    }

    async fn start_on(cluster: Cluster, quiet: Option<RwLockReadGuard<'static, ()>>) -> Self {
        let kubeconfig = prepare(&cluster).await;
        let lease = unique("election");
        let holders = Arc::new(Mutex::new(Vec::new()));
        let api: Api<Lease> = Api::namespaced(cluster.client().await.unwrap(), OPERATOR_NAMESPACE);
        let (sink, changes) = (Arc::clone(&holders), watch_object(api, &lease).default_backoff());
        tokio::spawn(changes.for_each(move |lease| {
            // Failures belong to an outage that a test has made.
            if let Ok(lease) = lease {
                let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
                sink.lock().unwrap().push(holder);
            }
            std::future::ready(())
        }));
        Self {
            cluster,
            kubeconfig,
            lease,
            holders,
            _quiet: quiet,
        }
    }

    fn join(&self, flags: &[&str]) -> Operator {
        let duration = format!("--lease-duration={}s", LEASE_DURATION.as_secs());
        // A namespace that does not exist: in a cluster that others share, its leader has no engine to reconcile.
        let scope = ["--namespaces", "nowhere", "--lease-name", &self.lease, &duration];
        let flags = [&scope, flags].concat();
        Operator::start(&self.cluster, &self.kubeconfig, &flags)
    }

    /// A leader and a standby.
    fn leader_and_standby(&self) -> (Operator, Operator) {
        self.leader_and_standby_with(&[])
    }

    /// The same, with more flags than usual.
    fn leader_and_standby_with(&self, flags: &[&str]) -> (Operator, Operator) {
        let leader = self.join(flags);
        eventually("the first one leads", SOON, || leader.leads());
        let standby = self.join(flags);
        // It is logged once the lease has been read.
        standby.wait_for_log(&format!("standing by, lease is held by {}", leader.identity));
        eventually("the watch reports the leader", SOON, || {
            self.holders().last() == Some(&Some(leader.identity.clone()))
        });
        (leader, standby)
    }

    fn field(&self, path: &str) -> String {
        let path = format!("jsonpath={{.{path}}}");
        self.cluster
            .kubectl(&["get", "lease", "-n", OPERATOR_NAMESPACE, &self.lease, "-o", &path])
            .unwrap()
    }

    fn holders(&self) -> Vec<Option<String>> {
        self.holders.lock().unwrap().clone()
    }

    /// Waits until the lease has had no holder after the first `before` observations, and this operator is the next holder.
    fn wait_for_next_holder(&self, before: usize, next: &Operator) {
        let what = format!("the lease has no holder, then {}", next.identity);
        eventually(what, SOON, || {
            let changes = self.holders().split_off(before);
            let free = changes.iter().position(Option::is_none);
            free.is_some_and(|free| changes[free..].iter().flatten().next() == Some(&next.identity))
        });
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        let _best_effort = self.cluster.kubectl(&[
            "delete",
            "lease",
            "-n",
            OPERATOR_NAMESPACE,
            &self.lease,
            "--ignore-not-found",
        ]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_standby_leads_within_the_lease_time() {
    let election = Election::start().await;
    let (mut leader, standby) = election.leader_and_standby();
    let duration = election.field("spec.leaseDurationSeconds");
    assert_eq!(
        (election.field("spec.holderIdentity"), duration),
        (leader.identity.clone(), LEASE_DURATION.as_secs().to_string())
    );
    leader.signal(Signal::KILL);
    let took = eventually("the standby leads", SOON, || standby.leads());
    assert!(took < LEASE_DURATION + SLACK, "took {took:?}");
    assert!(
        took > LEASE_DURATION / 3,
        "took {took:?}, while the dead leader could still have been alive"
    );
    assert!(!leader.runs());
    assert_eq!(election.field("spec.leaseTransitions"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_stopped_the_standby_leads_at_once() {
    let election = Election::start().await;
    // A standby that waited for the lease to expire would not lead soon.
    let (mut leader, standby) = election.leader_and_standby_with(&["--lease-duration=2m"]);
    let before = election.holders().len();
    leader.signal(Signal::TERM);
    let took = eventually("the standby leads", SOON, || standby.leads());
    println!("handed over in {took:?}");
    assert_eq!(leader.wait(SOON).code(), Some(0));
    leader.wait_for_log("released lease");
    assert_eq!(election.field("spec.holderIdentity"), standby.identity);
    election.wait_for_next_holder(before, &standby);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_stopped_leaves_the_lease_alone() {
    let election = Election::start().await;
    let (leader, mut standby) = election.leader_and_standby();
    standby.signal(Signal::INT);
    assert_eq!(standby.wait(SOON).code(), Some(0));
    assert!(leader.leads());
    assert_eq!(election.field("spec.holderIdentity"), leader.identity);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_paused_beyond_its_lease_ends_and_writes_nothing() {
    let election = Election::start().await;
    let (mut leader, standby) = election.leader_and_standby();
    leader.signal(Signal::STOP);
    eventually("the standby leads", SOON, || standby.leads());
    let before = election.holders().len();
    leader.signal(Signal::CONT);
    assert_eq!(leader.wait(SOON).code(), Some(3));
    leader.wait_for_log(&format!("lost the lease {OPERATOR_NAMESPACE}/{}", election.lease));
    // Two more renewals, so that a late write of the first one would have been seen.
    eventually("the standby renews", SOON, || election.holders().len() >= before + 2);
    let after = &election.holders()[before..];
    assert!(
        after.iter().all(|holder| holder.as_deref() == Some(&standby.identity)),
        "{after:?}"
    );
    assert!(standby.leads());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lease_comes_back_with_the_same_leader() {
    let election = Election::start().await;
    let (leader, standby) = election.leader_and_standby();
    let before = election.holders().len();
    election
        .cluster
        .kubectl(&["delete", "lease", "-n", OPERATOR_NAMESPACE, &election.lease])
        .unwrap();
    election.wait_for_next_holder(before, &leader);
    let recreated = election.field("spec.renewTime");
    eventually("it is renewed", SOON, || election.field("spec.renewTime") != recreated);
    assert_eq!(election.field("spec.holderIdentity"), leader.identity);
    assert!(leader.leads());
    assert!(!standby.leads());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_was_taken_ends_at_once() {
    let election = Election::start().await;
    let mut leader = election.join(&["--lease-duration=1h"]);
    eventually("it leads", SOON, || leader.leads());
    let patch = r#"{"spec": {"holderIdentity": "someone-else"}}"#;
    let lease = &election.lease;
    election
        .cluster
        .kubectl(&[
            "patch",
            "lease",
            "-n",
            OPERATOR_NAMESPACE,
            lease,
            "--type=merge",
            "-p",
            patch,
        ])
        .unwrap();
    assert_eq!(leader.wait(Duration::from_secs(5)).code(), Some(3));
    leader.wait_for_log("it is held by someone-else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_carries_on_when_someone_edits_its_lease() {
    let election = Election::start().await;
    let leader = election.join(&[]);
    eventually("it leads", SOON, || leader.leads());
    let lease = &election.lease;
    election
        .cluster
        .kubectl(&["annotate", "lease", "-n", OPERATOR_NAMESPACE, lease, "note=kept"])
        .unwrap();
    let before = election.field("spec.renewTime");
    eventually("it is renewed", SOON, || election.field("spec.renewTime") != before);
    assert_eq!(election.field("metadata.annotations.note"), "kept");
    assert!(leader.leads());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_identity_only_one_leads() {
    let election = Election::start().await;
    let first = election.join(&["--identity=twin"]);
    eventually("the first one leads", SOON, || first.leads());
    let second = election.join(&["--identity=twin"]);
    let before = election.holders().len();
    eventually("the lease is renewed past its first expiry", SOON, || {
        election.holders().len() >= before + 5
    });
    assert!(first.leads() && !second.leads());
}

/// Needs a cluster of its own, since it takes the API server away.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_ends_leadership_only_if_it_outlasts_the_lease() {
    let _alone = CONTROL_PLANES.write().await;
    let election = Election::start_on(Cluster::start(Options::default()).await.unwrap(), None).await;
    let (mut leader, mut standby) = election.leader_and_standby();
    let mut patient = election.join(&["--lease-name=patient", "--lease-duration=5m"]);
    eventually("the patient one leads", SOON, || patient.leads());

    election.cluster.stop_component(Component::KubeApiserver).unwrap();
    let start = Instant::now();
    assert_eq!(leader.wait(SOON).code(), Some(3));
    assert!(start.elapsed() < LEASE_DURATION, "{:?}", start.elapsed());
    leader.wait_for_log("it could not be renewed within 4s");
    election
        .cluster
        .start_component(Component::KubeApiserver)
        .await
        .unwrap();

    eventually("the standby leads", SOON, || standby.leads());
    assert!(patient.runs() && standby.runs());
    assert!(patient.leads(), "its lease outlasted the outage");
}
