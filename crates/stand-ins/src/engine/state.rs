//! What an engine knows of itself: what it executes, what it executed, and whether it takes more.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use super::Settings;
use crate::ledger::Reporter;

#[derive(Debug)]
pub(super) struct State {
    pod: String,
    ledger: Option<Reporter>,
    ready: AtomicBool,
    metrics_broken: AtomicBool,
    rejected: AtomicUsize,
    // One lock over both, so that no query slips in after the last one was counted.
    intake: Mutex<Intake>,
    running: watch::Sender<usize>,
    release: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Intake {
    stopping: bool,
    begun: usize,
    executed: Vec<String>,
}

/// A query that is being executed.
#[derive(Debug)]
pub(super) struct Execution<'state> {
    id: String,
    state: &'state State,
    release: watch::Receiver<()>,
}

impl State {
    pub(super) fn new(settings: &Settings) -> Self {
        let pod = settings.pod_name.clone();
        Self {
            ledger: settings.ledger.clone().map(|ledger| Reporter::new(ledger, &pod)),
            pod,
            ready: AtomicBool::new(true),
            metrics_broken: AtomicBool::new(false),
            rejected: AtomicUsize::new(0),
            intake: Mutex::default(),
            running: watch::Sender::new(0),
            release: watch::Sender::new(()),
        }
    }

    pub(super) fn pod(&self) -> &str {
        &self.pod
    }

    pub(super) fn ledger(&self) -> Option<&Reporter> {
        self.ledger.as_ref()
    }

    /// Takes a query in, or turns it away. A query without an identifier gets one.
    pub(super) fn begin(&self, id: Option<String>) -> Option<Execution<'_>> {
        let mut intake = self.intake();
        if intake.stopping {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let id = id.unwrap_or_else(|| format!("{}-{}", self.pod, intake.begun));
        intake.begun += 1;
        intake.executed.push(id.clone());
        // Listens before it is counted: a client that observes it as running can release it.
        let release = self.release.subscribe();
        self.running.send_modify(|running| *running += 1);
        Some(Execution {
            id,
            state: self,
            release,
        })
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.intake().stopping
    }

    pub(super) fn begin_shutdown(&self) {
        self.intake().stopping = true;
    }

    pub(super) fn executed(&self) -> Vec<String> {
        self.intake().executed.clone()
    }

    pub(super) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) -> usize {
        self.rejected.load(Ordering::Relaxed)
    }

    pub(super) fn running(&self) -> usize {
        *self.running.borrow()
    }

    pub(super) async fn until_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        // The sender lives as long as this state, so that waiting cannot fail.
        let _count = running.wait_for(|running| *running == count).await;
    }

    /// Lets the queries that are being executed end now.
    pub(super) fn release(&self) {
        self.release.send_replace(());
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && !self.is_stopping()
    }

    pub(super) fn break_metrics(&self, broken: bool) {
        self.metrics_broken.store(broken, Ordering::Relaxed);
    }

    pub(super) fn has_broken_metrics(&self) -> bool {
        self.metrics_broken.load(Ordering::Relaxed)
    }

    fn intake(&self) -> std::sync::MutexGuard<'_, Intake> {
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Execution<'_> {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Ends the query as one that was not executed.
    pub(super) fn take_back(self) {
        let executed = &mut self.state.intake().executed;
        if let Some(place) = executed.iter().rposition(|id| *id == self.id) {
            executed.remove(place);
        }
    }

    /// Waits until the query is let go.
    pub(super) async fn released(&mut self) {
        // The sender lives as long as the state that this borrows from, so that waiting cannot fail.
        let _changed = self.release.changed().await;
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        self.state.running.send_modify(|running| *running -= 1);
    }
}
