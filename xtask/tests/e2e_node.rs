//! Nodes of a local Kubernetes, from end to end.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use localkube::{Cluster, control_groups_of, processes_of};

use support::{Place, text};
use testkit::wait::eventually;

const LIMIT: Duration = Duration::from_mins(1);
/// An image with a shell, and one with a server on port 9100 too.
const SHELL: &str = "ghcr.io/firebolt-db/engine:next";
const SERVER: &str = "ghcr.io/firebolt-db/firebolt-core-ui:stand-in";

/// One cluster for all of it: starting one takes longer than most of this.
#[test]
fn two_nodes_run_pods_and_what_is_killed_is_cleared_by_the_next_up() {
    let place = Place::new();
    let up = place.kube("up").args(["--nodes", "2"]).output().expect("run xtask");
    assert!(up.status.success(), "{}", text(&up));
    let mut images = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let images = images.args(["images", "--dir"]).arg(place.dir()).output();
    let images = images.expect("run xtask");
    assert!(images.status.success(), "{}", text(&images));
    let cluster = Cluster::open(&place.dir()).expect("find the cluster");

    pods_of_both_nodes_reach_each_other(&cluster);
    a_claim_keeps_its_data_over_pods_and_leaves_nothing(&cluster);
    a_pod_that_takes_more_memory_than_its_limit_is_killed(&cluster);

    drop(cluster);
    what_is_killed_is_cleared_by_the_next_up(&place);
    place.clear();
}

fn pods_of_both_nodes_reach_each_other(cluster: &Cluster) {
    for number in [1, 2] {
        apply(cluster, &server(number));
    }
    for number in [1, 2] {
        wait(cluster, &format!("pod/web-{number}"), "condition=Ready");
    }
    let field = |what: &str, path: &str| kubectl(cluster, &["get", what, "-o", &format!("jsonpath={path}")]);
    for (from, to) in [(1, 2), (2, 1)] {
        let node = field(&format!("pod/web-{from}"), "{.spec.nodeName}");
        assert_eq!(node, format!("node-{from}"));
        let pod = field(&format!("pod/web-{to}"), "{.status.podIP}");
        let service = field(&format!("service/web-{to}"), "{.spec.clusterIP}");
        let name = format!("web-{to}.default.svc.cluster.local");
        for (address, port) in [(pod, 9100), (service, 80), (format!("web-{to}"), 80), (name, 80)] {
            let ask = format!(
                "exec 3<>/dev/tcp/{address}/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; read -r line <&3; echo \"$line\""
            );
            let answer = kubectl(cluster, &["exec", &format!("web-{from}"), "--", "bash", "-ec", &ask]);
            assert!(
                answer.starts_with("HTTP/1.1 200 "),
                "web-{from} to {address}: {answer:?}"
            );
        }
    }
}

fn server(number: u8) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "List", "items": [
  {{"apiVersion": "v1", "kind": "Service", "metadata": {{"name": "web-{number}"}},
    "spec": {{"selector": {{"web": "{number}"}}, "ports": [{{"port": 80, "targetPort": 9100}}]}}}},
  {{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "web-{number}", "labels": {{"web": "{number}"}}}},
    "spec": {{"nodeName": "node-{number}", "terminationGracePeriodSeconds": 0,
      "volumes": [{{"name": "cache", "emptyDir": {{}}}}, {{"name": "run", "emptyDir": {{}}}}],
      "containers": [{{"name": "web", "image": "{SERVER}",
        "readinessProbe": {{"tcpSocket": {{"port": 9100}}, "periodSeconds": 1}},
        "volumeMounts": [{{"name": "cache", "mountPath": "/var/cache/nginx"}},
          {{"name": "run", "mountPath": "/var/run/nginx"}}]}}]}}}}]}}"#
    )
}

