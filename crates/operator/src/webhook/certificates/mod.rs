//! The certificates that the webhook server shows, and whom API servers trust for them.
//!
//! Either they are supplied as files ([`follow_files`]), or the operator makes them: the leader keeps a pair in a Secret
//! and its authority in the `caBundle` of every webhook ([`look_after`]), and every replica serves what the Secret holds
//! ([`follow_secret`]).
//!
//! A rotation makes a *new authority* with a new pair. The authority's key signs that one certificate and is thrown away,
//! so there is no key in the cluster with which somebody could make another that API servers trust. The price is that
//! trust has to move with each rotation; [`rotation`] says how that happens without a request that fails.

mod apply;
mod configurations;
mod content;
mod follow;
mod look_after;
mod material;
mod mint;
mod rotation;
mod served;

use std::time::Duration;

pub use self::follow::{follow_files, follow_secret};
pub use self::look_after::look_after;
pub use self::served::Served;

/// Where certificates are kept and what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSettings {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The name of the `ValidatingWebhookConfiguration` and of the `MutatingWebhookConfiguration`.
    pub configuration: String,
    /// DNS names and IP addresses that the certificate is for.
    pub hosts: Vec<String>,
    /// How long a serving certificate is valid.
    pub validity: Duration,
}
