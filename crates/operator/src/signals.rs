//! SIGTERM and SIGINT: the first asks the process to stop, the second ends it at once.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Catches both signals from the moment it exists.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts catching.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal. From then on, another one ends the process without any tidying up.
    pub async fn first(mut self) {
        info!("stopping on {}", self.next().await);
        tokio::spawn(async move {
            let name = self.next().await;
            warn!("ending at once on a second signal ({name})");
            process::exit(1);
        });
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
