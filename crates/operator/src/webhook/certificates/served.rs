//! The certificate that is served now; swapped while connections go on.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use super::material::Pair;

/// The certificate that is served now, if there is one yet. Each new connection gets the latest.
#[derive(Default)]
pub struct Served {
    pair: watch::Sender<Option<Pair>>,
}

impl Served {
    /// Whether there is a certificate to serve.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.pair.borrow().is_some()
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
