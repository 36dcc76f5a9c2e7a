//! The certificate that the server uses. It can be replaced while connections are open.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::certificate::ServingPair;

/// The certificate that the server uses, if there is one yet. Each new connection gets the latest.
#[derive(Default)]
pub struct ServingCertificate {
    pair: watch::Sender<Option<ServingPair>>,
    /// Whether the Secret is known not to exist.
    secret_missing: AtomicBool,
}

impl ServingCertificate {
    /// Whether there is a certificate.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pair.borrow().is_some()
    }

    /// Why the webhook is not ready; none if it is. A standby replica is ready while the Secret does not exist: the leader
    /// creates it, and a leader that runs without webhooks never does.
    #[must_use]
    pub(crate) fn missing(&self, leads: bool) -> Option<String> {
        let waits = !self.is_ready() && (leads || !self.secret_missing.load(Ordering::Relaxed));
        waits.then(|| "waiting for the serving certificate of the webhook: see the log for the cause".to_owned())
    }

    /// Records whether the Secret exists.
    pub(super) fn set_secret_exists(&self, exists: bool) {
        self.secret_missing.store(!exists, Ordering::Relaxed);
    }

    /// The expiry of the certificate.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.pair.borrow().as_ref().map(ServingPair::expires)
    }

    /// Waits for the first certificate.
    pub async fn ready(&self) {
        let mut pairs = self.pair.subscribe();
        let first = pairs.wait_for(Option::is_some).await;
        first.expect("the sender is borrowed for as long as this runs");
    }

    /// Serves this certificate from now on. Returns false if it is already in use.
    pub(super) fn replace(&self, pair: ServingPair) -> bool {
        self.pair.send_if_modified(|current| {
            let is_new = current.as_ref() != Some(&pair);
            if is_new {
                *current = Some(pair);
            }
            is_new
        })
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _client: ClientHello) -> Option<Arc<CertifiedKey>> {
        self.pair.borrow().as_ref().map(ServingPair::certified_key)
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter
            .debug_struct("ServingCertificate")
            .field("expires", &self.expires())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::first_start(false, true, true)]
    #[case::beside_a_leader_without_webhooks(false, false, false)]
    #[case::unreadable(true, false, true)]
    fn a_standby_does_not_wait_for_a_secret_that_does_not_exist(
        #[case] exists: bool,
        #[case] leads: bool,
        #[case] waits: bool,
    ) {
        let serving = ServingCertificate::default();
        assert!(serving.missing(leads).is_some(), "the Secret was not read yet");
        serving.set_secret_exists(exists);
        assert_eq!(serving.missing(leads).is_some(), waits);
    }
}
