//! The admission webhook: the API server calls it before it stores one of our objects.
//!
//! ```text
//! API server ──► server ──► router ──► validator ──► AdmissionReview
//!                (TLS)      (limits)   (rules of the core, lookups, dry run)
//! ```
//!
//! Every replica serves, whether it leads or not. The rules are those of `admit` in the core, which the controllers apply
//! too. This module adds what the rules need: the objects that a request refers to, and a dry run of the rendered pods
//! against the API server.

mod apply;
pub mod certificates;
mod engine;
mod engine_class;
mod instance;
mod metrics;
mod review;
mod router;
mod server;
#[cfg(test)]
mod tls_fixture;
mod validator;

pub use self::metrics::WebhookMetrics;
pub use self::router::router;
pub use self::server::{serve, tls};
pub use self::validator::Validator;
