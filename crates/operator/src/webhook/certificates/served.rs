//! The certificate that is served now; swapped while connections go on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::material::Pair;

/// The certificate that is served now, if there is one yet. Each new connection gets the latest.
#[derive(Default)]
pub struct Served {
    pair: watch::Sender<Option<Pair>>,
    /// There is no Secret to serve from.
    nothing_stored: AtomicBool,
}

impl Served {
    /// Whether there is a certificate to serve.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pair.borrow().is_some()
    }

    /// What keeps this process from serving, in words; none if nothing does. One that stands by waits for nothing as long as
    /// there is no Secret at all: whoever leads makes it, and one that stood by until then could never take over from a
    /// leader that has no webhooks.
    #[must_use]
    pub fn missing(&self, leads: bool) -> Option<String> {
        let waits = !self.is_ready() && (leads || !self.nothing_stored.load(Ordering::Relaxed));
        waits.then(|| "waiting for a certificate to serve the webhook with: the log says what is in the way".to_owned())
    }

    /// Whether there is a Secret to serve from.
    pub(super) fn stored(&self, is_there: bool) {
        self.nothing_stored.store(!is_there, Ordering::Relaxed);
    }

    /// When the certificate expires.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.pair.borrow().as_ref().map(Pair::ends)
    }

    /// Waits for the first certificate.
    pub async fn ready(&self) {
        let mut pairs = self.pair.subscribe();
        let first = pairs.wait_for(Option::is_some).await;
        first.expect("the sender is borrowed for as long as this runs");
    }

    /// Serves this one from now on. False if it is the one that is served already.
    pub(super) fn serve(&self, pair: Pair) -> bool {
        self.pair.send_if_modified(|served| {
            let is_new = served.as_ref() != Some(&pair);
            if is_new {
                *served = Some(pair);
            }
            is_new
        })
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _client: ClientHello) -> Option<Arc<CertifiedKey>> {
        self.pair.borrow().as_ref().map(Pair::served)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter
            .debug_struct("Served")
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
    fn only_what_will_come_is_waited_for(#[case] stored: bool, #[case] leads: bool, #[case] waits: bool) {
        let served = Served::default();
        assert!(served.missing(leads).is_some(), "nobody has looked yet");
        served.stored(stored);
        assert_eq!(served.missing(leads).is_some(), waits);
    }
}
