//! Clusters as their users meet them: side by side, with identities, and gone without a trace whatever ends their owner.

#![expect(clippy::disallowed_methods, reason = "tests create the objects that they ask for")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use localkube::{Cluster, Component, Options, processes_of};
use rustix::process::{Pid, Signal, getsid};
use support::Holder;
use testkit::wait::{SOON, eventually};

fn options(base: &Path) -> Options {
    Options {
        base: base.to_owned(),
        ..Options::default()
    }
}

/// A folder that other users cannot read, as that of clusters has to be.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .expect("create a folder")
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

async fn who_am_i(client: Client) -> String {
    let review = Api::all(client)
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .expect("review");
    review
        .status
        .and_then(|status| status.user_info)
        .and_then(|user| user.username)
        .unwrap_or_default()
}

#[tokio::test]
async fn two_clusters_run_side_by_side_and_leave_no_trace() {
    let base = folder();
    let (one, two) = tokio::join!(
        Cluster::start(options(base.path())),
        Cluster::start(options(base.path()))
    );
    let (one, two) = (one.expect("start one"), two.expect("start another"));
    let api = |client| Api::<Namespace>::all(client);
    let only_here = namespace("only-here");
    api(one.client().await.expect("client"))
        .create(&PostParams::default(), &only_here)
        .await
        .expect("create");
    let other = api(two.client().await.expect("client"))
        .get_opt("only-here")
        .await
        .expect("get");
    assert!(other.is_none(), "each has its own data");

    let dirs = [one.dir().to_owned(), two.dir().to_owned()];
    for dir in &dirs {
        assert_eq!(processes_of(dir).len(), Component::CONTROL_PLANE.len());
    }
    drop(one);
    assert!(processes_of(&dirs[0]).is_empty() && !dirs[0].exists());
    two.kubectl(&["get", "--raw", "/readyz"]).expect("the other goes on");
    let panicked = std::thread::spawn(move || {
        let _two = two;
        panic!("on purpose, with a cluster in hand");
    });
    panicked.join().expect_err("it panics");
    assert!(processes_of(&dirs[1]).is_empty() && !dirs[1].exists());
}

