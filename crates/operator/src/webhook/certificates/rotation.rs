//! Certificate rotation: the next step, as a pure function of the Secret, the injected bundles and the time.
//!
//! No request of an API server fails because of a certificate:
//!
//! - A new certificate is stored as the *next* one, beside the current one. It becomes current only after its CA has been in
//!   the `caBundle` of all webhooks for the *propagation delay*, in which every API server observes the change.
//! - The CA of the previous certificate stays in the bundle, since replicas observe the new certificate one after the other.
//! - If the Secret is lost or unusable, replicas continue to serve the certificate they have in memory. Every CA that the
//!   webhooks trust therefore stays in the bundle, and the new certificate becomes current after the *recovery delay*. That
//!   is shorter, because a replica that has just started has no certificate until then.
//! - Only if no webhook has an unexpired CA, no replica can be verified anyway, and the new certificate becomes current at
//!   once.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::certificate::{CaBundle, Hosts, ServingPair};
use super::issue::backdate;
use super::secret::SecretData;

/// API servers observe a change by watch, usually at once. This leaves time for one that lags behind.
const MAX_PROPAGATION_DELAY: Duration = Duration::from_mins(5);
/// For certificates that are valid for seconds, as in tests.
const MIN_PROPAGATION_DELAY: Duration = Duration::from_secs(1);
/// Without a certificate in the Secret, a replica that starts cannot serve, so the delay is short.
const MAX_RECOVERY_DELAY: Duration = Duration::from_secs(10);

/// What certificates are issued for, and when they are rotated.
#[derive(Clone, Debug)]
pub(super) struct RotationPolicy {
    /// The subject alternative names.
    pub hosts: Hosts,
    /// How long a certificate is valid.
    pub validity: Duration,
    /// How long a CA is in every `caBundle` before its certificate is served.
    pub(crate) propagation_delay: Duration,
    /// The same if the Secret has no certificate to serve.
    pub(crate) recovery_delay: Duration,
}

impl RotationPolicy {
    /// A policy with the delays that follow from the validity.
    #[must_use]
    pub(super) fn new(hosts: Hosts, validity: Duration) -> Self {
        let propagation_delay = (validity / 100).clamp(MIN_PROPAGATION_DELAY, MAX_PROPAGATION_DELAY);
        Self {
            hosts,
            validity,
            propagation_delay,
            recovery_delay: propagation_delay.min(MAX_RECOVERY_DELAY),
        }
    }

    /// When the certificate has to be replaced: after two thirds of its validity, or at once if it has other hosts or is
    /// valid for much longer than the policy says.
    fn renewal(&self, pair: &ServingPair, now: Timestamp) -> Timestamp {
        let is_too_long = pair.expires() > now + self.validity + backdate(self.validity);
        if pair.hosts() != &self.hosts || is_too_long {
            return now;
        }
        pair.expires() - self.validity / 3
    }

    fn is_due(&self, pair: &ServingPair, now: Timestamp) -> bool {
        self.renewal(pair, now) <= now
    }
}

/// The `caBundle` values in one of the two webhook configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InjectedBundles {
    /// The configuration was not read yet.
    Unknown,
    /// The configuration does not exist, so it calls no webhook.
    Absent,
    /// The `caBundle` of each webhook.
    Present(Vec<Vec<u8>>),
}

impl InjectedBundles {
    /// Whether every webhook has exactly this bundle.
    #[must_use]
    pub(super) fn are(&self, pem: &[u8]) -> bool {
        match self {
            Self::Unknown => false,
            Self::Absent => true,
            Self::Present(bundles) => bundles.iter().all(|bundle| bundle == pem),
        }
    }

    fn merged(&self) -> CaBundle {
        match self {
            Self::Unknown | Self::Absent => CaBundle::default(),
            Self::Present(bundles) => bundles
                .iter()
                .fold(CaBundle::default(), |all, bundle| all.merge(CaBundle::parse(bundle))),
        }
    }
}

