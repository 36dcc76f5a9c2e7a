//! The life of the process: start, run, stop.
//!
//! Stopping has an order: leader-only work ends first, then the lease is released, then the servers close. As long as
//! work may still be under way the lease is renewed, so that no other process starts on the same objects.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

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
use crate::error::Failure;
use crate::leader::apply::LeaseHandle;
use crate::leader::decide::Timing;
use crate::leader::{self, Ended, Report, Role, Term};
use crate::metrics::Metrics;
use crate::probe::Pool;
use crate::queue::Inboxes;
use crate::settings::{Certificates, ListenAddress, Settings, Surroundings};
use crate::signals::Signals;
use crate::watches::Caches;
use crate::webhook::Judge;
use crate::webhook::certificates::{Served, follow_files, follow_secret, look_after};
use crate::{engine, engine_class, http, instance, logs, webhook};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What controllers share.
#[derive(Clone)]
pub struct Context {
    /// The client. Only files called `apply.rs` write with it.
    pub client: Client,
    /// The settings of the process.
    pub settings: Arc<Settings>,
    /// The caches of what is watched.
    pub caches: Arc<Caches>,
    /// Objects that the watches have seen something of.
    pub inboxes: Inboxes,
    /// Counts queries of pods.
    pub probes: Pool,
    /// What is measured.
    pub metrics: Arc<Metrics>,
    /// The right to write.
    pub term: Term,
}

/// Runs the operator to its end and says how it ended.
#[must_use]
pub fn main(arguments: RunArguments) -> ExitCode {
    let started = SystemTime::now();
    logs::start(arguments.log_format, &arguments.log_level);
    match on_runtime(run(arguments, started)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure}. {}", failure.remedy());
            failure.exit_code()
        }
    }
}

