//! Starts, runs and stops the parts of the process.
//!
//! They stop in this order: first the controllers, then the lease is released, then the servers close. While reconciles are
//! running the lease is renewed, so that no other process reconciles the same objects.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use firebolt_process::http::serve;
use firebolt_process::logs;
use firebolt_process::signals::Signals;
use firebolt_runtime::leader::{self, ElectionStatus, Ended, Leadership, LeaseClient, Role};
use hyper_util::service::TowerToHyperService;
use kube::Client;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::cli::RunArguments;
use crate::connect::{Connection, connect};
use crate::context::Context;
use crate::error::Failure;
use crate::leader::{REMEDIES, lease_client};
use crate::metrics::Metrics;
use crate::pending::Pending;
use crate::probe::{self, Pool};
use crate::settings::{Certificates, Environment, ListenAddress, Settings};
use crate::webhook::Validator;
use crate::webhook::certificates::{ServingCertificate, reload_from_files, reload_from_secret, run_controller};
use crate::{engine, engine_class, http, informers, instance, webhook};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the operator until it ends, and returns the exit code.
#[must_use]
pub fn main(arguments: RunArguments) -> ExitCode {
    let started = SystemTime::now();
    logs::start(arguments.log_format, &arguments.log_level);
    match on_runtime(run(arguments, started)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let lease = failure.lease();
            error!(
                kind = lease.map(|_| "Lease"),
                namespace = lease.map(|lease| lease.namespace.as_str()),
                name = lease.map(|lease| lease.name.as_str()),
                "{failure}. {}",
                failure.remedy()
            );
            failure.exit_code()
        }
    }
}

/// Runs `future` until it ends. Blocking calls that are still running, such as a DNS lookup, are not waited for: a process
/// that has lost the lease must exit before another one acts.
fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = Runtime::new().expect("the system provides threads and timers");
    let end = runtime.block_on(future);
    runtime.shutdown_background();
    end
}

async fn run(arguments: RunArguments, started: SystemTime) -> Result<(), Failure> {
    let mut signal = pin!(Signals::catch().map_err(Failure::Signals)?.first());
    let parts = tokio::select! {
        parts = Parts::start(arguments, started) => parts?,
        () = &mut signal => return Ok(()),
    };
    parts.run(signal).await
}

/// The tasks of a running process.
struct Parts {
    context: Context,
    lease: Option<LeaseClient>,
    election: JoinHandle<Ended>,
    work: JoinHandle<()>,
    watches: JoinSet<()>,
    servers: JoinSet<()>,
    stop_work: CancellationToken,
    stop_election: CancellationToken,
    stop_servers: CancellationToken,
}

impl Parts {
    async fn start(arguments: RunArguments, started: SystemTime) -> Result<Self, Failure> {
        let sockets = Sockets::open(&arguments).await?;
        let metrics = Arc::new(Metrics::new(VERSION, started));
        let Connection { client, namespace } = connect(&arguments, metrics.requests()).await?;
        let settings = Arc::new(arguments.into_settings(environment(namespace)));
        announce(&settings, &sockets);

        let mut watches = JoinSet::new();
        let pending = Pending::default();
        let caches = Arc::new(informers::start(&client, &settings, &metrics, &mut watches, &pending));
        let engine_metrics = Arc::clone(metrics.engines());
        let measure = Arc::new(move |duration, succeeded| engine_metrics.probed(duration, succeeded));
        let probes = probe::pool(client.clone(), &caches, &pending.engines, measure);
        let (report, reports) = watch::channel(ElectionStatus::STANDBY);
        let (stop_work, stop_election) = (CancellationToken::new(), CancellationToken::new());

        let context = Context {
            client: client.clone(),
            settings: Arc::clone(&settings),
            caches,
            pending,
            leadership: Leadership::new(reports.clone()),
        };
        let stop_servers = CancellationToken::new();
        let mut servers = JoinSet::new();
        let served = settings.certificates.is_some().then(Arc::<ServingCertificate>::default);
        let health = http::health(Arc::clone(&context.caches), reports.clone(), served.clone());
        let metered = metrics_router(&context, &metrics, probes.clone(), reports.clone(), served.clone());
        for (socket, router) in [(sockets.health, health), (sockets.metrics, metered)] {
            if let Some(listener) = socket.listener {
                let service = TowerToHyperService::new(router);
                servers.spawn(serve(listener, service, stop_servers.clone()));
            }
        }
        if let (Some(listener), Some(served)) = (sockets.webhook.listener, served) {
            let (tls, router) = (
                webhook::tls(Arc::clone(&served) as _),
                webhook_router(&context, &metrics),
            );
            servers.spawn(webhook::serve(listener, tls, router, stop_servers.clone()));
            watches.spawn(reload(client.clone(), Arc::clone(&settings), served));
        }

        let controllers = Controllers {
            context: context.clone(),
            probes,
            metrics,
        };
        let work = tokio::spawn(run_while_leading(controllers, reports, stop_work.clone()));
        let lease = settings.lease.as_ref();
        let lease = lease.map(|lease| lease_client(client, lease, &settings.identity));
        let election = tokio::spawn(elect(lease.clone(), report, stop_election.clone()));
        Ok(Self {
            context,
            lease,
            election,
            work,
            watches,
            servers,
            stop_work,
            stop_election,
            stop_servers,
        })
    }

