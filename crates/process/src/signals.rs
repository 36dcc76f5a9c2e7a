//! SIGTERM and SIGINT: the first one asks the process to stop, the second one ends it immediately.

use std::io;
use std::process;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Receives both signals from the moment it exists.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal. From then on, a second one ends the process without any cleanup.
    pub async fn first(mut self) {
        // Awaited outside of the macro, which evaluates its arguments only if the level is enabled.
        let name = self.next().await;
        info!("received {name}, stopping");
        tokio::spawn(async move {
            let name = self.next().await;
            warn!("received a second signal ({name}), exiting immediately");
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
    async fn the_first_signal_is_awaited_even_if_logging_is_off() {
        let signals = Signals::catch().unwrap();
        let first = tokio::time::timeout(Duration::ZERO, signals.first());
        assert!(first.await.is_err(), "no signal was sent");
    }
}