/// Runs `life` to its end and no further: blocking calls that are still under way, such as the look-up of a name, are
/// not waited for. A process that has lost the lease must be gone before another one acts.
fn on_runtime<T>(life: impl Future<Output = T>) -> T {
    let runtime = Runtime::new().expect("the system provides threads and timers");
    let end = runtime.block_on(life);
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
    lease: Option<LeaseHandle>,
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
        let health = Bound::to("--health-probe-bind-address", arguments.health_probe_bind_address).await?;
        let metrics_server = Bound::to("--metrics-bind-address", arguments.metrics_bind_address).await?;
        let webhook_server = Bound::to("--webhook-bind-address", arguments.webhook_bind_address).await?;
        let Connection { client, namespace } = connect(&arguments).await?;
        let surroundings = Surroundings {
            namespace,
            host_name: host_name(),
            nonce: fastrand::u32(..),
        };
        let settings = Arc::new(Settings::resolve(arguments, surroundings));
        announce(&settings, &health, &metrics_server, &webhook_server);

        let metrics = Arc::new(Metrics::new(VERSION, started));
        let mut watches = JoinSet::new();
        let inboxes = Inboxes::default();
        let caches = Arc::new(Caches::start(&client, &settings, &metrics, &mut watches, &inboxes));
        let probes = engine::pool(client.clone(), &caches, &inboxes.engines, &metrics);
        let (report, reports) = watch::channel(Report::STANDBY);
        let (stop_work, stop_election) = (CancellationToken::new(), CancellationToken::new());

        let stop_servers = CancellationToken::new();
        let mut servers = JoinSet::new();
        let served = settings.certificates.is_some().then(Arc::<Served>::default);
        let health_router = http::health(Arc::clone(&caches), reports.clone(), served.clone());
        let metrics_router = http::metrics(
            Arc::clone(&metrics),
            Arc::clone(&caches),
            probes.clone(),
            reports.clone(),
            served.clone(),
        );
        for (bound, router) in [(health, health_router), (metrics_server, metrics_router)] {
            if let Some(listener) = bound.listener {
                servers.spawn(http::serve(listener, router, stop_servers.clone()));
            }
        }

        if let (Some(listener), Some(served), Some(certificates)) =
            (webhook_server.listener, served, settings.certificates.clone())
        {
            let judge = Judge::new(
                client.clone(),
                Arc::clone(&settings),
                Arc::clone(&caches),
                Arc::clone(&metrics),
            );
            let router = webhook::router(judge);
            let tls = webhook::tls(Arc::clone(&served) as _);
            servers.spawn(webhook::serve(listener, tls, router, stop_servers.clone()));
            match certificates {
                Certificates::Supplied(folder) => watches.spawn(follow_files(folder, served)),
                Certificates::Own(own) => watches.spawn(follow_secret(client.clone(), own, served)),
            };
        }

        let context = Context {
            client: client.clone(),
            settings: Arc::clone(&settings),
            caches,
            inboxes,
            probes,
            metrics,
            term: Term::new(reports.clone()),
        };
        let work = tokio::spawn(work_while_leading(context.clone(), reports, stop_work.clone()));
        let lease = settings.lease.as_ref().map(|lease| {
            let timing = Timing {
                duration: lease.duration,
            };
            LeaseHandle::new(client, &lease.namespace, &lease.name, &settings.identity, timing)
        });
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
            ended = &mut self.work => Err(part_ended("work of the leader", ended)),
            Some(ended) = self.watches.join_next() => Err(part_ended("watch of a kind", ended)),
            Some(ended) = self.servers.join_next() => Err(part_ended("server of an endpoint", ended)),
        }
    }

    /// Stops in order, each step within what is left of the shutdown timeout.
    async fn stop(mut self) -> Result<(), Failure> {
        let limit = self.context.settings.shutdown_timeout;
        let deadline = Instant::now() + limit;
        let stuck = |part| move |_| Failure::StuckInShutdown { part, limit };

        self.stop_work.cancel();
        // The lease can be lost while work drains, and then nothing of it may go on: another process leads.
        let drained = tokio::select! {
            drained = timeout_at(deadline, &mut self.work) => drained,
            ended = &mut self.election => return Err(self.election_failure(ended)),
        };
        drained
            .map_err(stuck("work of the leader"))?
            .map_err(|panic| part_ended("work of the leader", Err(panic)))?;
        self.stop_election.cancel();
        let ended = timeout_at(deadline, &mut self.election)
            .await
            .map_err(stuck("leader election"))?;
        if !matches!(ended, Ok(Ended::Stopped)) {
            return Err(self.election_failure(ended));
        }
        self.stop_servers.cancel();
        // A client that is slow to read its answer is no reason to fail.
        let _slow_client = timeout_at(deadline, self.servers.join_all()).await;
        info!("stopped");
        Ok(())
    }

    fn election_failure(&self, ended: Result<Ended, JoinError>) -> Failure {
        // The first thing to do in each case: nothing may act in the name of a term that is over.
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

async fn elect(lease: Option<LeaseHandle>, report: watch::Sender<Report>, stop: CancellationToken) -> Ended {
    if let Some(lease) = lease {
        return leader::run(lease, report, stop).await;
    }
    report.send_replace(Report::LEADING);
    stop.cancelled().await;
    Ended::Stopped
}

/// Starts leader-only work once this process leads. Ends after `stop`, when all of it has ended.
async fn work_while_leading(context: Context, mut reports: watch::Receiver<Report>, stop: CancellationToken) {
    let leads = tokio::select! {
        () = stop.cancelled() => false,
        changed = reports.wait_for(|report| report.role == Role::Leading) => changed.is_ok(),
    };
    if leads {
        // Boxed, because it holds all controllers.
        Box::pin(lead(context, stop.clone())).await;
    }
    stop.cancelled().await;
}

/// What only the leader does. It begins when the caches are complete: before that, what is there looks as if it were not.
async fn lead(context: Context, stop: CancellationToken) {
    if stop.run_until_cancelled(context.caches.synced()).await.is_some() {
        tokio::join!(
            engine::run(context.clone(), stop.clone()),
            instance::run(context.clone(), stop.clone()),
            engine_class::run(context.clone(), stop.clone()),
            certify(context, stop),
        );
    }
}

/// Looks after the certificates of the webhook, if they are the operator's own.
async fn certify(context: Context, stop: CancellationToken) {
    if let Some(Certificates::Own(own)) = context.settings.certificates.clone() {
        look_after(context.client, own, context.term, stop).await;
    }
}

fn part_ended(part: &'static str, ended: Result<(), JoinError>) -> Failure {
    let reason = ended
        .err()
        .map_or_else(|| "it had nothing left to do".to_owned(), |panic| panic.to_string());
    Failure::PartEnded { part, reason }
}

/// A server's socket, open before anything else is started, so that a port in use is found at once.
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

fn announce(settings: &Settings, health: &Bound, metrics: &Bound, webhook: &Bound) {
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
        health = health.describe(),
        metrics = metrics.describe(),
        webhook = webhook.describe(),
        "starting"
    );
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
