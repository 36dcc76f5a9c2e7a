//! `cargo xtask demo`: the operator on a local Kubernetes, and what it says.
//!
//! The operator is one of the processes of the cluster: it outlives the terminal, and `cargo xtask kube down` ends it with
//! the rest.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use firebolt_api::key::Label;
use localkube::{Cluster, Options, Up};

use crate::Outcome;

/// How long the operator may take to become ready.
const LIMIT: Duration = Duration::from_mins(1);
/// How long to wait before a question is asked again.
const POLL: Duration = Duration::from_millis(50);
const NAMESPACE: &str = "demo";
/// The instance of the example.
const INSTANCE: &str = "main";
/// The engine of the example.
const ENGINE: &str = "analytics";
/// The kinds of what the operator makes for an instance before its gateway, and what Kubernetes makes of that.
const MADE: &str = "secret,statefulset,deployment,service,configmap,pod";
/// What the operator is called among the processes of the cluster.
const OPERATOR: &str = "firebolt-operator";

/// A manifest with two mistakes, to show how they are reported.
const MISTAKES: [&str; 2] = [
    "
apiVersion: compute.firebolt.io/v1alpha1
kind: FireboltEngine
metadata: { name: mistaken }
spec:
  instanceRef: main
  replicas: 1
  autoStop: { enabled: true, activeReplicas: 1, idleReplicas: 2, idleTimeout: half an hour }
",
    "
apiVersion: compute.firebolt.io/v1alpha1
kind: FireboltEngine
metadata: { name: mistaken }
spec:
  instanceRef: main
  engineClassRef: large
  replicas: 1
  template:
    spec:
      hostNetwork: true
      containers: [{ name: engine, env: [{ name: POD_INDEX, value: '0' }] }]
",
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the demo, which `cargo xtask kube down --dir DIR` removes [default: .local/demo in the repository]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: Arguments) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dir = arguments.dir.unwrap_or_else(|| root.join(".local/demo"));
    runtime.block_on(show(root, &dir)).inspect_err(|_| {
        if dir.exists() {
            eprintln!(
                "What was started is left in {0} for you to look at; `cargo xtask kube down --dir {0}` removes it.",
                dir.display()
            );
        }
    })
}

async fn show(root: &Path, dir: &Path) -> Outcome {
    let operator = build(root)?;
    let cluster = match Cluster::up(dir, Options::default()).await? {
        Up::Started(cluster, took) => {
            step(
                "cluster",
                &format!("control plane ready in {:.1} s", took.as_secs_f64()),
            );
            cluster
        }
        Up::AlreadyRunning(cluster) => {
            step("cluster", "control plane already running");
            cluster
        }
    };
    install(root, &operator, &cluster)?;
    let webhook = free_address()?;
    let ready = start(&operator, &cluster, &webhook).await?;
    step("operator", &ready);
    register(root, &cluster, &webhook)?;
    step("admission", "webhooks registered and trusted");
    apply_examples(root, &cluster)?;
    watch(&cluster)?;
    show_command(
        &cluster,
        &["get", MADE, "-l", &format!("{}={INSTANCE}", Label::Instance)],
    )?;
    show_command(&cluster, &["get", "firebolt"])?;
    println!("\nMistakes are refused before they are stored, with the fields and the remedies:");
    for mistaken in MISTAKES {
        match cluster.kubectl_with_input(&["apply", "-f", "-"], mistaken) {
            Ok(_) => return Err("the API server accepted a mistaken engine".into()),
            Err(localkube::Error::Kubectl { stderr, .. }) => {
                println!("\n$ kubectl apply -f mistaken.yaml\n{}", stderr.trim_end());
            }
            Err(error) => return Err(error.into()),
        }
    }
    how_to_go_on(&cluster)?;
    Ok(ExitCode::SUCCESS)
}

fn step(name: &str, news: &str) {
    println!("{name:<10} {news}");
}

fn build(root: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    step("build", "firebolt-operator (takes a minute or two the first time)");
    let built = crate::cargo(root)
        .args(["build", "--quiet", "--locked", "--package", OPERATOR])
        .status()?;
    if !built.success() {
        return Err("build firebolt-operator".into());
    }
    // Beside this program: both are built into the same folder.
    Ok(std::env::current_exe()?.with_file_name(OPERATOR))
}

fn install(root: &Path, operator: &Path, cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let printed = Command::new(operator).arg("crds").output()?;
    if !printed.status.success() {
        let complaint = String::from_utf8_lossy(&printed.stderr);
        return Err(format!("run firebolt-operator crds: {}: {complaint}", printed.status).into());
    }
    let crds = String::from_utf8(printed.stdout)?;
    cluster.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &crds)?;
    for manifest in ["deploy/rbac.yaml", "deploy/admission-policy.yaml"] {
        let manifest = root.join(manifest).display().to_string();
        cluster.kubectl(&["apply", "--server-side", "-f", &manifest])?;
    }
    let count = firebolt_api::crds().len();
    step(
        "install",
        &format!("{count} CRDs, service account, permissions, and the policy for gateways"),
    );
    Ok(())
}

