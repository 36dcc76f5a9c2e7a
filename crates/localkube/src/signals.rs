//! Tears down the clusters of this process when it is told to end.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::running::Running;

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

/// Has the cluster torn down when a signal arrives.
pub(crate) fn register(running: &Arc<Running>) {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|other| other.strong_count() > 0);
    live.push(Arc::downgrade(running));
}

fn handle(mut signals: Signals) {
    for signal in signals.forever() {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        for running in live.iter().filter_map(Weak::upgrade) {
            if let Err(error) = running.tear_down() {
                eprintln!("localkube: tear down {}: {error}", running.layout.dir().display());
            }
        }
        drop(live);
        // Whoever waits for this process sees that the signal ended it.
        if let Err(error) = emulate_default_handler(signal) {
            eprintln!("localkube: end on signal {signal}: {error}");
        }
    }
}