fn a_claim_keeps_its_data_over_pods_and_leaves_nothing(cluster: &Cluster) {
    apply(
        cluster,
        r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "kept"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#,
    );
    // The first to come writes its name, and both say whose they find.
    let script = "[ -e /data/name ] || echo $HOSTNAME > /data/name; read -r name < /data/name; echo $name";
    for name in ["first", "second"] {
        apply(
            cluster,
            &format!(
                r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}},
  "spec": {{"restartPolicy": "Never", "volumes": [{{"name": "data", "persistentVolumeClaim": {{"claimName": "kept"}}}}],
    "containers": [{{"name": "shell", "image": "{SHELL}", "command": ["bash", "-ec", "{script}"],
      "volumeMounts": [{{"name": "data", "mountPath": "/data"}}]}}]}}}}"#
            ),
        );
        wait(cluster, &format!("pod/{name}"), "jsonpath={.status.phase}=Succeeded");
        assert_eq!(kubectl(cluster, &["logs", name]), "first\n");
        kubectl(cluster, &["delete", "pod", name]);
    }
    let volumes = cluster.dir().join("volumes");
    let count = || fs::read_dir(&volumes).expect("list the volumes").count();
    assert_eq!(count(), 1);
    kubectl(cluster, &["delete", "persistentvolumeclaim", "kept"]);
    eventually("the folder of the claim is gone", LIMIT, || count() == 0);
    eventually("the volume is gone", LIMIT, || {
        kubectl(cluster, &["get", "persistentvolume", "-o", "name"]).is_empty()
    });
}

fn a_pod_that_takes_more_memory_than_its_limit_is_killed(cluster: &Cluster) {
    apply(
        cluster,
        &format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "greedy"}},
  "spec": {{"restartPolicy": "Never", "containers": [{{"name": "shell", "image": "{SHELL}",
    "command": ["bash", "-c", "printf -v text %0200000000d 0; sleep infinity"],
    "resources": {{"limits": {{"memory": "32Mi"}}}}}}]}}}}"#
        ),
    );
    let reason = "jsonpath={.status.containerStatuses[0].state.terminated.reason}=OOMKilled";
    wait(cluster, "pod/greedy", reason);
}

/// Everything but the pods is killed at once, as if its owner and all its children had been.
fn what_is_killed_is_cleared_by_the_next_up(place: &Place) {
    let dir = place.dir();
    let killed = processes_of(&dir);
    let numbers: Vec<String> = killed.iter().map(|process| process.pid.to_string()).collect();
    // Stopped first: containerd deletes the pods whose shim is killed before it.
    for signal in ["-STOP", "-KILL"] {
        let kill = Command::new("kill").arg(signal).args(&numbers).status();
        assert!(kill.expect("run kill").success());
    }
    eventually("all are gone", LIMIT, || processes_of(&dir).is_empty());
    let pods = processes_of_pods(&dir);
    assert!(!pods.is_empty(), "pods outlive their node");

    let up = place.kube("up").arg("--node").output().expect("run xtask");
    assert!(
        up.status.success() && text(&up).starts_with("ready in "),
        "{}",
        text(&up)
    );
    let left: Vec<&String> = pods
        .iter()
        .filter(|pid| Path::new("/proc").join(pid).exists())
        .collect();
    assert!(left.is_empty(), "leaked pods: {left:?}");
    let cluster = Cluster::open(&dir).expect("find the cluster");
    wait(&cluster, "node/node-1", "condition=Ready");
    assert_eq!(kubectl(&cluster, &["get", "pods", "-A", "-o", "name"]), "");
}

/// The processes in the control groups of a cluster.
fn processes_of_pods(dir: &Path) -> Vec<String> {
    let mut groups = control_groups_of(dir);
    let mut found = Vec::new();
    while let Some(group) = groups.pop() {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        found.extend(processes.lines().map(str::to_owned));
        let inside = fs::read_dir(&group).into_iter().flatten().flatten();
        groups.extend(inside.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    found.sort();
    found.dedup();
    found
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    cluster.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"))
}

fn apply(cluster: &Cluster, manifest: &str) {
    // The account of pods in a new namespace may take a moment to be there.
    eventually("the account of pods", LIMIT, || {
        cluster.kubectl(&["get", "serviceaccount", "default"]).is_ok()
    });
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], manifest)
        .unwrap_or_else(|error| panic!("{error}: {manifest}"));
}

fn wait(cluster: &Cluster, object: &str, condition: &str) {
    let timeout = format!("--timeout={}s", LIMIT.as_secs());
    let waited = cluster.kubectl(&["wait", object, &format!("--for={condition}"), &timeout]);
    if let Err(error) = waited {
        let described = kubectl(cluster, &["describe", object]);
        panic!("{error}\n{described}");
    }
}