/// Starts the operator under its own service account and waits until it is ready. One of an earlier demo is replaced: it
/// may be of an earlier build.
async fn start(operator: &Path, cluster: &Cluster, webhook: &str) -> Result<String, Box<dyn std::error::Error>> {
    cluster.end(OPERATOR)?;
    let started = Instant::now();
    let kubeconfig = cluster
        .service_account_kubeconfig("firebolt-system", "firebolt-operator")
        .await?;
    let log = cluster.log(OPERATOR);
    let health = free_address()?;
    let arguments = [
        "run".to_owned(),
        "--log-format=text".to_owned(),
        "--lease-namespace=firebolt-system".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--health-probe-bind-address={health}"),
        format!("--metrics-bind-address={}", free_address()?),
        format!("--webhook-bind-address={webhook}"),
        "--webhook-hosts=127.0.0.1".to_owned(),
    ];
    let mut child = cluster.spawn(OPERATOR, operator, &arguments)?;
    while !is_ready(&health) {
        if let Some(status) = child.try_wait()? {
            return Err(format!("run firebolt-operator: {status}; {} says why", log.display()).into());
        }
        if started.elapsed() > LIMIT {
            return Err(format!("wait for http://{health}/readyz; {} may say why", log.display()).into());
        }
        thread::sleep(POLL);
    }
    let took = started.elapsed().as_secs_f64();
    Ok(format!("ready in {took:.1} s as its own service account"))
}

/// Registers the webhooks of the operator, and waits until the API server trusts them.
fn register(root: &Path, cluster: &Cluster, webhook: &str) -> Result<(), Box<dyn std::error::Error>> {
    let manifests = std::fs::read_to_string(root.join("deploy/webhooks.yaml"))?;
    for registration in cluster.webhooks_at(&manifests, webhook)? {
        // That of an earlier demo named another address.
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        cluster.kubectl_with_input(&apply, &registration.to_string())?;
    }
    let trusted = ["validating", "mutating"].map(|kind| format!("{kind}webhookconfiguration/{OPERATOR}"));
    let bundles = [
        "get",
        &trusted[0],
        &trusted[1],
        "-o",
        "jsonpath={.items[*].webhooks[*].clientConfig.caBundle}",
    ];
    let deadline = Instant::now() + LIMIT;
    // One for each webhook.
    while cluster.kubectl(&bundles)?.split_whitespace().count() < 4 {
        if Instant::now() > deadline {
            return Err("wait for the caBundle of the webhooks".into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// An address on this machine that was free a moment ago.
fn free_address() -> std::io::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Whether the readiness endpoint answers with 200.
fn is_ready(address: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

fn apply_examples(root: &Path, cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {NAMESPACE} }}\n");
    cluster.kubectl_with_input(&["apply", "--server-side", "-f", "-"], &namespace)?;
    // Whoever goes on from here need not name it every time.
    cluster.kubectl(&["config", "set-context", "--current", "--namespace", NAMESPACE])?;
    let example = root.join("examples/minimal.yaml").display().to_string();
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = cluster.kubectl(&["apply", "-f", &example]) {
        // The kinds may take a moment to be served after their CRDs were installed.
        if !error.to_string().contains("no matches for kind") || Instant::now() > deadline {
            return Err(error.into());
        }
        thread::sleep(POLL);
    }
    step("example", "examples/minimal.yaml applied: an instance and an engine");
    Ok(())
}

/// Shows how far instance and engine get on a cluster without nodes, and what each says it waits for.
fn watch(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    // PostgreSQL and the metadata service have a pod each.
    let waits_for_nodes = |said: &str| said.matches("cannot be scheduled").count() == 2;
    step(
        "instance",
        &reason(cluster, "fireboltinstance", INSTANCE, waits_for_nodes)?,
    );
    let waits_for_metadata = |said: &str| said.starts_with("InstanceNotReady") && said.contains("metadata service");
    step(
        "engine",
        &reason(cluster, "fireboltengine", ENGINE, waits_for_metadata)?,
    );
    Ok(())
}

/// Reason and message of an object, once they are as `expected`.
fn reason(
    cluster: &Cluster,
    kind: &str,
    name: &str,
    expected: impl Fn(&str) -> bool,
) -> Result<String, Box<dyn std::error::Error>> {
    let path = r#"jsonpath={range .status.conditions[?(@.type=="Ready")]}{.reason}: {.message}{end}"#;
    let deadline = Instant::now() + LIMIT;
    loop {
        let said = cluster.kubectl(&["get", kind, name, "-o", path])?;
        if expected(&said) {
            return Ok(said);
        }
        if Instant::now() > deadline {
            return Err(format!("wait for {kind} {name} to get further: it says {said:?}").into());
        }
        thread::sleep(POLL);
    }
}

/// Shows a command and what it prints.
fn show_command(cluster: &Cluster, arguments: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    println!("\n$ kubectl {}", arguments.join(" "));
    print!("{}", cluster.kubectl(arguments)?);
    Ok(())
}

fn how_to_go_on(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let kubectl = cluster.kubectl_command(&cluster.kubeconfig_admin())?;
    let folder = Path::new(kubectl.get_program())
        .parent()
        .unwrap_or(Path::new(""))
        .display();
    println!("\nThis cluster has no node that could run the pods, so this is as far as it gets. Try next:\n");
    println!(
        "  export KUBECONFIG={} PATH=\"{folder}:$PATH\"",
        cluster.kubeconfig_admin().display()
    );
    println!("  kubectl explain fireng.spec.autoStop");
    println!("  kubectl describe fire {INSTANCE}");
    println!("  kubectl delete deployment {INSTANCE}-metadata   # and see it come back");
    println!("  kubectl delete fire {INSTANCE} --wait=false     # and see what holds it");
    println!("  tail {}", cluster.log(OPERATOR).display());
    println!("  make demo-down      # removes every trace");
    Ok(())
}