    async fn run(mut self, signal: Pin<&mut impl Future<Output = ()>>) -> Result<(), Failure> {
        tokio::select! {
            () = signal => self.stop().await,
            ended = &mut self.election => Err(self.election_failure(ended)),
            ended = &mut self.work => Err(part_ended("controllers", ended)),
            Some(ended) = self.watches.join_next() => Err(part_ended("informers", ended)),
            Some(ended) = self.servers.join_next() => Err(part_ended("HTTP server", ended)),
        }
    }

    /// Stops in order, each step within what is left of the shutdown timeout.
    async fn stop(mut self) -> Result<(), Failure> {
        let limit = self.context.settings.shutdown_timeout;
        let deadline = Instant::now() + limit;
        let stuck = |part| move |_| Failure::StuckInShutdown { part, limit };

        self.stop_work.cancel();
        // The lease can be lost while reconciles end. Then none may go on: another process is the leader.
        let drained = tokio::select! {
            drained = timeout_at(deadline, &mut self.work) => drained,
            ended = &mut self.election => return Err(self.election_failure(ended)),
        };
        drained
            .map_err(stuck("controllers"))?
            .map_err(|panic| part_ended("controllers", Err(panic)))?;
        self.stop_election.cancel();
        let ended = timeout_at(deadline, &mut self.election)
            .await
            .map_err(stuck("leader election"))?;
        if !matches!(ended, Ok(Ended::Stopped)) {
            return Err(self.election_failure(ended));
        }
        self.stop_servers.cancel();
        // A client that is slow to read its response is not a failure.
        let _slow_client = timeout_at(deadline, self.servers.join_all()).await;
        info!("stopped");
        Ok(())
    }

    fn election_failure(&self, ended: Result<Ended, JoinError>) -> Failure {
        // First of all: no reconcile may continue after leadership is lost.
        self.stop_work.cancel();
        match (ended, &self.lease) {
            (Ok(Ended::Lost(loss)), Some(lease)) => Failure::LeadershipLost {
                lease: lease.lease(),
                reason: leader::explain(&loss, lease.timing().give_up_after()),
            },
            (Ok(Ended::Stopped | Ended::Lost(_)), _) => part_ended("leader election", Ok(())),
            (Err(panic), _) => part_ended("leader election", Err(panic)),
        }
    }
}

fn metrics_router(
    context: &Context,
    metrics: &Arc<Metrics>,
    probes: Pool,
    reports: watch::Receiver<ElectionStatus>,
    served: Option<Arc<ServingCertificate>>,
) -> Router {
    let lease = context.settings.lease.as_ref();
    let lease = lease.map(|lease| lease.name.clone()).unwrap_or_default();
    http::metrics(
        Arc::clone(metrics),
        Arc::clone(&context.caches),
        probes,
        reports,
        lease,
        served,
    )
}

fn webhook_router(context: &Context, metrics: &Metrics) -> Router {
    webhook::router(Validator::new(
        context.client.clone(),
        Arc::clone(&context.settings),
        Arc::clone(&context.caches),
        Arc::clone(metrics.webhook()),
    ))
}

/// Keeps the certificate that the webhook serves current.
async fn reload(client: Client, settings: Arc<Settings>, served: Arc<ServingCertificate>) {
    match settings.certificates.clone() {
        Some(Certificates::Supplied(folder)) => reload_from_files(folder, served).await,
        Some(Certificates::Own(own)) => reload_from_secret(client, own, served).await,
        None => {}
    }
}