/// Measures for how long all webhooks have had the bundle of the Secret.
///
/// It is kept in memory only. A new leader waits once more, which is safe, and needs no clock that two machines agree on.
#[derive(Clone, Debug, Default)]
pub(super) struct PropagationTimer {
    since: Option<(Vec<u8>, Instant)>,
}

impl PropagationTimer {
    /// Records an observation. Returns for how long the webhooks have had the bundle; none if they do not have it.
    pub(super) fn update(&mut self, bundle: &CaBundle, injected: &[InjectedBundles], now: Instant) -> Option<Duration> {
        let pem = bundle.to_pem();
        if !injected.iter().all(|bundles| bundles.are(&pem)) {
            self.since = None;
            return None;
        }
        match &self.since {
            Some((current, since)) if *current == pem => Some(now - *since),
            Some(_) | None => {
                self.since = Some((pem, now));
                Some(Duration::ZERO)
            }
        }
    }
}

/// The next step of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RotationStep {
    /// Wait until both configurations were read.
    WaitForSync,
    /// Issue a certificate that is served at once. Keep these CAs in the bundle.
    IssueFirst(CaBundle),
    /// Issue the next certificate. Keep these CAs in the bundle.
    IssueNext(CaBundle),
    /// Write this to the Secret.
    UpdateSecret(Box<SecretData>),
    /// Write the bundle to the configurations that do not have it.
    InjectBundle,
    /// Wait for this long, or until something changes.
    Wait(Duration),
}

/// Decides on the next step. `propagated_for` is for how long all webhooks have had the bundle of the Secret, if they do.
#[must_use]
pub(super) fn next_step(
    secret: &SecretData,
    injected: &[InjectedBundles],
    propagated_for: Option<Duration>,
    policy: &RotationPolicy,
    now: Timestamp,
) -> RotationStep {
    if injected.contains(&InjectedBundles::Unknown) {
        return RotationStep::WaitForSync;
    }
    let trusted = injected
        .iter()
        .fold(CaBundle::default(), |all, bundles| all.merge(bundles.merged()));
    let trusted = trusted.unexpired(now);
    let own = secret.bundle.unexpired(now);
    let verifying = |pair: &ServingPair| own.clone().merge(trusted.clone()).that_verify(pair, now);
    let current = secret.current.as_ref().filter(|pair| !verifying(pair).is_empty());
    let next = secret.next.as_ref();
    let next = next.filter(|pair| own.verifies(pair, now) && !policy.is_due(pair, now));
    match (current, next) {
        (None, None) if trusted.is_empty() => RotationStep::IssueFirst(own.newest_first()),
        (None, None) => RotationStep::IssueNext(trusted.merge(own.newest_first())),
        (None, Some(_)) => promote_after(policy.recovery_delay, secret, propagated_for),
        (Some(current), _) if !own.verifies(current, now) => RotationStep::UpdateSecret(Box::new(SecretData {
            bundle: verifying(current).merge(trusted).merge(own.newest_first()),
            ..secret.clone()
        })),
        (Some(_), Some(_)) => promote_after(policy.propagation_delay, secret, propagated_for),
        (Some(current), None) if policy.is_due(current, now) => {
            RotationStep::IssueNext(verifying(current).merge(own.newest_first()))
        }
        (Some(_), None) if propagated_for.is_none() => RotationStep::InjectBundle,
        (Some(current), None) => RotationStep::Wait(until(policy.renewal(current, now), now)),
    }
}

/// Makes the next certificate current once its CA has been in every `caBundle` for this delay.
fn promote_after(delay: Duration, secret: &SecretData, propagated_for: Option<Duration>) -> RotationStep {
    match propagated_for {
        None => RotationStep::InjectBundle,
        Some(propagated_for) => match delay.checked_sub(propagated_for) {
            None | Some(Duration::ZERO) => RotationStep::UpdateSecret(Box::new(secret.promote())),
            Some(rest) => RotationStep::Wait(rest),
        },
    }
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    time.duration_since(now).try_into().unwrap_or_default()
}

#[cfg(test)]
#[path = "rotation_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rotation_simulation.rs"]
mod simulation;
