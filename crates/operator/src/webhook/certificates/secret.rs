//! The content of the Secret.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::certificate::{CaBundle, ServingPair};
use super::issue::Issued;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_CERTIFICATES: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// The parsed content of the Secret. A value that cannot be parsed counts as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SecretData {
    /// The certificate that every replica serves.
    pub current: Option<ServingPair>,
    /// The next certificate, served once its CA has been in every `caBundle` for the propagation delay.
    pub next: Option<ServingPair>,
    /// The CA certificates for every `caBundle`.
    pub bundle: CaBundle,
}

impl SecretData {
    /// Parses the Secret. Without a Secret, everything is missing.
    #[must_use]
    pub(super) fn parse(secret: Option<&Secret>) -> Self {
        let data = secret.and_then(|secret| secret.data.as_ref());
        let value = |key| data.and_then(|data| data.get(key)).map_or(&[][..], |value| &value.0);
        Self {
            current: ServingPair::parse(value(CERTIFICATE), value(KEY)).ok(),
            next: ServingPair::parse(value(NEXT_CERTIFICATE), value(NEXT_KEY)).ok(),
            bundle: CaBundle::parse(value(CA_CERTIFICATES)),
        }
    }

    /// The data to patch; none removes a key. A current certificate that cannot be parsed stays until it is replaced.
    #[must_use]
    pub(super) fn patch(&self) -> BTreeMap<&'static str, Option<ByteString>> {
        let value = |bytes: &[u8]| Some(ByteString(bytes.to_vec()));
        let next = |part: fn(&ServingPair) -> &[u8]| self.next.as_ref().and_then(|pair| value(part(pair)));
        let mut data = BTreeMap::from([
            (CA_CERTIFICATES, Some(ByteString(self.bundle.to_pem()))),
            (NEXT_CERTIFICATE, next(ServingPair::certificate)),
            (NEXT_KEY, next(ServingPair::key)),
        ]);
        if let Some(current) = &self.current {
            data.insert(CERTIFICATE, value(current.certificate()));
            data.insert(KEY, value(current.key()));
        }
        data
    }

    /// A new certificate that is served at once. `keep` stays in the bundle.
    #[must_use]
    pub(super) fn initial(issued: Issued, keep: CaBundle) -> Self {
        Self {
            current: Some(issued.pair),
            next: None,
            bundle: CaBundle::from(issued.ca).merge(keep),
        }
    }

    /// The same with a new next certificate. `keep` stays in the bundle.
    #[must_use]
    pub(super) fn with_next(&self, issued: Issued, keep: CaBundle) -> Self {
        Self {
            current: self.current.clone(),
            next: Some(issued.pair),
            bundle: CaBundle::from(issued.ca).merge(keep),
        }
    }

    /// The next certificate becomes the current one. The bundle stays: replicas serve the old certificate until they observe
    /// the new one.
    #[must_use]
    pub(super) fn promote(&self) -> Self {
        Self {
            current: self.next.clone().or_else(|| self.current.clone()),
            next: None,
            bundle: self.bundle.clone(),
        }
    }
}
