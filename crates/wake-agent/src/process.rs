//! The life of the process: start, serve, drain.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::cli::Cli;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::desk::{Desk, keep_time};
use crate::drain::drain;
use crate::error::Failure;
use crate::logs;
use crate::metrics::Metrics;
use crate::probe::Prober;
use crate::server::{Agent, serve};
use crate::table::Settings;
use crate::work::work;

/// One reads a long list while the other answers Envoy.
const THREADS: usize = 2;

/// Runs the agent to its end and says how it ended.
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
    // What is still under way is not waited for.
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
    let work = work(cluster, prober, Arc::clone(&metrics));
    let desk = Desk::new(settings, clock, Arc::clone(&metrics), work);
    tokio::spawn(for_ever("clock of the table", {
        let desk = desk.clone();
        move || keep_time(desk.clone())
    }));
    let agent = Arc::new(Agent {
        desk: desk.clone(),
        metrics,
        envoy_admin: cli.envoy_admin,
    });
    let listener = Arc::new(listener);
    tokio::spawn(for_ever("server", move || {
        serve(Arc::clone(&listener), Arc::clone(&agent))
    }));

    signals.first().await;
    drain(&desk, cli.envoy_admin, cli.grace_period).await;
    Ok(())
}

/// Begins a part of the process again whenever it ends: the pod lives on, so the agent does too.
async fn for_ever<F>(part: &'static str, begin: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match tokio::spawn(begin()).await {
            Ok(()) => error!(part, "a part of the agent ended and begins again"),
            Err(error) => error!(part, %error, "a part of the agent failed and begins again"),
        }
    }
}

/// SIGTERM and SIGINT: the first asks the process to stop, the second ends it at once.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn first(mut self) {
        // Waited for outside of the macro, which looks at its arguments only if somebody wants to read them.
        let name = self.next().await;
        info!("stopping on {name}");
        tokio::spawn(async move {
            let name = self.next().await;
            warn!("ending at once on a second signal ({name})");
            std::process::exit(1);
        });
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_process_whose_log_nobody_reads_waits_for_its_signal_too() {
        let signals = Signals::catch().unwrap();
        let first = tokio::time::timeout(Duration::ZERO, signals.first());
        assert!(first.await.is_err(), "nobody has sent one");
    }
}
