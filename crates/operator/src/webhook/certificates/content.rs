//! What the Secret holds.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::material::{Bundle, Pair};
use super::mint::Minted;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// The Secret, as far as it can be used. What is broken counts as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// What every replica serves.
    pub current: Option<Pair>,
    /// What they will serve once the API servers trust it.
    pub next: Option<Pair>,
    /// Whom the API servers are to trust.
    pub bundle: Bundle,
}

impl Content {
    /// Reads the Secret; none holds nothing.
    #[must_use]
    pub fn read(secret: Option<&Secret>) -> Self {
        let data = secret.and_then(|secret| secret.data.as_ref());
        let value = |key| data.and_then(|data| data.get(key)).map_or(&[][..], |value| &value.0);
        Self {
            current: Pair::read(value(CERTIFICATE), value(KEY)).ok(),
            next: Pair::read(value(NEXT_CERTIFICATE), value(NEXT_KEY)).ok(),
            bundle: Bundle::read(value(AUTHORITIES)),
        }
    }

    /// The values to write; none is to be removed. A pair that is broken is left where it is until another replaces it.
    #[must_use]
    pub fn data(&self) -> BTreeMap<&'static str, Option<ByteString>> {
        let value = |bytes: &[u8]| Some(ByteString(bytes.to_vec()));
        let next = |part: fn(&Pair) -> &[u8]| self.next.as_ref().and_then(|pair| value(part(pair)));
        let mut data = BTreeMap::from([
            (AUTHORITIES, Some(ByteString(self.bundle.render()))),
            (NEXT_CERTIFICATE, next(Pair::certificate)),
            (NEXT_KEY, next(Pair::key)),
        ]);
        if let Some(current) = &self.current {
            data.insert(CERTIFICATE, value(current.certificate()));
            data.insert(KEY, value(current.key()));
        }
        data
    }

    /// A pair to be served at once.
    #[must_use]
    pub fn begin(minted: Minted, keep: Bundle) -> Self {
        Self {
            current: Some(minted.pair),
            next: None,
            bundle: Bundle::from(minted.authority).then(keep),
        }
    }

    /// The same with a pair that waits to be trusted.
    #[must_use]
    pub fn stage(&self, minted: Minted, keep: Bundle) -> Self {
        Self {
            current: self.current.clone(),
            next: Some(minted.pair),
            bundle: Bundle::from(minted.authority).then(keep),
        }
    }

    /// The pair that waited takes its place. The authorities stay: replicas serve the old pair until they see the new one.
    #[must_use]
    pub fn promote(&self) -> Self {
        Self {
            current: self.next.clone().or_else(|| self.current.clone()),
            next: None,
            bundle: self.bundle.clone(),
        }
    }
}
