//! The load as a program, which prints a JSON line with its counts several times a second.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

use super::{Counts, Faults, Ledger, Load, Report, Settings};
use crate::client::Endpoint;

/// How often the counts are printed.
const EVERY: Duration = Duration::from_millis(200);
/// How many failed queries are printed at the end.
const FAILURES: usize = 10;

/// What the load is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The URL of the gateway
    #[arg(long, value_name = "URL")]
    pub gateway: Endpoint,
    /// The name of the engine
    #[arg(long, value_name = "NAME")]
    pub engine: String,
    /// How many clients there are
    #[arg(long, value_name = "COUNT", default_value = "8")]
    pub clients: NonZeroU32,
    /// How many queries a second they send together, at most; as many as they can unless set
    #[arg(long, value_name = "COUNT")]
    pub rate: Option<NonZeroU32>,
    /// How long each query runs
    #[arg(long, default_value = "0s")]
    pub duration: firebolt_api::Duration,
    /// Where to serve a ledger, for engines that have its URL
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub ledger: Option<SocketAddr>,
}

/// Why the load does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger cannot be served.
    #[error("serve the ledger on {0}")]
    Ledger(SocketAddr, #[source] io::Error),
    /// The reader of the output is gone.
    #[error("write to the standard output")]
    Output(#[source] io::Error),
    /// The signals cannot be heard.
    #[error("listen for signals")]
    Signals(#[source] io::Error),
}

impl Arguments {
    fn settings(&self) -> Settings {
        let clients = self.clients.get();
        let pause = |rate: NonZeroU32| Duration::from_secs(1) * clients / rate.get();
        Settings {
            clients,
            pause: self.rate.map_or(Duration::ZERO, pause),
            duration: self.duration.get(),
        }
    }
}

/// Runs clients until the process is asked to end. It succeeds if no query was lost, failed or ran twice.
pub async fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let ledger = match arguments.ledger {
        None => None,
        Some(address) => Some(
            Ledger::bind(address)
                .await
                .map_err(|error| Error::Ledger(address, error))?,
        ),
    };
    let load = Load::start(arguments.gateway.clone(), &arguments.engine, arguments.settings());
    let mut clock = interval(EVERY);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = clock.tick() => print(&json!(load.counts()))?,
        }
    }
    let report = load.stop().await;
    let faults = match &ledger {
        Some(ledger) => report.faults(ledger),
        // What ran is not known then, but what failed is.
        None => Faults {
            failures: report.failures.clone(),
            ..Faults::default()
        },
    };
    print(&summary(&report, &faults, ledger.is_some()))?;
    let clean = faults == Faults::default();
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(line: &serde_json::Value) -> Result<(), Error> {
    writeln!(io::stdout(), "{line}").map_err(Error::Output)
}

/// The last line. Without a ledger, what was lost or ran twice is not known.
fn summary(report: &Report, faults: &Faults, has_ledger: bool) -> serde_json::Value {
    let latency = report.latency();
    let known = |count: usize| has_ledger.then_some(count);
    let milliseconds = |length: Duration| length.as_secs_f64() * 1000.0;
    let counts = Counts {
        sent: report.answered.len() + report.failures.len(),
        answered: report.answered.len(),
        failed: report.failures.len(),
        in_flight: 0,
    };
    let mut line = json!(counts);
    line["report"] = json!({
        "ran_twice": known(faults.ran_twice.len()),
        "lost": known(faults.lost.len()),
        "failures": faults.failures.iter().take(FAILURES).collect::<Vec<_>>(),
        "p50_ms": milliseconds(latency.p50),
        "p99_ms": milliseconds(latency.p99),
        "max_ms": milliseconds(latency.max),
    });
    line
}
