//! The serving certificate of the webhook, and the `caBundle` by which API servers verify it.
//!
//! Either the certificate is supplied as files (`reload_from_files`), or the operator issues it: the leader keeps it in a
//! Secret and its CA in the `caBundle` of every webhook ([`run_controller`]), and every replica serves the certificate in
//! the Secret ([`reload_from_secret`]).
//!
//! Each rotation creates a *new CA* with a new serving certificate. The key of the CA signs that one certificate and is
//! discarded, so no key in the cluster can sign another certificate that API servers trust. In return, the `caBundle` has
//! to change with each rotation; [`rotation`] describes how that works without a failed request.

mod apply;
mod certificate;
mod controller;
mod issue;
mod reloader;
mod rotation;
mod secret;
mod serving;
mod watched;
mod webhook_configuration;

pub use self::controller::run_controller;
pub(crate) use self::reloader::reload_from_files;
pub use self::reloader::reload_from_secret;
pub use self::serving::ServingCertificate;
