//! The handle of a cluster: owned by this process, or attached to one that another started.

mod images;
mod kubectl;
mod ready;
mod running;
mod signals;
mod status;
mod webhooks;

use std::env;
use std::ffi::OsStr;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firebolt_process::error::chain;
use kube::Client;

use crate::state::folder::{self, Folder};
use crate::state::layout::Layout;
use crate::tools::{ToolError, Tools};
use crate::topology::Component;
use crate::topology::Node;
use crate::{Error, Result, identity, namespaces, process};
use running::Running;
pub use status::{ComponentStatus, Status, status};

/// Names the folder of the cluster that tests use; set by the person who runs them.
pub const ATTACH_VARIABLE: &str = "LOCALKUBE_ATTACH";
/// How often a start is tried with other ports.
const ATTEMPTS: usize = 5;

/// How a cluster is to be started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The parent of the directories of owned clusters. Clusters whose owner died are cleared there; nothing else is
    /// touched. It must belong to the user and be closed to others (mode 0700), and is created if it is missing.
    pub base: PathBuf,
    /// How long the API server may take to become ready, and then the rest.
    pub limit: Duration,
    /// How many nodes it has: none, one or two. The program that starts a cluster with nodes has to call
    /// [`serve_as_helper`](crate::serve_as_helper) first of all.
    pub nodes: u8,
}

impl Default for Options {
    fn default() -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self {
            base: env::temp_dir().join(format!("localkube-{user}")),
            limit: Duration::from_mins(1),
            nodes: 0,
        }
    }
}

impl Options {
    /// Fails if this machine does not support these options. To be called before anything slow is started.
    pub fn check(&self) -> Result<()> {
        nodes(self).map(drop)
    }
}

/// A control plane, etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and its nodes if there are any.
///
/// An owned cluster ends with its handle; an attached one goes on. Clients are made anew for each call, because a
/// client belongs to the runtime that made it, and tests have one each.
#[derive(Debug)]
pub struct Cluster {
    running: Arc<Running>,
}

/// What [`Cluster::up`] did.
#[derive(Debug)]
pub enum Up {
    /// It started a cluster, which took this long.
    Started(Cluster, Duration),
    /// A healthy cluster was there already.
    AlreadyRunning(Cluster),
}

impl Cluster {
    /// Starts a cluster in a fresh folder and waits until it is ready. It lives as long as the returned value.
    pub async fn start(options: Options) -> Result<Self> {
        let nodes = nodes(&options)?;
        let tools = complete_tools(&nodes)?;
        let base = options.base;
        let swept = base.clone();
        blocking(move || folder::sweep(&swept)).await?;
        boot(tools, nodes, options.limit, move || Folder::fresh(&base)).await
    }

    /// Has a cluster run in `dir` in the background, until [`down`] is called. A healthy one that is there
    /// is left alone; the remains of another are cleared first.
    pub async fn up(dir: &Path, options: Options) -> Result<Up> {
        let started = Instant::now();
        let nodes = nodes(&options)?;
        let tools = complete_tools(&nodes)?;
        let folder = claim(dir).await?;
        if status(dir).await?.is_some_and(|status| status.is_healthy()) {
            let cluster = Self::open(dir)?;
            // A cluster with fewer nodes than requested is of no use to the caller, and not ours to remove.
            if !cluster.running.layout.nodes().starts_with(&nodes) {
                return Err(Error::FewerNodes(cluster.dir().to_owned()));
            }
            return Ok(Up::AlreadyRunning(cluster));
        }
        let cluster = boot(tools, nodes, options.limit, move || Ok(folder)).await?;
        cluster.running.release();
        Ok(Up::Started(cluster, started.elapsed()))
    }

    /// Attaches to the cluster that runs in `dir`.
    pub fn open(dir: &Path) -> Result<Self> {
        let dir = process::canonical(dir)?;
        let serves = |process: &process::Process| process.component == Component::KubeApiserver.name();
        if !process::find(&dir).iter().any(serves) {
            return Err(Error::NotRunning(dir));
        }
        let running = Running::attach(Layout::open(&dir)?, Tools::from_env()?);
        Ok(Self {
            running: Arc::new(running),
        })
    }