async fn elect(lease: Option<LeaseClient>, report: watch::Sender<ElectionStatus>, stop: CancellationToken) -> Ended {
    if let Some(lease) = lease {
        return leader::run(lease, REMEDIES, report, stop).await;
    }
    report.send_replace(ElectionStatus::LEADER);
    stop.cancelled().await;
    Ended::Stopped
}

/// Runs the controllers once this process is the leader. Ends after `stop`, when they have ended.
async fn run_while_leading(
    controllers: Controllers,
    mut reports: watch::Receiver<ElectionStatus>,
    stop: CancellationToken,
) {
    let leads = tokio::select! {
        () = stop.cancelled() => false,
        changed = reports.wait_for(|report| report.role == Role::Leader) => changed.is_ok(),
    };
    if leads {
        // Boxed, because it is large.
        Box::pin(controllers.run(stop.clone())).await;
    }
    stop.cancelled().await;
}

/// What only the leader runs, once the caches are synced: before that, objects seem not to exist.
struct Controllers {
    context: Context,
    probes: Pool,
    metrics: Arc<Metrics>,
}

impl Controllers {
    async fn run(self, stop: CancellationToken) {
        let Self {
            context,
            probes,
            metrics,
        } = self;
        if stop.run_until_cancelled(context.caches.synced()).await.is_some() {
            tokio::join!(
                engine::run(context.clone(), probes, Arc::clone(metrics.engines()), stop.clone()),
                instance::run(context.clone(), Arc::clone(metrics.instances()), stop.clone()),
                engine_class::run(context.clone(), Arc::clone(metrics.engine_classes()), stop.clone()),
                certify(context, stop),
            );
        }
    }
}

/// Runs the certificate controller, if the operator issues the certificates of the webhook.
async fn certify(context: Context, stop: CancellationToken) {
    if let Some(Certificates::Own(own)) = context.settings.certificates.clone() {
        run_controller(context.client, own, context.leadership, stop).await;
    }
}

fn part_ended(part: &'static str, ended: Result<(), JoinError>) -> Failure {
    let reason = ended
        .err()
        .map_or_else(|| "it ended without an error".to_owned(), |panic| panic.to_string());
    Failure::PartEnded { part, reason }
}

/// The sockets of all servers.
struct Sockets {
    health: Bound,
    metrics: Bound,
    webhook: Bound,
}

impl Sockets {
    async fn open(arguments: &RunArguments) -> Result<Self, Failure> {
        Ok(Self {
            health: Bound::to("--health-probe-bind-address", arguments.health_probe_bind_address).await?,
            metrics: Bound::to("--metrics-bind-address", arguments.metrics_bind_address).await?,
            webhook: Bound::to("--webhook-bind-address", arguments.webhook_bind_address).await?,
        })
    }
}

/// The socket of a server, opened before anything else is started, so that a port in use is detected at once.
struct Bound {
    listener: Option<TcpListener>,
    address: Option<SocketAddr>,
}

impl Bound {
    async fn to(flag: &'static str, address: ListenAddress) -> Result<Self, Failure> {
        let failure = |source| Failure::Bind {
            flag,
            address: address.to_string(),
            source,
        };
        let listener = address.bind().await.map_err(failure)?;
        let address = listener
            .as_ref()
            .map(TcpListener::local_addr)
            .transpose()
            .map_err(failure)?;
        Ok(Self { listener, address })
    }

    fn describe(&self) -> String {
        self.address
            .map_or_else(|| "off".to_owned(), |address| address.to_string())
    }
}

fn announce(settings: &Settings, sockets: &Sockets) {
    let lease = settings
        .lease
        .as_ref()
        .map(|lease| format!("{}/{}", lease.namespace, lease.name));
    info!(
        version = VERSION,
        scope = %settings.scope,
        selector = %settings.selector,
        cluster_domain = settings.defaults.cluster_domain,
        identity = settings.identity,
        workers = settings.workers,
        lease = lease.as_deref().unwrap_or("none"),
        health = sockets.health.describe(),
        metrics = sockets.metrics.describe(),
        webhook = sockets.webhook.describe(),
        "starting"
    );
}

fn environment(namespace: String) -> Environment {
    Environment {
        namespace,
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        nonce: fastrand::u32(..),
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
