//! Tears down the clusters of this process when it is asked to end.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;

use firebolt_process::error::chain;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::running::Running;
use crate::Result;

static LIVE: Mutex<Vec<Weak<Running>>> = Mutex::new(Vec::new());
static THREAD: Once = Once::new();

/// Starts the thread that handles signals, once for the process, so that a cluster is never without it.
pub(crate) fn install() {
    THREAD.call_once(|| match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => {
            thread::spawn(move || handle(signals));
        }
        // Best effort: the next start clears what a signal then leaves behind.
        Err(error) => eprintln!("localkube: handle signals: {error}"),
    });
}

/// Creates a cluster that is torn down when a signal arrives. A signal that arrives while `make` runs waits for it, so
/// that no directory exists that nothing would remove: `make` has to be quick.
pub(crate) fn register(make: impl FnOnce() -> Result<Running>) -> Result<Arc<Running>> {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let running = Arc::new(make()?);
    live.retain(|other| other.strong_count() > 0);
    live.push(Arc::downgrade(&running));
    Ok(running)
}

/// If a signal is being handled, waits for the end of the process. Otherwise, a caller whose cluster was torn down
/// could report that as an error before the signal ends the process.
pub(crate) fn give_way() {
    drop(LIVE.lock().unwrap_or_else(PoisonError::into_inner));
}

fn handle(mut signals: Signals) {
    for signal in signals.forever() {
        // Kept to the end of the process: nothing may be registered once the clusters are gone.
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        for running in live.iter().filter_map(Weak::upgrade) {
            if let Err(error) = running.tear_down() {
                eprintln!(
                    "localkube: tear down {}: {}",
                    running.layout.dir().display(),
                    chain(&error)
                );
            }
        }
        // The parent of this process observes that the signal ended it.
        if let Err(error) = emulate_default_handler(signal) {
            eprintln!("localkube: end on signal {signal}: {error}");
        }
    }
}
