//! The demo as a newcomer runs it, what it suggests, and what the handbook says about instances: all on one cluster with a
//! node, in the order of a reader.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use localkube::Cluster;

use support::{Place, text};
use testkit::wait::eventually;

/// How long anything may take that is waited for here.
const LIMIT: Duration = Duration::from_mins(2);

const INSTANCES: &str = include_str!("../../docs/operations/instances.md");
const GATEWAY: &str = include_str!("../../docs/operations/gateway.md");

#[test]
fn the_demo_and_the_handbook_work_as_documented_and_leave_nothing_behind() {
    let place = Place::new();
    let interfaces = interfaces();
    let shown = demo(&place);
    assert_shows_a_rollout(&shown, 1);
    assert!(shown.contains("\ncluster    node ready in "), "{shown}");
    assert!(
        shown.contains("\nwake       nightly is stopped; SELECT 42  ->  42   ("),
        "{shown}"
    );

    let reader = Reader::new(&place);
    follow_suggestions(&reader, &shown);
    // On the remains of the first, and of what was suggested: the engine is stopped, and has had three generations.
    let again = demo(&place);
    assert_shows_a_rollout(&again, 5);
    assert!(again.contains("\ncluster    already running\n"), "{again}");
    follow_handbook(&reader);

    place.clear();
    assert_eq!(self::interfaces(), interfaces);
}

/// What the demo prints. The progress of cargo goes to standard error.
fn demo(place: &Place) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["demo", "--dir"]).arg(place.dir());
    let shown = command.output().expect("run the demo");
    assert!(shown.status.success(), "{}", text(&shown));
    String::from_utf8(shown.stdout).expect("text")
}

/// Checks what the demo has to show, in its order; `generation` is the one that is rolled out.
fn assert_shows_a_rollout(shown: &str, generation: u32) {
    let old = generation - 1;
    let expected = [
        "operator   2 replicas ready, webhooks trusted (".to_owned(),
        "instance   main: PostgreSQL, metadata service and gateway ready (".to_owned(),
        format!("engine     analytics of class small: generation {old} stable ("),
        "query      SELECT 42  ->  42   (".to_owned(),
        "scale 1 -> 3 under load".to_owned(),
        format!("  creating   g{generation}   pods 3/3"),
        format!("  switching  g{generation}"),
        format!("  draining   g{old}"),
        format!("  cleaning   g{old}"),
        format!("  stable     g{generation}   "),
        "wake       nightly is ".to_owned(),
        "  * spec.template.spec.hostNetwork: Forbidden: ".to_owned(),
        "  * spec.template.spec.containers[engine].env[0].name: Forbidden: ".to_owned(),
        "Try next:".to_owned(),
    ];
    let mut lines = shown.lines();
    for expected in expected {
        assert!(
            lines.any(|line| line.starts_with(&expected)),
            "{expected} has no place in {shown}"
        );
    }
    assert!(shown.contains(" queries served, 0 failed, 0 run twice\n"), "{shown}");
    assert!(!shown.contains(['\r', '\x1b']), "no control characters: {shown:?}");
}

