//! Start, serve, drain.

use std::process::ExitCode;
use std::sync::Arc;

use firebolt_process::logs;
use firebolt_process::signals::Signals;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tracing::{error, info};

use crate::cli::Cli;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::drain::drain;
use crate::error::Failure;
use crate::executor::executor;
use crate::hold::Settings;
use crate::hold_queue::{HoldQueue, run_timers};
use crate::metrics::Metrics;
use crate::probe::Prober;
use crate::server::{Agent, serve};

/// One can parse a long list while the other responds to Envoy.
const THREADS: usize = 2;

/// Runs the agent and returns its exit code.
#[must_use]
pub fn main(cli: Cli) -> ExitCode {
    logs::start(cli.log_format, &cli.log_level);
    match run_on_threads(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!("{failure}. {}", failure.remedy());
            ExitCode::FAILURE
        }
    }
}

fn run_on_threads(cli: Cli) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(Failure::Threads)?;
    let end = runtime.block_on(run(cli));
    // Tasks that are still running are dropped.
    runtime.shutdown_background();
    end
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let signals = Signals::catch().map_err(Failure::Signals)?;
    let address = cli.listen;
    let bind = |source| Failure::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace = cli.namespace,
        instance = cli.instance,
        hold_timeout = ?cli.hold_timeout,
        hold_memory = cli.hold_memory,
        grace_period = ?cli.grace_period,
        %address,
        "started"
    );

    let metrics = Arc::new(Metrics::default());
    let clock = Arc::new(Clock::default());
    let cluster = Arc::new(Cluster::new(&cli.namespace, &cli.instance, Arc::clone(&clock)));
    let prober = Arc::new(Prober::new(cli.envoy_probe, &cli.engine_suffix));
    let settings = Settings {
        instance: cli.instance,
        memory: cli.hold_memory,
        hold_timeout: cli.hold_timeout,
    };
    let executor = executor(cluster, prober, Arc::clone(&metrics));
    let queue = HoldQueue::new(&cli.namespace, settings, clock, Arc::clone(&metrics), executor);
    tokio::spawn(restart_forever("timers", {
        let queue = queue.clone();
        move || run_timers(queue.clone())
    }));
    let agent = Arc::new(Agent {
        queue: queue.clone(),
        metrics,
        envoy_admin: cli.envoy_admin,
    });
    let listener = Arc::new(listener);
    tokio::spawn(restart_forever("server", move || {
        serve(Arc::clone(&listener), Arc::clone(&agent))
    }));

    signals.first().await;
    drain(&queue, cli.envoy_admin, cli.grace_period).await;
    Ok(())
}

/// Restarts a task whenever it ends: the pod keeps running, and so does the agent.
async fn restart_forever<F>(task: &'static str, start: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match tokio::spawn(start()).await {
            Ok(()) => error!(task, "a task ended unexpectedly, restarting it"),
            Err(error) => error!(task, %error, "a task panicked, restarting it"),
        }
    }
}
