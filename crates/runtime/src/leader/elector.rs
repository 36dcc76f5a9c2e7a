//! Takes part in the election: makes the requests that [`decide`](super::decide) asks for.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error_span, info, warn};

use super::apply::{LeaseClient, LeaseError};
use super::decide::{Claim, ElectionStep, LeaseRecord, Loss, ObservedLease, Request, Standing, decide};
use super::status::{Access, ElectionStatus, Role};
use crate::backoff::{WatchBackoff, jittered};
use crate::informer::{FailureLog, WatchError};

/// How an election ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped. A lease that was held has been released, or expires.
    Stopped,
    /// No reconcile may continue after leadership is lost.
    Lost(Loss),
}

/// What users can do about failures.
#[derive(Clone, Copy, Debug)]
pub struct Remedies {
    /// About a request that failed, in a sentence.
    pub request: fn(&LeaseError) -> String,
    /// About a watch that fails, in a sentence.
    pub watch: &'static str,
}

/// Takes part in the election until `stop` or until leadership is lost, and publishes each change as `status`.
///
/// The caller stops its leader-only work *before* it cancels `stop`: the lease is released right after.
///
/// Every failure is logged once, with its remedy, and retried; one that costs the lease ends in [`Ended::Lost`]. A missing
/// permission is retried too: an API server that has just started rejects everybody until it has read the roles, and a
/// permission that is granted later works without a restart.
pub async fn run(
    client: LeaseClient,
    remedies: Remedies,
    status: watch::Sender<ElectionStatus>,
    stop: CancellationToken,
) -> Ended {
    let span = error_span!(
        "election",
        kind = "Lease",
        namespace = client.namespace(),
        name = client.name()
    );
    elect(client, remedies, status, stop).instrument(span).await
}

async fn elect(
    client: LeaseClient,
    remedies: Remedies,
    status: watch::Sender<ElectionStatus>,
    stop: CancellationToken,
) -> Ended {
    let longest_delay = client.timing().duration;
    let hints = watch_object(client.api(), client.name()).backoff(WatchBackoff::up_to(longest_delay));
    let mut hints = pin!(hints);
    let mut elector = Elector::new(client, remedies, status);
    loop {
        if stop.is_cancelled() {
            elector.release().await;
            return Ended::Stopped;
        }
        match elector.next_step() {
            ElectionStep::Wait(until) => {
                elector.is_idle();
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep_until(until) => elector.waited(),
                    Some(hint) = hints.next() => match hint {
                        Ok(lease) => {
                            elector.watch_recovered();
                            elector.take_hint(lease);
                        }
                        // The timers work without the watch, only more slowly.
                        Err(error) => elector.watch_failed(&error),
                    },
                }
            }
            ElectionStep::Lost(loss) => {
                elector.stop_leading();
                return Ended::Lost(loss);
            }
            ElectionStep::Request(request) => elector.perform(request).await,
        }
    }
}

struct Elector {
    client: LeaseClient,
    remedies: Remedies,
    status: watch::Sender<ElectionStatus>,
    standing: Standing,
    observed: Option<ObservedLease>,
    /// The Lease as it was last read or written: the base of the next write.
    lease: Option<Lease>,
    retry_at: Option<Instant>,
    watch_failures: FailureLog,
    /// The failure that was last logged, so that each is logged once and not per attempt.
    failure: Option<String>,
}

impl Elector {
    fn new(client: LeaseClient, remedies: Remedies, status: watch::Sender<ElectionStatus>) -> Self {
        let watch_failures = FailureLog::with_delays_up_to(client.timing().duration);
        Self {
            client,
            remedies,
            status,
            standing: Standing::Candidate { sent: None },
            observed: None,
            lease: None,
            retry_at: None,
            watch_failures,
            failure: None,
        }
    }

    fn next_step(&self) -> ElectionStep {
        decide(
            self.observed.as_ref(),
            &self.standing,
            self.client.timing(),
            self.retry_at,
            Instant::now(),
        )
    }

    /// There is nothing to do. If no failure is the reason, a candidate has proven that it can become the leader: it has
    /// read that another process is. A read alone does not prove it: a missing namespace looks like a missing Lease.
    fn is_idle(&self) {
        if self.retry_at.is_some() {
            return;
        }
        let is_new = self.status.send_if_modified(|status| {
            let before = std::mem::replace(&mut status.access, Access::Proven);
            before != Access::Proven
        });
        if is_new {
            let holder = record(self.lease.as_ref()).and_then(|record| record.holder);
            info!(
                "standing by, lease is held by {}",
                holder.as_deref().unwrap_or("another process")
            );
        }
    }

    fn stop_leading(&self) {
        self.status.send_modify(|status| status.role = Role::Standby);
    }

    /// Time has passed. What a candidate observed before may be outdated.
    fn waited(&mut self) {
        match self.standing {
            Standing::Candidate { .. } => self.mark_stale(),
            Standing::Leading { .. } => {}
        }
    }

    fn mark_stale(&mut self) {
        if let Some(observed) = &mut self.observed {
            observed.live = false;
        }
    }

    /// The watch may be behind our own writes, so a leader reads the Lease if it shows something unexpected.
    fn take_hint(&mut self, lease: Option<Lease>) {
        match &self.standing {
            Standing::Candidate { .. } => self.observe(lease, false),
            Standing::Leading { claim, .. } => {
                if !record(lease.as_ref()).is_some_and(|record| claim.is_in(&record)) {
                    self.mark_stale();
                }
            }
        }
    }

