//! `cargo xtask demo`: a whole cluster on this machine, the operator in it, an engine that grows under load, and one that a
//! query wakes.
//!
//! It can be run again at any time, over whatever an earlier run has left, and goes on from there.

mod load;
pub(crate) mod query;
mod rollout;
mod screen;
mod wake;
mod watch;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use firebolt_api::{EnginePhase, FireboltEngine, FireboltInstance, InstancePhase};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use localkube::tools::Tool;
use localkube::{Cluster, Options, Up};

use crate::{Outcome, images, install, tools};
use load::{Counts, Load};
use rollout::grouped;
use screen::Screen;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const MANIFEST: &str = include_str!("demo.yaml");
/// An engine with two mistakes, to show how they are reported.
const MISTAKEN: &str = include_str!("mistaken.yaml");
/// What the manifest calls its objects.
const NAMESPACE: &str = "demo";
const INSTANCE: &str = "main";
const CLASS: &str = "small";
const ENGINE: &str = "analytics";
/// How many queries the new pods answer before the load ends.
const AFTERWARDS: u64 = 500;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the demo, which `cargo xtask kube down --dir DIR` removes [default: .local/demo in the repository]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: Arguments) -> Outcome {
    let options = Options {
        nodes: 1,
        ..Options::default()
    };
    // Before minutes go into tools and programs.
    options.check()?;
    let screen = &mut Screen::new();
    prepare_tools(screen)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dir = arguments.dir.unwrap_or_else(|| root.join(".local/demo"));
    runtime.block_on(show(screen, root, &dir, options)).inspect_err(|_| {
        if dir.exists() {
            eprintln!(
                "\nThe cluster is kept in {0} for inspection; `cargo xtask kube down --dir {0}` removes it.",
                dir.display()
            );
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Has the tools in place, and names those that the cluster is made of.
fn prepare_tools(screen: &mut Screen) -> Result<()> {
    let shown = [Tool::Kubernetes, Tool::Etcd, Tool::CoreDns, Tool::Envoy];
    let tools = tools::ensure_all(&[])?;
    let names: Vec<String> = tools
        .iter()
        .filter(|(tool, _)| shown.contains(tool))
        .map(|(tool, _)| format!("{} {}", tool.name(), tool.version()))
        .collect();
    Ok(screen.step("tools", names.join(", "))?)
}

async fn show(screen: &mut Screen, root: &Path, dir: &Path, options: Options) -> Result<()> {
    let archives = images::build(root)?;
    let cluster = start(screen, dir, options).await?;
    images::import(&cluster, &archives)?;
    let client = cluster.client().await?;
    install(screen, root, &cluster, &client, &archives).await?;

    cluster.kubectl_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], MANIFEST)?;
    // Users who continue from here need not name it every time.
    cluster.kubectl(&["config", "set-context", "--current", "--namespace", NAMESPACE])?;
    await_instance(screen, &client).await?;
    let engine = await_engine(screen, &client).await?;

    let gateway = query::gateway(&client).await?;
    // By now the gateway has found the engine: the second query shows how long one takes.
    query::ask(&cluster, gateway, ENGINE, "SELECT 1")?;
    let answer = query::ask(&cluster, gateway, ENGINE, "SELECT 42")?;
    let (value, took) = (answer.value, answer.took.as_secs_f64() * 1000.0);
    screen.step(
        "query",
        format!("SELECT 42  ->  {value}   ({took:.0} ms, through the gateway)"),
    )?;
    // Beside this program: both are built into the same folder.
    let stand_in = std::env::current_exe()?.with_file_name("firebolt-stand-in");
    let load = Load::start(&cluster, &stand_in, gateway, ENGINE).await?;
    scale(screen, &cluster, &client, load, &engine).await?;
    wake::show(screen, &cluster, &client, gateway).await?;
    refuse(screen, &cluster)?;
    how_to_go_on(screen, &cluster)
}

async fn start(screen: &mut Screen, dir: &Path, options: Options) -> Result<Cluster> {
    screen.passing_step("cluster", "starting")?;
    match Cluster::up(dir, options).await? {
        Up::Started(cluster, took) => {
            screen.step("cluster", format!("node ready in {:.1} s", took.as_secs_f64()))?;
            Ok(cluster)
        }
        Up::AlreadyRunning(cluster) => {
            screen.step("cluster", "already running")?;
            Ok(cluster)
        }
    }
}

/// Installs the operator, and lets pods of an earlier build make room.
async fn install(
    screen: &mut Screen,
    root: &Path,
    cluster: &Cluster,
    client: &Client,
    archives: &[PathBuf],
) -> Result<()> {
    screen.passing_step("operator", "starting")?;
    let started = Instant::now();
    if is_outdated(client, archives).await? {
        let restart = [
            "rollout",
            "restart",
            "deployment/firebolt-operator",
            "-n",
            "firebolt-system",
        ];
        cluster.kubectl(&restart)?;
    }
    install::operator(root, cluster)?;
    let took = started.elapsed().as_secs_f64();
    Ok(screen.step("operator", format!("2 replicas ready, webhooks trusted ({took:.1} s)"))?)
}

/// Whether a pod of the operator is older than its image: both have the same name, so Kubernetes sees no difference.
async fn is_outdated(client: &Client, archives: &[PathBuf]) -> Result<bool> {
    let archive = archives
        .iter()
        .find(|path| path.file_stem().is_some_and(|name| name == "operator"));
    let written = archive
        .ok_or("find the image of the operator")?
        .metadata()?
        .modified()?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "firebolt-system");
    let started = pods.list(&ListParams::default()).await?;
    let mut started = started.items.into_iter().filter_map(|pod| pod.status?.start_time);
    Ok(started.any(|started| SystemTime::from(started.0) < written))
}

async fn await_instance(screen: &mut Screen, client: &Client) -> Result<()> {
    let started = Instant::now();
    let instances: Api<FireboltInstance> = Api::namespaced(client.clone(), NAMESPACE);
    watch::until(&instances, INSTANCE, |instance| {
        let Some(status) = &instance.status else {
            return Ok(false);
        };
        screen.passing_step("instance", watch::news(&status.conditions))?;
        Ok(status.phase == Some(InstancePhase::Ready) && status.observed_generation == instance.metadata.generation)
    })
    .await?;
    let took = started.elapsed().as_secs_f64();
    let ready = format!("{INSTANCE}: PostgreSQL, metadata service and gateway ready ({took:.1} s)");
    Ok(screen.step("instance", ready)?)
}

async fn await_engine(screen: &mut Screen, client: &Client) -> Result<FireboltEngine> {
    let started = Instant::now();
    let engines: Api<FireboltEngine> = Api::namespaced(client.clone(), NAMESPACE);
    let engine = watch::until(&engines, ENGINE, |engine| {
        let Some(status) = &engine.status else { return Ok(false) };
        screen.passing_step("engine", watch::news(&status.conditions))?;
        Ok(status.phase == Some(EnginePhase::Stable) && status.observed_generation == engine.metadata.generation)
    })
    .await?;
    let generation = engine.status.as_ref().map_or(0, |status| status.active_generation);
    let took = started.elapsed().as_secs_f64();
    let stable = format!("{ENGINE} of class {CLASS}: generation {generation} stable ({took:.1} s)");
    screen.step("engine", stable)?;
    Ok(engine)
}

/// Changes the size of the engine while it is queried, and reports what the clients observed.
async fn scale(
    screen: &mut Screen,
    cluster: &Cluster,
    client: &Client,
    mut load: Load,
    engine: &FireboltEngine,
) -> Result<()> {
    // The clients come first.
    while load.next().await?.answered == 0 {}
    screen.line("scale 1 -> 3 under load")?;
    cluster.kubectl(&["scale", "fireng", ENGINE, "--replicas=3"])?;
    let generation = rollout::show(screen, client, &mut load, engine).await?;
    let enough = load.counts().answered + AFTERWARDS;
    while load.next().await?.answered < enough {}
    let (counts, failures) = load.stop().await?;
    let Counts {
        answered,
        failed,
        ran_twice,
        lost,
    } = counts;
    screen.line(&format!(
        "  {:<10} g{generation:<3} {} queries served, {failed} failed, {ran_twice} run twice",
        EnginePhase::Stable.to_string(),
        grouped(answered),
    ))?;
    if (failed, ran_twice, lost) == (0, 0, 0) {
        return Ok(());
    }
    let error = format!("{failed} queries failed, {ran_twice} ran twice, {lost} were answered and never ran");
    Err([vec![error], failures].concat().join("\n").into())
}

/// Shows what happens to an invalid object.
fn refuse(screen: &mut Screen, cluster: &Cluster) -> Result<()> {
    screen.line("\nAn invalid object is rejected before it is stored, with every invalid field and the remedy:")?;
    match cluster.kubectl_with_input(&["apply", "-f", "-"], MISTAKEN) {
        Ok(_) => Err("the API server accepted an invalid engine".into()),
        Err(localkube::Error::Kubectl { stderr, .. }) => {
            screen.line("  $ kubectl apply -f xtask/src/demo/mistaken.yaml")?;
            for line in stderr.lines() {
                screen.line(&format!("  {line}"))?;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn how_to_go_on(screen: &mut Screen, cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl_command(&cluster.kubeconfig_admin())?;
    let folder = Path::new(kubectl.get_program()).parent().unwrap_or(Path::new(""));
    let (kubeconfig, folder) = (cluster.kubeconfig_admin(), folder.display());
    let (kubeconfig, image) = (kubeconfig.display(), images::next_engine()?);
    let place = "/spec/template/spec/containers/0/image";
    let patch = format!(r#"[{{"op":"add","path":"{place}","value":"{image}"}}]"#);
    screen.line(&format!(
        r#"
Try next:
  export KUBECONFIG={kubeconfig} PATH="{folder}:$PATH"
  kubectl get firebolt

  # a query of your own
  kubectl port-forward service/{INSTANCE}-gateway 8080:80 &
  curl -H 'X-Firebolt-Engine: {ENGINE}' -d 'SELECT 42' http://localhost:8080

  # another image for every engine of the class
  kubectl patch firengc {CLASS} --type=json -p '{patch}'
  kubectl get fireng --watch

  # no pods until it is scaled up again
  kubectl scale fireng {ENGINE} --replicas=0

  # remove everything that the demo created
  make demo-down"#
    ))?;
    Ok(())
}