    /// Attaches to the cluster that tests shall use: the one that [`ATTACH_VARIABLE`] names, else the one that
    /// `cargo xtask kube up` started.
    ///
    /// # Panics
    ///
    /// If there is none: a test that needs a cluster and passes without one would be worthless.
    #[must_use]
    pub fn attach() -> Self {
        let dir = env::var_os(ATTACH_VARIABLE).map_or_else(default_dir, PathBuf::from);
        Self::open(&dir).unwrap_or_else(|error| {
            panic!(
                "{}\nstart one with `cargo xtask kube up`, or run `make test-api`",
                chain(&error)
            )
        })
    }

    /// The folder of the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.running.layout.dir()
    }

    /// The port of this machine's loopback address at which the API server answers.
    #[must_use]
    pub fn api_port(&self) -> u16 {
        self.running.layout.ports().apiserver
    }

    /// The kubeconfig of the administrator, who may do everything.
    #[must_use]
    pub fn kubeconfig_admin(&self) -> PathBuf {
        self.running.layout.kubeconfig()
    }

    /// A kubeconfig for a service account, which is created if it is missing. The namespace must exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        identity::service_account(&self.running.layout, namespace, name).await
    }

    /// A kubeconfig with a client certificate for `user`, as a member of `group` if one is given.
    pub fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        identity::user(&self.running.layout, user, group)
    }

    /// A client that speaks as the administrator.
    pub async fn client(&self) -> Result<Client> {
        self.client_for(&self.kubeconfig_admin()).await
    }

    /// A client that speaks as the bearer of `kubeconfig`.
    pub async fn client_for(&self, kubeconfig: &Path) -> Result<Client> {
        identity::client(kubeconfig).await
    }

    /// A file with one line of JSON for each request that the API server answered.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.running.layout.audit_log()
    }

    /// The file that the process called `name`, such as a component, logs to.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.running.layout.log(name)
    }

    /// Starts a program of the caller's as one of the processes of the cluster, called `name`: in a session of its own,
    /// in the folder of the cluster, its output in [`Cluster::log`]. Like a component it outlives the terminal, and ends
    /// with the cluster.
    pub fn spawn(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Child> {
        self.running.spawn_other(name, program, arguments)
    }

    /// Ends all processes called `name`, regardless of their parent, and waits until they are gone.
    pub fn end(&self, name: &str) -> Result<()> {
        process::end(self.dir(), |process| process.component == name)
    }

    /// A command that runs `program` in the network of the cluster, where the addresses of pods and Services can be
    /// reached. Every kubeconfig of the cluster is good there too. The cluster must have a node.
    pub fn inside(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let enter = namespaces::enter(self.dir(), Node::First, false)?;
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg(program);
        // It ends with the cluster, at the latest.
        process::mark(&mut command, self.dir(), "inside");
        Ok(command)
    }

    /// A connection to an address in the network of the cluster, such as that of a Service. The cluster must have a node.
    pub fn connect(&self, address: SocketAddr) -> Result<TcpStream> {
        namespaces::connect(self.dir(), Node::First, address)
    }

    /// Imports a docker-archive into every node. An image that is there under the same name is replaced.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let nodes = self.running.layout.nodes();
        nodes
            .iter()
            .try_for_each(|node| images::import(&self.running, *node, archive))
    }

    /// Runs kubectl as the administrator and returns what it printed; an error says what it complained about.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with_input(arguments, "")
    }

    /// Like [`Cluster::kubectl`], with `input` on its standard input (for `-f -`).
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        kubectl::run(self.kubectl_command(&self.kubeconfig_admin())?, arguments, input)
    }

    /// A kubectl that speaks as the bearer of `kubeconfig`, for callers who want to run it their own way.
    pub fn kubectl_command(&self, kubeconfig: &Path) -> Result<Command> {
        kubectl::command(&self.running, kubeconfig)
    }

    /// Ends a component and waits until it is gone.
    pub fn stop_component(&self, component: Component) -> Result<()> {
        self.running.stop(component)
    }

    /// Starts a component that was stopped and waits until it is healthy.
    pub async fn start_component(&self, component: Component) -> Result<()> {
        self.running.spawn(component)?;
        ready::wait(&self.running, &[component], Options::default().limit).await
    }

    /// Stops a component and starts it again, on the same port and with the same data.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.stop_component(component)?;
        self.start_component(component).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.running.tear_down() {
            eprintln!("localkube: tear down {}: {}", self.dir().display(), chain(&error));
        }
        signals::give_way();
    }
}

