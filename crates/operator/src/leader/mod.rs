//! Leader election by a Lease: one process leads, the others stand by with warm caches.
//!
//! [`decide`] holds the rules and does no I/O; [`apply`] holds the requests and takes no decisions. [`run`] goes round
//! between them. A watch on the Lease tells a candidate at once that it was released, and a leader that somebody
//! deleted it; it is a hint only, and what follows from it is decided on a live read.
//!
//! A process leads at most once: when it loses the lease it must exit, because work of its old term may still be under
//! way.

pub mod apply;
pub mod decide;
mod report;

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::apply::{LeaseError, LeaseHandle};
use self::decide::{Claim, Loss, Record, Request, Seen, Standing, Step, decide};
pub use self::report::{Access, Report, Role, Term};
use crate::backoff::{RetryBackoff, jittered};
use crate::settings::LabelSelector;
use crate::watches::{Incidents, Trouble};

/// How an election ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to stop; a lease that was held has been released, or expires by itself.
    Stopped,
    /// Leadership was lost. Work of this term must not go on.
    Lost(Loss),
}

/// Takes part in the election until `stop` or until leadership is lost, and tells each change through `report`.
///
/// The caller stops its leader-only work *before* it cancels `stop`: the lease is released right after.
///
/// Every failure is told once, with its remedy, and retried; one that costs the lease ends in [`Ended::Lost`]. That
/// holds for a missing permission too: an API server that has just started refuses everybody until it has read the
/// roles, and whoever forgot to grant something need not restart anything afterwards.
pub async fn run(handle: LeaseHandle, report: watch::Sender<Report>, stop: CancellationToken) -> Ended {
    let longest_pause = handle.timing().duration;
    let hints = watch_object(handle.api(), handle.name()).backoff(RetryBackoff::up_to(longest_pause));
    let mut hints = pin!(hints);
    let mut elector = Elector::new(handle, report);
    loop {
        if stop.is_cancelled() {
            elector.release().await;
            return Ended::Stopped;
        }
        match elector.next_step() {
            Step::Wait(until) => {
                elector.came_to_rest();
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep_until(until) => elector.waited(),
                    Some(hint) = hints.next() => match hint {
                        Ok(lease) => {
                            elector.watch_works();
                            elector.take_hint(lease);
                        }
                        // The timers work without the watch, only more slowly.
                        Err(error) => elector.tell_of_watch(&error),
                    },
                }
            }
            Step::Lost(loss) => {
                elector.stop_leading();
                return Ended::Lost(loss);
            }
            Step::Request(request) => elector.perform(request).await,
        }
    }
}

struct Elector {
    handle: LeaseHandle,
    report: watch::Sender<Report>,
    standing: Standing,
    seen: Option<Seen>,
    /// The Lease as it was last read or written: the base of the next write.
    lease: Option<Lease>,
    retry_at: Option<Instant>,
    watch_trouble: Incidents,
    /// The failure that was last logged, so that each is told once and not per attempt.
    trouble: Option<String>,
}

impl Elector {
    fn new(handle: LeaseHandle, report: watch::Sender<Report>) -> Self {
        let watch_trouble = Incidents::with_pauses_up_to(handle.timing().duration);
        Self {
            handle,
            report,
            standing: Standing::Candidate { sent: None },
            seen: None,
            lease: None,
            retry_at: None,
            watch_trouble,
            trouble: None,
        }
    }

    fn next_step(&self) -> Step {
        decide(
            self.seen.as_ref(),
            &self.standing,
            self.handle.timing(),
            self.retry_at,
            Instant::now(),
        )
    }

    /// There is nothing to do. If no failure is the reason, a candidate has shown that it can take part: it has read
    /// that another leads. Merely reading would not show it, since a missing namespace reads like a missing Lease.
    fn came_to_rest(&self) {
        if self.retry_at.is_some() {
            return;
        }
        let is_new = self.report.send_if_modified(|report| {
            let before = std::mem::replace(&mut report.access, Access::Proven);
            before != Access::Proven
        });
        if is_new {
            let holder = record(self.lease.as_ref()).and_then(|record| record.holder);
            info!(
                lease = self.handle.lease(),
                "this process stands by: {} leads",
                holder.as_deref().unwrap_or("another")
            );
        }
    }

    fn stop_leading(&self) {
        self.report.send_modify(|report| report.role = Role::Standby);
    }

    /// Time has passed. What a candidate saw before may no longer be so.
    fn waited(&mut self) {
        match self.standing {
            Standing::Candidate { .. } => self.doubt(),
            Standing::Leading { .. } => {}
        }
    }

