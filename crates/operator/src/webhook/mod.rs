//! Admission: what the API server asks before it stores one of our objects.
//!
//! ```text
//! API server ──► server ──► router ──► judge ──► answer
//!                (TLS)      (limits)   (rules of the core, reads, rehearsal)
//! ```
//!
//! Every replica serves, whether it leads or not. The rules are those of `admit` in the core, which the controllers ask
//! too; here is only what it takes to ask them: what an object refers to, and what Kubernetes itself would say of the
//! pods.

mod apply;
pub mod certificates;
mod engine;
mod engine_class;
mod instance;
mod judge;
mod metrics;
mod review;
mod router;
mod server;
#[cfg(test)]
mod tls_fixture;

pub use self::judge::Judge;
pub use self::metrics::WebhookMetrics;
pub use self::router::router;
pub use self::server::{serve, tls};