/// Starts a cluster in the directory that `folder` returns; retries with other ports as long as ports are taken.
async fn boot(
    tools: Tools,
    nodes: Vec<Node>,
    limit: Duration,
    folder: impl FnOnce() -> Result<Folder> + Send + 'static,
) -> Result<Cluster> {
    signals::install();
    let mut cluster = own(move || Ok(Running::own(folder()?, tools, nodes))).await?;
    for attempt in 1.. {
        match boot_once(&cluster.running, limit).await {
            Err(error) if error.is_port_clash() && attempt < ATTEMPTS => {
                let last = Arc::clone(&cluster.running);
                cluster = own(move || last.renew()).await?;
            }
            // On an error the handle goes, and with it what has been started.
            booted => return booted.map(|()| cluster),
        }
    }
    unreachable!("the last attempt returns")
}

/// The handle of a new cluster, which signals and a drop of the handle tear down from its first file on.
async fn own(make: impl FnOnce() -> Result<Running> + Send + 'static) -> Result<Cluster> {
    blocking(move || signals::register(make).map(|running| Cluster { running })).await
}

/// The tools. Fails if one is missing, before anything is changed.
fn complete_tools(nodes: &[Node]) -> Result<Tools> {
    let tools = Tools::from_env()?;
    for binary in Component::of(nodes).into_iter().filter_map(Component::binary) {
        tools.binary(binary)?;
    }
    if !nodes.is_empty() && !tools.debian().exists() {
        return Err(ToolError::NotBuilt("containerd").into());
    }
    Ok(tools)
}

/// The nodes that the options ask for, if this machine can have them.
fn nodes(options: &Options) -> Result<Vec<Node>> {
    let nodes = Node::ALL.get(..options.nodes.into()).ok_or_else(|| {
        let most = Node::ALL.len();
        Error::Impossible(format!("{} nodes are more than {most}", options.nodes))
    })?;
    if !nodes.is_empty() && !rustix::process::geteuid().is_root() {
        let reason = "only root may make namespaces and control groups; run it as root, or without nodes";
        return Err(Error::Impossible(reason.to_owned()));
    }
    Ok(nodes.to_vec())
}

async fn boot_once(running: &Arc<Running>, limit: Duration) -> Result<()> {
    let files = Arc::clone(running);
    blocking(move || files.lay_out()).await?;
    for node in running.layout.nodes() {
        running.spawn(Component::Network(*node))?;
        let (running, node) = (Arc::clone(running), *node);
        blocking(move || namespaces::set_up(&running.layout, node)).await?;
    }
    for components in [Component::first, Component::then] {
        let components = components(running.layout.nodes());
        for component in &components {
            running.spawn(*component)?;
        }
        ready::wait(running, &components, limit).await?;
    }
    Ok(())
}

/// Ends the cluster in `dir`, whatever its state, and removes the folder. Says whether there was anything.
pub async fn down(dir: &Path) -> Result<bool> {
    let path = process::canonical(dir)?;
    if !path.exists() && process::find(&path).is_empty() {
        return Ok(false);
    }
    let folder = claim(&path).await?;
    blocking(move || folder.delete()).await?;
    Ok(true)
}

/// Where `cargo xtask kube up` puts its cluster by default: in the repository of this crate, whatever the working
/// directory.
#[must_use]
pub fn default_dir() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    repository
        .expect("this crate is two folders deep in the repository")
        .join(".local/kube")
}

async fn claim(dir: &Path) -> Result<Folder> {
    let dir = dir.to_owned();
    blocking(move || Folder::claim(&dir)).await
}

/// Runs blocking work, which waits for locks and processes, where it blocks no other task.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
