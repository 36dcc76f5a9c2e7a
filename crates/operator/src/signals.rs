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
        // Waited for outside of the macro, which looks at its arguments only if somebody wants to read them.
        let name = self.next().await;
        info!("stopping on {name}");
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
