//! The engine as the program of a pod: its command line, its configuration, its signals.
//! Environment variables, which a pod template can set, make it behave as a test needs beyond the contract.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;

use firebolt_api::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::{Configuration, ConfigurationError, Engine, Settings};
use crate::client::Endpoint;

/// The configuration, in the folder of the data.
const CONFIGURATION_FILE: &str = "config.yaml";

/// The command line of an engine, and beside it what only this stand-in knows.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Which node of the configuration this is, from 0
    #[arg(long, value_name = "NUMBER")]
    pub node: usize,
    /// The folder of the data, with the configuration in its config.yaml
    #[arg(long, value_name = "FOLDER")]
    pub data_dir: PathBuf,
    /// The name of the pod, which is that of its host
    #[arg(long, env = "HOSTNAME")]
    pub(crate) pod_name: String,
    /// The address that all ports are on
    #[arg(long, env = "STAND_IN_ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub address: IpAddr,
    /// The URL of the ledger, if each execution has to be reported
    #[arg(long, env = "STAND_IN_LEDGER")]
    pub ledger: Option<Endpoint>,
    /// How long nothing is listened to after the start
    #[arg(long, env = "STAND_IN_START_DELAY", value_name = "DURATION")]
    pub(crate) start_delay: Option<Duration>,
    /// End with this code at once, with a configuration that is in order
    #[arg(long, env = "STAND_IN_EXIT_CODE", value_name = "CODE")]
    pub exit_code: Option<u8>,
    /// How many MiB of memory to take at the start and keep, with a configuration that is in order
    #[arg(long, env = "STAND_IN_MEMORY", value_name = "MIB")]
    pub(crate) memory: Option<usize>,
    /// What to do on SIGTERM in place of finishing the queries
    #[arg(long, env = "STAND_IN_ON_SIGTERM")]
    pub(crate) on_sigterm: Option<OnSigterm>,
}

/// What an engine may do on SIGTERM that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnSigterm {
    /// Go on as if nothing had happened.
    Ignore,
    /// End in the middle of queries.
    Exit,
}

/// Why an engine does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The folder of the data cannot be written to.
    #[error("write to the data folder {0}")]
    Data(PathBuf, #[source] io::Error),
    /// The ports cannot be listened on.
    #[error("listen on {0}")]
    Listen(IpAddr, #[source] io::Error),
    /// The signals cannot be heard.
    #[error("listen for signals")]
    Signals(#[source] io::Error),
}

/// Runs an engine until the process is asked to end and its queries are finished, or their time is up.
pub async fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    // Before anything else: the first process of a container ignores every signal that it has no handler for.
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
    let mut terminated = pin!(async {
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => match arguments.on_sigterm {
                    Some(OnSigterm::Ignore) => tracing::warn!("SIGTERM is ignored"),
                    Some(OnSigterm::Exit) | None => return,
                },
            }
        }
    });

    let configuration = Configuration::read(&arguments.data_dir.join(CONFIGURATION_FILE))?;
    configuration.check_node(arguments.node, &arguments.pod_name)?;
    check_writable(&arguments.data_dir, &arguments.pod_name)?;
    if let Some(code) = arguments.exit_code {
        tracing::warn!("ending with code {code}, as STAND_IN_EXIT_CODE asks for");
        return Ok(ExitCode::from(code));
    }
    // Not zeros, which take no memory before they are changed.
    let _taken = arguments.memory.map(|mebibytes| {
        tracing::warn!("taking {mebibytes} MiB, as STAND_IN_MEMORY asks for");
        std::hint::black_box(vec![1_u8; mebibytes << 20])
    });
    if let Some(delay) = arguments.start_delay {
        tracing::warn!("starting in {delay}, as STAND_IN_START_DELAY asks for");
        tokio::select! {
            () = sleep(delay.get()) => {}
            () = terminated.as_mut() => return Ok(ExitCode::SUCCESS),
        }
    }

    let settings = Settings {
        ledger: arguments.ledger,
        ..Settings::of_pod(&arguments.pod_name, arguments.address)
    };
    let engine = Engine::start(&settings).await;
    let engine = engine.map_err(|error| Error::Listen(arguments.address, error))?;
    tracing::info!(
        "node {} of the engine {} takes queries",
        arguments.node,
        configuration.engine
    );
    terminated.await;
    match arguments.on_sigterm {
        Some(OnSigterm::Exit) => tracing::warn!("ending at once, as STAND_IN_ON_SIGTERM asks for"),
        Some(OnSigterm::Ignore) | None => {
            // Whatever is left when the time is up is cut off, as the end of the grace period would do.
            let _cut_off = timeout(configuration.termination_grace_period, engine.shut_down()).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file, as the real engine writes its data, and takes it away.
fn check_writable(folder: &Path, pod: &str) -> Result<(), Error> {
    let file = folder.join(format!(".{pod}-can-write"));
    fs::write(&file, "")
        .and_then(|()| fs::remove_file(&file))
        .map_err(|error| Error::Data(folder.to_owned(), error))
}