    fn observe(&mut self, lease: Option<Lease>, live: bool) {
        let now = Instant::now();
        self.observed = Some(ObservedLease::update(
            self.observed.take(),
            record(lease.as_ref()),
            live,
            self.client.timing(),
            now,
        ));
        self.lease = lease;
    }

    /// Makes a request. The end of leadership does not wait for the response.
    async fn perform(&mut self, request: Request) {
        match self.standing {
            Standing::Candidate { .. } => self.request(request).await,
            Standing::Leading { renewed, .. } => {
                let deadline = renewed + self.client.timing().give_up_after();
                let _unanswered = timeout_at(deadline, self.request(request)).await;
            }
        }
    }

    async fn request(&mut self, request: Request) {
        match self.attempt(request).await {
            Ok(()) => {
                self.retry_at = None;
                if self.failure.take().is_some() {
                    info!("lease requests succeed again");
                }
            }
            Err(error) => {
                self.mark_stale();
                self.retry_at = Some(Instant::now() + jittered(self.client.timing().retry_every()));
                self.log(&error);
            }
        }
    }

    async fn attempt(&mut self, request: Request) -> Result<(), LeaseError> {
        match request {
            Request::Read => {
                let lease = self.client.read().await?;
                self.observe(lease, true);
                Ok(())
            }
            Request::Create => self.hold(None).await,
            Request::Acquire | Request::Renew => self.hold(self.lease.clone().as_ref()).await,
        }
    }

    async fn hold(&mut self, lease: Option<&Lease>) -> Result<(), LeaseError> {
        // The lease duration counts from here, not from the response: the API server may store the renewal at any time in
        // between.
        let begun = Instant::now();
        let claim = self.claim(lease);
        if let Standing::Candidate { sent } = &mut self.standing {
            *sent = Some(claim.clone());
        }
        let stored = match lease {
            Some(lease) => self.client.hold(lease, &claim).await?,
            None => self.client.create(&claim).await?,
        };
        self.observe(Some(stored), true);
        if begun.elapsed() >= self.client.timing().give_up_after() {
            // The response came so late that leadership has ended. A leader stops; a candidate never becomes the leader, and
            // renews its claim first.
            self.waited();
            return Ok(());
        }
        self.standing = Standing::Leading { claim, renewed: begun };
        let leading = ElectionStatus::leader_until(begun + self.client.timing().give_up_after());
        if self.status.send_replace(leading).role == Role::Standby {
            info!("acquired lease, leading");
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
                .unwrap_or_else(|| self.client.next_claim(record.as_ref())),
        }
    }

    fn log(&mut self, error: &LeaseError) {
        match error {
            // Losing a race is normal.
            LeaseError::Changed { .. } => debug!("cannot {error}"),
            LeaseError::Forbidden { .. }
            | LeaseError::NoNamespace { .. }
            | LeaseError::TimedOut { .. }
            | LeaseError::Failed { .. } => {
                let text = format!("cannot {error}. {}", (self.remedies.request)(error));
                if self.failure.as_ref() != Some(&text) {
                    warn!("{text}");
                }
                self.status.send_if_modified(|status| {
                    let is_open = status.access != Access::Proven;
                    if is_open {
                        status.access = Access::Failed(text.clone());
                    }
                    is_open
                });
                self.failure = Some(text);
            }
        }
    }

    fn watch_failed(&mut self, error: &watcher::Error) {
        let error = WatchError::new(error, false);
        if self.watch_failures.should_log(&error, Instant::now()) {
            warn!(
                "cannot watch lease {}: {}. Until the watch recovers, a takeover can take up to twice the lease duration. {}",
                self.client.lease(),
                error.cause(),
                self.remedies.watch
            );
        }
    }

    fn watch_recovered(&mut self) {
        if self.watch_failures.recovered() {
            info!("watch of lease {} recovered", self.client.lease());
        }
    }

    /// Best effort: if it fails, the lease expires by itself.
    async fn release(&mut self) {
        let Standing::Leading { claim, .. } = self.standing.clone() else {
            return;
        };
        let Some(mut lease) = self.lease.take() else { return };
        let mut released = self.client.release(&lease).await;
        if let Err(LeaseError::Changed { .. }) = released
            && let Ok(Some(fresh)) = self.client.read().await
            && record(Some(&fresh)).is_some_and(|record| claim.is_in(&record))
        {
            lease = fresh;
            released = self.client.release(&lease).await;
        }
        self.stop_leading();
        match released {
            Ok(_) => info!("released lease"),
            Err(error) => warn!(
                "cannot {error}; the lease expires within {:?}",
                self.client.timing().duration
            ),
        }
    }
}

fn record(lease: Option<&Lease>) -> Option<LeaseRecord> {
    lease.map(|lease| lease.spec.as_ref().map(LeaseRecord::from).unwrap_or_default())
}

/// How leadership was lost.
#[must_use]
pub fn explain(loss: &Loss, give_up_after: Duration) -> String {
    match loss {
        Loss::NotRenewed => format!("it could not be renewed within {give_up_after:?}"),
        Loss::Taken { by: Some(holder) } => format!("it is held by {holder}"),
        Loss::Taken { by: None } => "another client cleared its holder".to_owned(),
    }
}
