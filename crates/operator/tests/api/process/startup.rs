//! The process under its own service account: readiness, caches, metrics, shutdown.

use std::time::Duration;

use localkube::{Cluster, Options};
use rustix::process::Signal;
use testkit::http::send;
use testkit::wait::{SOON, eventually};

use crate::support::{CONTROL_PLANES, Operator, engine, install_crds, namespace, prepare, service_account, unique};

const ENGINES: &str = "firebolt_operator_cached_objects{kind=\"FireboltEngine\"}";
const MALFORMED: &str = "firebolt_operator_malformed_objects{kind=\"FireboltEngine\"}";
const FAILURES: &str = "firebolt_operator_watch_failures_total{kind=\"FireboltEngine\"}";

fn apply(cluster: &Cluster, manifest: &str) {
    cluster
        .kubectl_with_input(&["apply", "--server-side", "-f", "-"], manifest)
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_becomes_ready_and_caches_what_is_in_scope() {
    let cluster = Cluster::attach();
    let kubeconfig = prepare(&cluster).await;
    let (inside, outside) = (namespace(&cluster).await, namespace(&cluster).await);
    for manifest in [
        engine(&inside, "a", "blue"),
        engine(&inside, "b", "red"),
        engine(&outside, "c", "blue"),
    ] {
        apply(&cluster, &manifest);
    }
    let scoped = Operator::start(
        &cluster,
        &kubeconfig,
        &["--namespaces", &inside, "--lease-name", &unique("scoped")],
    );
    let both = format!("{inside},{outside}");
    let lease = unique("selected");
    let selected = Operator::start(
        &cluster,
        &kubeconfig,
        &[
            "--namespaces",
            &both,
            "--watch-label-selector=team=blue",
            "--lease-name",
            &lease,
        ],
    );
    scoped.wait_until_ready();
    selected.wait_until_ready();
    assert_eq!(scoped.metric(ENGINES), Some(2.0));
    assert_eq!(selected.metric(ENGINES), Some(2.0));

    cluster
        .kubectl(&["delete", "fireboltengine", "-n", &inside, "a"])
        .unwrap();
    eventually("the deletion is seen", SOON, || {
        scoped.metric(ENGINES) == Some(1.0) && selected.metric(ENGINES) == Some(1.0)
    });
    cluster
        .kubectl(&[
            "label",
            "fireboltengine",
            "-n",
            &inside,
            "b",
            "team=blue",
            "--overwrite",
        ])
        .unwrap();
    eventually("the label brings it into scope", SOON, || {
        selected.metric(ENGINES) == Some(2.0)
    });

    assert_eq!(scoped.health("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(scoped.health("/metrics").0, 404);
    let metrics = scoped.metrics_answer();
    assert!(
        metrics.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{metrics}"
    );
    assert!(metrics.contains("firebolt_operator_build_info{version="), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    cluster
        .kubectl(&["delete", "namespace", "--wait=false", &inside, &outside])
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_for_the_whole_cluster_are_explained() {
    let cluster = Cluster::attach();
    prepare(&cluster).await;
    let name = unique("no-permissions");
    let kubeconfig = cluster
        .service_account_kubeconfig(crate::support::OPERATOR_NAMESPACE, &name)
        .await
        .unwrap();
    let operator = Operator::start(&cluster, &kubeconfig, &["--leader-elect=false"]);
    operator.wait_for_log("cannot watch FireboltEngine:");
    let (status, text) = operator.health("/readyz");
    assert_eq!(status, 503);
    for expected in [
        "waiting for FireboltEngine: ",
        "cannot list resource",
        "grant get, list and watch",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(operator.leads(), "without an election the only replica leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_for_leases_is_reported_and_the_operator_leads_once_it_is_granted() {
    let cluster = Cluster::attach();
    let kubeconfig = prepare(&cluster).await;
    let namespace = namespace(&cluster).await;
    let flags = [
        "--namespaces",
        &namespace,
        "--lease-namespace",
        &namespace,
        "--lease-duration=6s",
    ];
    let mut operator = Operator::start(&cluster, &kubeconfig, &flags);
    let complaint = format!("cannot get lease {namespace}/firebolt-operator: forbidden");
    let remedy = "Grant get, list, watch, create and update on leases.coordination.k8s.io";
    let line = operator.wait_for_log(&complaint);
    let message = line["message"].as_str().unwrap();
    assert!(message.contains(remedy), "{message}");
    assert!(operator.runs() && !operator.leads());
    let line = format!("waiting for the leader election: {complaint}");
    eventually("only the lease is missing", SOON, || {
        let (status, text) = operator.health("/readyz");
        status == 503 && text.lines().count() == 1 && text.starts_with(&line) && text.contains(remedy)
    });

    grant(&cluster, &namespace, "get,create,update");
    eventually("it leads", SOON, || operator.leads());
    operator.wait_until_ready();
    operator.wait_for_log(&format!("cannot watch lease {namespace}/firebolt-operator"));
    grant(&cluster, &namespace, "list,watch");
    operator.wait_for_log(&format!("watch of lease {namespace}/firebolt-operator recovered"));
    cluster
        .kubectl(&["delete", "namespace", "--wait=false", &namespace])
        .unwrap();
}

/// Grants the operator more on the leases of a namespace.
fn grant(cluster: &Cluster, namespace: &str, verbs: &str) {
    let (name, verbs) = (verbs.replace(',', "-"), format!("--verb={verbs}"));
    let (resource, role) = ("--resource=leases.coordination.k8s.io", format!("--role={name}"));
    let account = "--serviceaccount=firebolt-system:firebolt-operator";
    for arguments in [
        ["create", "role", &name, &verbs, resource, "-n", namespace],
        ["create", "rolebinding", &name, &role, account, "-n", namespace],
    ] {
        cluster.kubectl(&arguments).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once() {
    let cluster = Cluster::attach();
    let kubeconfig = prepare(&cluster).await;
    let flags = ["--leader-elect=false", "--namespaces", &namespace(&cluster).await];
    let mut operator = Operator::start(&cluster, &kubeconfig, &flags);
    // A request that never ends keeps the server from closing. Connections are taken in their order, so an answer on a
    // later one shows that this one is open.
    let _unfinished = send(operator.health_address(), "GET /healthz HTTP/1.1\r\nHost:").unwrap();
    assert_eq!(operator.health("/healthz").0, 200);
    operator.signal(Signal::TERM);
    operator.wait_for_log("received SIGTERM, stopping");
    operator.signal(Signal::INT);
    assert_eq!(operator.wait(SOON).code(), Some(1));
    operator.wait_for_log("received a second signal");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_quiet_at_rest() {
    let _quiet = CONTROL_PLANES.read().await;
    let cluster = Cluster::attach();
    let kubeconfig = prepare(&cluster).await;
    // No other client writes there.
    let namespace = namespace(&cluster).await;
    let lease = unique("quiet");
    let flags = [
        "--namespaces",
        &namespace,
        "--lease-duration=6s",
        "--lease-name",
        &lease,
    ];
    let mut operator = Operator::start(&cluster, &kubeconfig, &flags);
    operator.wait_until_ready();
    operator.wait_for_log("acquired lease, leading");
    let before = operator.log();
    // Several renewals later, nothing has been said.
    let kept = eventually_holds(Duration::from_secs(7), || operator.leads());
    assert!(kept, "the lease was lost: {:#?}", operator.log());
    assert_eq!(operator.log(), before);
    operator.signal(Signal::TERM);
    assert_eq!(operator.wait(SOON).code(), Some(0));
    cluster
        .kubectl(&["delete", "namespace", "--wait=false", &namespace])
        .unwrap();
}

fn eventually_holds(span: Duration, mut ask: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while start.elapsed() < span {
        if !ask() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

/// The parser of the client gives up at 128 levels, the API server at 10 000.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_nested_too_deeply_stalls_neither_watch_nor_start() {
    let cluster = Cluster::attach();
    let kubeconfig = prepare(&cluster).await;
    let namespace = namespace(&cluster).await;
    let (first, second) = (unique("deep"), unique("deep"));
    let scope = ["--namespaces", &namespace, "--lease-name"];
    let watching = Operator::start(&cluster, &kubeconfig, &[&scope[..], &[&first]].concat());
    watching.wait_until_ready();
    let objects = format!("/apis/compute.firebolt.io/v1alpha1/namespaces/{namespace}/fireboltengines");
    for levels in [200, 2000] {
        let deep = nested_engine(&format!("deep-{levels}"), levels);
        cluster
            .kubectl_with_input(&["create", "--raw", &objects, "-f", "-"], &deep)
            .unwrap();
    }
    for name in ["a", "b"] {
        apply(&cluster, &engine(&namespace, name, "blue"));
    }
    // As after a restart.
    let listing = Operator::start(&cluster, &kubeconfig, &[&scope[..], &[&second]].concat());
    listing.wait_until_ready();
    for operator in [&watching, &listing] {
        eventually("two are cached and two are counted", SOON, || {
            operator.metric(ENGINES) == Some(2.0) && operator.metric(MALFORMED) == Some(2.0)
        });
        for levels in [200, 2000] {
            let line = operator.wait_for_log(&format!("FireboltEngine {namespace}/deep-{levels} cannot be parsed"));
            let message = line["message"].as_str().unwrap();
            assert!(message.contains("recursion limit exceeded"), "{message}");
            assert!(message.chars().count() < 500, "{message}");
        }
    }
    cluster
        .kubectl(&["delete", "fireboltengine", "-n", &namespace, "deep-200", "deep-2000"])
        .unwrap();
    for operator in [&watching, &listing] {
        eventually("the deletion is seen", SOON, || {
            operator.metric(ENGINES) == Some(2.0) && operator.metric(MALFORMED) == Some(0.0)
        });
        assert_eq!(operator.metric(FAILURES), Some(0.0), "{:#?}", operator.log());
    }
    cluster
        .kubectl(&["delete", "namespace", "--wait=false", &namespace])
        .unwrap();
}

fn nested_engine(name: &str, levels: usize) -> String {
    let config = format!("{}{{}}{}", "{\"a\": ".repeat(levels), "}".repeat(levels));
    format!(
        "{{\"apiVersion\": \"compute.firebolt.io/v1alpha1\", \"kind\": \"FireboltEngine\", \"metadata\": {{\"name\": \
         \"{name}\"}}, \"spec\": {{\"instanceRef\": \"i\", \"replicas\": 1, \"customEngineConfig\": {config}}}}}"
    )
}

/// Needs a cluster of its own, since it takes definitions away and loosens them.
#[tokio::test(flavor = "multi_thread")]
async fn crds_can_be_created_later_and_a_malformed_object_stalls_nothing() {
    let _alone = CONTROL_PLANES.write().await;
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let kubeconfig = service_account(&cluster).await;
    let early = Operator::start(&cluster, &kubeconfig, &["--lease-name=early"]);
    early.wait_for_log("acquired lease, leading");
    early.wait_for_log("cannot watch FireboltEngineClass: the CRD is not installed");
    early.wait_for_log("cannot watch FireboltInstance: the CRD is not installed");
    early.wait_for_log("cannot watch FireboltEngine: the CRD is not installed");
    let (status, text) = early.health("/readyz");
    assert_eq!(status, 503);
    let remedy = "waiting for FireboltEngine: the CRD is not installed: run `firebolt-operator crds | kubectl apply \
                  --server-side -f -`\n";
    assert!(text.contains(remedy), "{text}");
    let uninstalled = text.lines().filter(|line| line.contains("the CRD is not installed"));
    assert_eq!(uninstalled.count(), 3, "{text}");

    install_crds(&cluster).await;
    let took = eventually("ready after the installation", SOON, || {
        early.health("/readyz").0 == 200
    });
    // A watch that fails is retried after up to ten seconds; the rest is for a list and a watch on a busy machine.
    assert!(took < Duration::from_secs(20), "{took:?}");
    let complaints = early.log().iter().filter(|line| line.contains("cannot watch")).count();
    assert_eq!(complaints, 3, "each error is reported once: {:#?}", early.log());

    store_malformed_engine(&cluster).await;
    apply(&cluster, &engine("default", "good", "blue"));
    let late = Operator::start(&cluster, &kubeconfig, &["--lease-name=late"]);
    late.wait_until_ready();
    for operator in [&early, &late] {
        eventually("one is cached and one is counted", SOON, || {
            operator.metric(ENGINES) == Some(1.0) && operator.metric(MALFORMED) == Some(1.0)
        });
        let line = operator.wait_for_log("FireboltEngine default/bad cannot be parsed and is not reconciled");
        let place = "spec.replicas: invalid type: string \"many\"";
        assert!(line["message"].as_str().unwrap().contains(place), "{line}");
    }
    let fix = r#"{"spec": {"replicas": 2}}"#;
    cluster
        .kubectl(&["patch", "fireboltengine", "bad", "--type=merge", "-p", fix])
        .unwrap();
    for operator in [&early, &late] {
        eventually("the correction is seen", SOON, || {
            operator.metric(ENGINES) == Some(2.0) && operator.metric(MALFORMED) == Some(0.0)
        });
        operator.wait_for_log("FireboltEngine default/bad can be parsed again");
    }
}

/// Stores an engine that the CRD would reject, by removing its schema for a moment.
async fn store_malformed_engine(cluster: &Cluster) {
    let definition = "crd/fireboltengines.compute.firebolt.io";
    // The scale subresource would check the type of its field too.
    let open = r#"[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
                    "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                   {"op": "remove", "path": "/spec/versions/0/subresources/scale"}]"#;
    cluster
        .kubectl(&["patch", definition, "--type=json", "-p", open])
        .unwrap();
    let bad = engine("default", "bad", "blue").replace("replicas: 1", "replicas: many");
    eventually("the looser definition is in force", SOON, || {
        cluster.kubectl_with_input(&["create", "-f", "-"], &bad).is_ok()
    });
    install_crds(cluster).await;
    let refused = engine("default", "refused", "blue").replace("replicas: 1", "replicas: many");
    eventually("the definition is in force again", SOON, || {
        cluster
            .kubectl_with_input(&["create", "--dry-run=server", "-f", "-"], &refused)
            .is_err()
    });
}