/// Does everything that the demo suggests, in its order.
fn follow_suggestions(reader: &Reader, shown: &str) {
    let (_, suggestions) = shown.split_once("Try next:\n").expect("there are suggestions");
    let commands: Vec<&str> = suggestions.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let [first, forward, ask, patch, watch, stop] = [
        "kubectl get firebolt",
        "kubectl port-forward ",
        "curl ",
        "kubectl patch firengc ",
        "kubectl get fireng --watch",
        "kubectl scale ",
    ]
    .map(|start| {
        let found = commands.iter().find(|command| command.starts_with(start));
        *found.unwrap_or_else(|| panic!("no {start} in {suggestions}"))
    });
    let objects = reader.run(first);
    for object in [
        "engineclass.compute.firebolt.io/small",
        "engine.compute.firebolt.io/analytics",
    ] {
        assert!(objects.contains(object), "{objects}");
    }

    // The port may be taken on this machine.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("find a free port").port().to_string();
    let at_port = |command: &str| command.replace("8080", &port);
    let forward = at_port(forward.strip_suffix(" &").expect("it goes on in the background"));
    reader.read_until(&forward, &["Forwarding from "], || {
        let answer = reader.run(&at_port(ask));
        assert!(answer.contains(r#""data":[[42]]"#), "{answer}");
    });

    reader.run(patch);
    let phases = ["creating", "switching", "draining", "cleaning", "stable"];
    reader.read_until(watch, &phases, || {});
    let image = "kubectl get pods -l firebolt.io/engine=analytics,firebolt.io/generation=2 -o jsonpath='{..image}'";
    let images = reader.run(image);
    assert!(images.contains(":next"), "{images}");

    reader.run(stop);
    reader.run("kubectl wait fireng/analytics --for=jsonpath='{.status.phase}'=stopped --timeout=2m");
    assert!(suggestions.ends_with("  make demo-down\n"));
}

/// All commands of the page about instances, in their order.
fn follow_handbook(reader: &Reader) {
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
            reader.wait_for("PostgresCredentialsLost", reader_reason);
        }
        if command.starts_with("kubectl delete fire ") {
            // The handbook knows nothing of the second engine of the demo.
            reader.run("kubectl delete fireng nightly");
        }
        reader.run(&command);
        if restores {
            reader.wait_for("AllComponentsReady", reader_reason);
        }
    }
    let left = "statefulset,persistentvolumeclaim,deployment,service,configmap,pod,secret";
    let left = format!("kubectl get {left} -l firebolt.io/instance=main -o name");
    // Pods do not end immediately.
    reader.wait_for("", |reader| reader.run(&left));
    // It has no owner, because the reader made it.
    reader.run("kubectl get secret main-metadata-postgres-creds");
}

fn reader_reason(reader: &Reader) -> String {
    let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;
    reader.run(&format!("kubectl get fire main -o '{path}'"))
}

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

/// The network interfaces of this machine.
fn interfaces() -> Vec<String> {
    let table = fs::read_to_string("/proc/net/dev").expect("read the interfaces");
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

/// Runs commands as a reader of the demo or the handbook does: in a shell.
struct Reader {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Reader {
    fn new(place: &Place) -> Self {
        Self {
            cluster: Cluster::open(&place.dir()).expect("find the cluster of the demo"),
            folder: tempfile::tempdir().expect("create a folder"),
        }
    }

    fn shell(&self, command: &str) -> Command {
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
        let mut shell = Command::new("bash");
        shell
            .args(["-ec", &command.replace(" examples/", &format!(" {examples}"))])
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env("KUBECONFIG", self.cluster.kubeconfig_admin());
        shell
    }

    fn run(&self, command: &str) -> String {
        let done = self.shell(command).output().expect("run a shell");
        assert!(done.status.success(), "{command}: {}", text(&done));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Runs a command that does not end by itself until it has printed some words, in their order, and meanwhile does
    /// something else.
    fn read_until(&self, command: &str, words: &[&str], meanwhile: impl FnOnce()) {
        let mut child = self
            .shell(&format!("exec {command}"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("run a shell");
        let printed = child.stdout.take().expect("its output is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(printed).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
        let mut next = || lines.recv_timeout(LIMIT).ok();
        let mut says = |word: &str| std::iter::from_fn(&mut next).any(|line| line.contains(word));
        let missing = words.iter().find(|word| !says(word));
        if missing.is_none() {
            meanwhile();
        }
        child.kill().expect("end it");
        child.wait().expect("wait for its end");
        assert_eq!(missing, None, "{command} never said this");
    }

    fn wait_for(&self, expected: &str, read: impl Fn(&Self) -> String) {
        eventually(format!("it reads {expected:?}"), LIMIT, || read(self) == expected);
    }
}