    fn doubt(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.live = false;
        }
    }

    /// The watch may lag behind our own writes, so a leader only looks closer when it shows something unexpected.
    fn take_hint(&mut self, lease: Option<Lease>) {
        match &self.standing {
            Standing::Candidate { .. } => self.saw(lease, false),
            Standing::Leading { claim, .. } => {
                if !record(lease.as_ref()).is_some_and(|record| claim.is_in(&record)) {
                    self.doubt();
                }
            }
        }
    }

    fn saw(&mut self, lease: Option<Lease>, live: bool) {
        let now = Instant::now();
        self.seen = Some(Seen::update(
            self.seen.take(),
            record(lease.as_ref()),
            live,
            self.handle.timing(),
            now,
        ));
        self.lease = lease;
    }

    /// Makes a request. The end of a term does not wait for an answer.
    async fn perform(&mut self, request: Request) {
        match self.standing {
            Standing::Candidate { .. } => self.request(request).await,
            Standing::Leading { renewed, .. } => {
                let term_ends = renewed + self.handle.timing().give_up_after();
                let _unanswered = timeout_at(term_ends, self.request(request)).await;
            }
        }
    }

    async fn request(&mut self, request: Request) {
        match self.attempt(request).await {
            Ok(()) => {
                self.retry_at = None;
                if self.trouble.take().is_some() {
                    info!(lease = self.handle.lease(), "the lease can be reached again");
                }
            }
            Err(error) => {
                self.doubt();
                self.retry_at = Some(Instant::now() + jittered(self.handle.timing().retry_every()));
                self.tell(&error);
            }
        }
    }

    async fn attempt(&mut self, request: Request) -> Result<(), LeaseError> {
        match request {
            Request::Look => {
                let lease = self.handle.read().await?;
                self.saw(lease, true);
                Ok(())
            }
            Request::Create => self.hold(None).await,
            Request::Acquire | Request::Renew => self.hold(self.lease.clone().as_ref()).await,
        }
    }

    async fn hold(&mut self, lease: Option<&Lease>) -> Result<(), LeaseError> {
        // The term counts from here, not from the answer: the API server may store the renewal at any time in between.
        let begun = Instant::now();
        let claim = self.claim(lease);
        if let Standing::Candidate { sent } = &mut self.standing {
            *sent = Some(claim.clone());
        }
        let stored = match lease {
            Some(lease) => self.handle.hold(lease, &claim).await?,
            None => self.handle.create(&claim).await?,
        };
        self.saw(Some(stored), true);
        if begun.elapsed() >= self.handle.timing().give_up_after() {
            // The answer came so late that the term is over. A leader stops; a candidate never says that it leads, and
            // renews its claim first.
            self.waited();
            return Ok(());
        }
        self.standing = Standing::Leading { claim, renewed: begun };
        let term = Report::leading_until(begun + self.handle.timing().give_up_after());
        if self.report.send_replace(term).role == Role::Standby {
            info!(lease = self.handle.lease(), "this process leads now");
        }
        Ok(())
    }

    fn claim(&self, lease: Option<&Lease>) -> Claim {
        let record = record(lease);
        match &self.standing {
            Standing::Leading { claim, .. } => claim.clone(),
            Standing::Candidate { sent } => sent
                .clone()
                .filter(|sent| record.as_ref().is_some_and(|record| sent.is_in(record)))
                .unwrap_or_else(|| self.handle.next_claim(record.as_ref())),
        }
    }

    fn tell(&mut self, error: &LeaseError) {
        match error {
            // Losing a race is how elections work.
            LeaseError::Changed { .. } => debug!("cannot {error}"),
            LeaseError::Forbidden { .. }
            | LeaseError::NoNamespace { .. }
            | LeaseError::TimedOut { .. }
            | LeaseError::Failed { .. } => {
                let text = format!("cannot {error}. {}", error.remedy());
                if self.trouble.as_ref() != Some(&text) {
                    warn!("{text}");
                }
                self.report.send_if_modified(|report| {
                    let is_open = report.access != Access::Proven;
                    if is_open {
                        report.access = Access::HeldUp(text.clone());
                    }
                    is_open
                });
                self.trouble = Some(text);
            }
        }
    }

    fn tell_of_watch(&mut self, error: &watcher::Error) {
        let trouble = Trouble::of(error, &LabelSelector::default());
        if self.watch_trouble.is_news(&trouble, Instant::now()) {
            warn!(
                "cannot watch lease {}: {}. Until this works, taking over may need twice the lease duration. Check \
                 that list and watch on leases.coordination.k8s.io are granted (deploy/rbac.yaml does).",
                self.handle.lease(),
                trouble.cause()
            );
        }
    }

    fn watch_works(&mut self) {
        if self.watch_trouble.end() {
            info!("can watch lease {} now", self.handle.lease());
        }
    }

    /// Best effort: if it fails, the lease expires by itself.
    async fn release(&mut self) {
        let Standing::Leading { claim, .. } = self.standing.clone() else {
            return;
        };
        let Some(mut lease) = self.lease.take() else { return };
        let mut released = self.handle.release(&lease).await;
        if let Err(LeaseError::Changed { .. }) = released
            && let Ok(Some(fresh)) = self.handle.read().await
            && record(Some(&fresh)).is_some_and(|record| claim.is_in(&record))
        {
            lease = fresh;
            released = self.handle.release(&lease).await;
        }
        self.stop_leading();
        match released {
            Ok(_) => info!(lease = self.handle.lease(), "released the lease"),
            Err(error) => warn!(
                "cannot {error}; the lease expires by itself within {:?}",
                self.handle.timing().duration
            ),
        }
    }
}

fn record(lease: Option<&Lease>) -> Option<Record> {
    lease.map(|lease| lease.spec.as_ref().map(Record::from).unwrap_or_default())
}

/// How leadership was lost, in words for the log.
#[must_use]
pub fn explain(loss: &Loss, give_up_after: Duration) -> String {
    match loss {
        Loss::NotRenewed => format!("it could not be renewed within {give_up_after:?}"),
        Loss::Taken { by: Some(holder) } => format!("{holder} holds it now"),
        Loss::Taken { by: None } => "its holder was cleared by someone else".to_owned(),
    }
}