#[tokio::test]
async fn a_service_account_is_itself_and_may_do_only_what_it_is_allowed() {
    let cluster = Cluster::attach();
    let name = "localkube-test-account";
    let kubeconfig = cluster
        .service_account_kubeconfig("default", name)
        .await
        .expect("kubeconfig");
    let client = cluster.client_for(&kubeconfig).await.expect("client");
    let user = format!("system:serviceaccount:default:{name}");
    assert_eq!(who_am_i(client.clone()).await, user);
    let listed = Api::<ConfigMap>::namespaced(client, "kube-system")
        .list(&ListParams::default())
        .await;
    assert!(
        matches!(listed, Err(kube::Error::Api(status)) if status.is_forbidden()),
        "authorization is on"
    );

    let audit = cluster.audit_log();
    eventually("the audit log has the request", SOON, || {
        let log = fs::read_to_string(&audit).expect("read the audit log");
        log.lines()
            .any(|line| line.contains(&user) && line.contains("configmaps") && line.contains(r#""code":403"#))
    });
    let again = cluster
        .service_account_kubeconfig("default", name)
        .await
        .expect("one that exists will do");
    assert_eq!(again, kubeconfig);
    cluster.kubectl(&["delete", "serviceaccount", name]).expect("clean up");
}

#[tokio::test]
async fn a_user_has_a_name_and_a_group() {
    let cluster = Cluster::attach();
    let plain = cluster.user_kubeconfig("jane", None).expect("kubeconfig");
    let client = cluster.client_for(&plain).await.expect("client");
    assert_eq!(who_am_i(client.clone()).await, "jane");
    assert!(
        Api::<Namespace>::all(client)
            .list(&ListParams::default())
            .await
            .is_err()
    );
    let mighty = cluster
        .user_kubeconfig("joe", Some("system:masters"))
        .expect("kubeconfig");
    let client = cluster.client_for(&mighty).await.expect("client");
    Api::<Namespace>::all(client)
        .list(&ListParams::default())
        .await
        .expect("the group decides");
}

#[tokio::test]
async fn controllers_work_and_kubectl_reads_its_input() {
    let cluster = Cluster::attach();
    let name = "localkube-test-input";
    let manifest = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    let printed = cluster
        .kubectl_with_input(&["apply", "-f", "-"], &manifest)
        .expect("apply");
    assert_eq!(printed, format!("namespace/{name} created\n"));
    eventually("the controller manager adds the default service account", SOON, || {
        cluster
            .kubectl(&["get", "serviceaccount", "default", "--namespace", name])
            .is_ok()
    });
    cluster
        .kubectl(&["delete", "namespace", name])
        .expect("the namespace controller finishes it");
    let error = cluster
        .kubectl(&["get", "namespace", name])
        .expect_err("it is gone")
        .to_string();
    assert!(
        error.starts_with("run kubectl get namespace") && error.contains("NotFound"),
        "{error}"
    );
}

#[tokio::test]
async fn a_component_restarts_with_its_data() {
    let base = folder();
    let cluster = Cluster::start(options(base.path())).await.expect("start");
    cluster.kubectl(&["create", "namespace", "kept"]).expect("create");
    for component in [Component::KubeApiserver, Component::Etcd, Component::KubeScheduler] {
        cluster.restart(component).await.expect("restart");
    }
    eventually("the data is there", SOON, || {
        cluster.kubectl(&["get", "namespace", "kept"]).is_ok()
    });
    assert_eq!(processes_of(cluster.dir()).len(), Component::CONTROL_PLANE.len());
}

#[tokio::test]
async fn a_component_that_ends_fails_the_start_at_once_with_its_last_words() {
    let base = folder();
    let assets = folder();
    let script = "#!/bin/sh\necho 'the store is on fire' >&2\nexit 3\n";
    support::write_script(&assets.path().join("etcd"), script);
    let holder = Holder::start(base.path(), &[("KUBEBUILDER_ASSETS", assets.path())]);
    let (success, stderr) = holder.end_by_itself();
    assert!(!success);
    assert!(
        stderr.contains("etcd") && stderr.contains("the store is on fire"),
        "{stderr}"
    );
    assert_eq!(support::clusters(base.path()).len(), 0, "nothing is left");
}

#[tokio::test]
async fn an_interrupted_owner_cleans_up() {
    for signal in [Signal::INT, Signal::TERM] {
        let base = folder();
        let mut holder = Holder::start(base.path(), &[]);
        let dir = holder.dir();
        assert_eq!(processes_of(&dir).len(), Component::CONTROL_PLANE.len());
        holder.signal(signal);
        assert_eq!(
            holder.ended_by(),
            Some(signal.as_raw()),
            "the parent observes the signal"
        );
        assert!(processes_of(&dir).is_empty() && !dir.exists());
    }
}

#[tokio::test]
async fn an_owner_interrupted_while_it_starts_leaves_nothing() {
    let base = folder();
    let holds = |file: &'static str| {
        let base = base.path();
        move || support::clusters(base).iter().any(|dir| dir.join(file).exists())
    };
    for moment in [
        "",
        "pki",
        "pki/ca.key",
        "kubeconfig",
        "logs/etcd.log",
        "logs/kube-scheduler.log",
    ] {
        let mut holder = Holder::start(base.path(), &[]);
        eventually(format!("{moment:?} is there"), SOON, holds(moment));
        holder.signal(Signal::TERM);
        assert_eq!(holder.ended_by(), Some(Signal::TERM.as_raw()), "at {moment:?}");
        assert!(support::clusters(base.path()).is_empty(), "at {moment:?}");
    }
}

#[tokio::test]
async fn a_program_of_the_caller_ends_with_the_cluster() {
    let base = folder();
    let cluster = Cluster::start(options(base.path())).await.expect("start");
    let script = ["-c", "echo hello; exec sleep 600"].map(str::to_owned);
    let start = || cluster.spawn("guest", Path::new("sh"), &script).expect("start a shell");
    let guests = || {
        let all = processes_of(cluster.dir()).into_iter();
        all.filter(|process| process.component == "guest").collect::<Vec<_>>()
    };
    let mut first = start();
    assert_eq!(guests().len(), 1);
    eventually("its words are in its log", SOON, || {
        fs::read_to_string(cluster.log("guest")).is_ok_and(|log| log == "hello\n")
    });
    let pid = Pid::from_child(&first);
    assert_eq!(getsid(Some(pid)), Ok(pid), "it has a session of its own");
    cluster.end("guest").expect("end it");
    assert!(guests().is_empty());
    first.wait().expect("reap");

    let mut second = start();
    drop(cluster);
    let ended = second.wait().expect("reap");
    assert!(!ended.success(), "it did not end by itself");
}

#[tokio::test]
async fn what_a_killed_owner_leaves_is_cleared_by_the_next_start() {
    let base = folder();
    let mut holder = Holder::start(base.path(), &[]);
    let dir = holder.dir();
    holder.signal(Signal::KILL);
    holder.ended_by();
    assert_eq!(
        processes_of(&dir).len(),
        Component::CONTROL_PLANE.len(),
        "no process was there to end them"
    );

    let next = Cluster::start(options(base.path())).await.expect("start");
    assert!(processes_of(&dir).is_empty() && !dir.exists());
    assert_eq!(processes_of(next.dir()).len(), Component::CONTROL_PLANE.len());
}

#[tokio::test]
async fn an_owner_killed_while_it_starts_leaves_nothing_that_is_not_cleared() {
    let base = folder();
    let mut holder = Holder::start(base.path(), &[]);
    eventually("the first processes run", SOON, || {
        support::processes_in(base.path()) > 0
    });
    holder.signal(Signal::KILL);
    holder.ended_by();

    let next = Cluster::start(options(base.path())).await.expect("start");
    assert_eq!(support::clusters(base.path()).len(), 1);
    assert_eq!(support::processes_in(base.path()), Component::CONTROL_PLANE.len());
    drop(next);
    assert_eq!(support::processes_in(base.path()), 0);
}
