//! `cargo xtask kube` and `cargo xtask demo` from end to end, and what the handbook says about instances.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use localkube::{Cluster, processes_of};

/// A folder for a control plane, which is gone when the test is over, however it ends.
struct Place {
    base: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            base: tempfile::tempdir().expect("create a folder"),
        }
    }

    fn dir(&self) -> PathBuf {
        self.base.path().canonicalize().expect("the base exists").join("kube")
    }

    fn kube(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["kube", verb, "--dir"]).arg(self.dir());
        command
    }

    fn run(&self, verb: &str) -> Output {
        self.kube(verb).output().expect("run xtask")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.kube("down").stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// How long the start took, from the first line that `up` prints.
fn seconds_to_ready(printed: &str) -> f64 {
    let number = printed
        .strip_prefix("ready in ")
        .and_then(|rest| rest.split(' ').next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no time to ready in: {printed}"))
}

fn assert_gone(dir: &Path) {
    assert!(processes_of(dir).is_empty(), "no process is left");
    assert!(!dir.exists(), "no folder is left");
}

#[test]
fn up_is_idempotent_and_down_leaves_nothing() {
    let place = Place::new();
    let before = place.run("status");
    assert!(
        !before.status.success() && text(&before).contains("not running"),
        "{}",
        text(&before)
    );

    let up = place.run("up");
    assert!(up.status.success(), "{}", text(&up));
    let kubeconfig = place.dir().join("kubeconfig");
    let seconds = seconds_to_ready(&text(&up));
    println!("ready in {seconds} s");
    // A warm start takes less than 10 s on a machine that is idle; this one may be busy with other tests.
    assert!(seconds < 30.0, "a control plane took {seconds} s");
    assert!(
        text(&up).contains(&format!("export KUBECONFIG={}\n", kubeconfig.display())),
        "{}",
        text(&up)
    );
    assert!(kubeconfig.exists());
    let processes = processes_of(&place.dir());
    assert_eq!(processes.len(), 4);

    let again = place.run("up");
    assert!(
        again.status.success() && text(&again).starts_with("already running"),
        "{}",
        text(&again)
    );
    assert_eq!(processes_of(&place.dir()), processes, "the same processes go on");

    let status = place.run("status");
    assert!(status.status.success(), "{}", text(&status));
    for word in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "v1.",
        "kubeconfig",
    ] {
        assert!(text(&status).contains(word), "{word} in {}", text(&status));
    }

    let down = place.run("down");
    assert!(down.status.success(), "{}", text(&down));
    assert_gone(&place.dir());
    assert!(text(&place.run("down")).starts_with("nothing to remove"));
}

#[test]
fn down_after_a_killed_up_leaves_nothing() {
    let place = Place::new();
    for processes in 1..=4 {
        let mut up = place.kube("up").stdout(Stdio::null()).spawn().expect("start xtask");
        let deadline = Instant::now() + Duration::from_secs(30);
        while processes_of(&place.dir()).len() < processes {
            assert!(Instant::now() < deadline, "{processes} processes start");
            thread::sleep(Duration::from_millis(1));
        }
        up.kill().expect("kill it midway");
        up.wait().expect("reap it");
        assert!(!processes_of(&place.dir()).is_empty(), "there is something to clear");
        let down = place.run("down");
        assert!(down.status.success(), "{}", text(&down));
        assert_gone(&place.dir());
    }
}

#[test]
fn up_clears_what_a_killed_up_left() {
    let place = Place::new();
    let mut first = place.kube("up").stdout(Stdio::null()).spawn().expect("start xtask");
    let deadline = Instant::now() + Duration::from_secs(30);
    while processes_of(&place.dir()).is_empty() {
        assert!(Instant::now() < deadline, "a process starts");
        thread::sleep(Duration::from_millis(1));
    }
    first.kill().expect("kill it midway");
    first.wait().expect("reap it");
    let up = place.run("up");
    assert!(
        up.status.success() && text(&up).starts_with("ready in "),
        "{}",
        text(&up)
    );
    assert_eq!(processes_of(&place.dir()).len(), 4);
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let place = Place::new();
    let file = place.dir().join("thesis.txt");
    std::fs::create_dir(place.dir()).expect("create the folder");
    std::fs::write(&file, "years of work").expect("write the file");
    for verb in ["up", "down"] {
        let output = place.run(verb);
        assert!(!output.status.success() && text(&output).contains("holds files of something else"));
    }
    assert!(file.exists());
}

fn demo(place: &Place) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["demo", "--dir"]).arg(place.dir());
    let shown = command.output().expect("run the demo");
    assert!(shown.status.success(), "{}", text(&shown));
    text(&shown)
}

#[test]
fn the_demo_shows_the_operator_at_work_and_leaves_no_trace() {
    let place = Place::new();
    // Twice: the second finds the first and goes on from there.
    for _ in 0..2 {
        let shown = demo(&place);
        for expected in [
            "operator   ready in",
            "instance   Provisioning: The metadata service is not ready",
            "cannot be scheduled: no nodes available",
            "engine     InstanceNotReady: The metadata service of FireboltInstance main",
            "secret/main-metadata-postgres-creds",
            "statefulset.apps/main-metadata-pg",
            "deployment.apps/main-metadata",
            "fireboltinstance.compute.firebolt.io/main",
            "fireboltengine.compute.firebolt.io/analytics",
            "raise activeReplicas",
        ] {
            assert!(shown.contains(expected), "{expected} is not in {shown}");
        }
    }
    let names: Vec<String> = processes_of(&place.dir())
        .into_iter()
        .map(|process| process.component)
        .collect();
    assert!(names.contains(&"firebolt-operator".to_owned()), "{names:?}");
    assert!(place.run("down").status.success());
    assert_gone(&place.dir());
}

const INSTANCES: &str = include_str!("../../docs/operations/instances.md");
const GATEWAY: &str = include_str!("../../docs/operations/gateway.md");

/// The commands that stand in lines of their own, in their order. One that is continued is one command.
fn commands(manual: &str) -> Vec<String> {
    let whole = manual.replace(" \\\n", "");
    let shown = whole.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = shown.filter(|line| line.starts_with("kubectl "));
    commands.map(str::to_owned).collect()
}

/// The manifests that the manual shows.
fn manifests(manual: &str) -> Vec<&str> {
    let after_fences = manual.split("```yaml\n").skip(1);
    after_fences.filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs commands as whoever follows the handbook does: in a shell, in the folder of the repository.
struct Reader {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Reader {
    fn run(&self, command: &str) -> String {
        let kubectl = self.cluster.kubectl_command(&self.cluster.kubeconfig_admin());
        let kubectl = kubectl.expect("find kubectl");
        // Examples are named from the root of the repository, other files from where the reader is.
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/");
        let program = Path::new(kubectl.get_program())
            .parent()
            .expect("kubectl is in a folder");
        let path = format!(
            "{}:{}",
            program.display(),
            std::env::var("PATH").expect("there is a path")
        );
        let done = Command::new("sh")
            .args(["-ec", &command.replace(" examples/", &format!(" {examples}"))])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("KUBECONFIG", self.cluster.kubeconfig_admin())
            .output()
            .expect("run a shell");
        assert!(done.status.success(), "{command}: {}", text(&done));
        text(&done)
    }

    fn wait_for_reason(&self, expected: &str) {
        let deadline = Instant::now() + Duration::from_mins(1);
        let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;
        loop {
            let reason = self.run(&format!("kubectl get fire main -o '{path}'"));
            if reason == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{reason} in place of {expected}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// All of them, in their order, on a cluster in which the operator runs.
#[test]
fn the_commands_of_the_handbook_bring_an_instance_up_mend_it_and_remove_it() {
    let place = Place::new();
    demo(&place);
    let reader = Reader {
        cluster: Cluster::open(&place.dir()).expect("find the cluster of the demo"),
        folder: tempfile::tempdir().expect("create a folder"),
    };
    for manifest in [manifests(INSTANCES), manifests(GATEWAY)].concat() {
        let checked = reader.cluster.kubectl_with_input(
            &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
            manifest,
        );
        checked.unwrap_or_else(|error| panic!("{error}: {manifest}"));
    }
    let commands = commands(INSTANCES);
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let restores = command.starts_with("kubectl create secret");
        if restores {
            reader.run("kubectl delete secret main-metadata-postgres-creds");
            reader.wait_for_reason("PostgresCredentialsLost");
        }
        reader.run(&command);
        if restores {
            reader.wait_for_reason("Provisioning");
        }
    }
    let left = "statefulset,persistentvolumeclaim,deployment,service,configmap,pod,secret";
    let left = reader.run(&format!("kubectl get {left} -l firebolt.io/instance=main"));
    assert!(left.starts_with("No resources found"), "{left}");
    // It has no owner, because the reader made it.
    reader.run("kubectl get secret main-metadata-postgres-creds");
}
