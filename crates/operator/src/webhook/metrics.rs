//! What is measured about admission.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::apply::Rehearsed;
use super::review::Operation;
use crate::queue::{Histograms, quick};

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request may go on.
    Accepted,
    /// It may not.
    Refused,
    /// There was no answer.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Question {
    kind: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rehearsal {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Nothing {}

/// The metrics of the webhook.
#[derive(Debug)]
pub struct WebhookMetrics {
    questions: Histograms<Question>,
    rehearsals: Family<Rehearsal, Counter>,
    /// Whether the last rehearsal came to nothing.
    unrehearsed: AtomicBool,
    expiry: Family<Nothing, Gauge>,
}

impl WebhookMetrics {
    /// Registers all of them.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("firebolt_operator_webhook");
        let own = Self {
            questions: Family::new_with_constructor(quick as fn() -> Histogram),
            rehearsals: Family::default(),
            unrehearsed: AtomicBool::new(false),
            expiry: Family::default(),
        };
        registry.register(
            "request_duration_seconds",
            "How long it took to answer the API server",
            own.questions.clone(),
        );
        registry.register(
            "rehearsals",
            "How often the API server was asked whether it would take what is made from an object",
            own.rehearsals.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the certificate that is served expires, in seconds since 1970",
            own.expiry.clone(),
        );
        own
    }

    /// The API server has asked about an object.
    pub fn asked(&self, kind: &str, operation: Option<Operation>, outcome: Outcome, took: Duration) {
        let question = Question {
            kind: kind.to_owned(),
            operation: operation.map_or("", Operation::name),
            outcome: match outcome {
                Outcome::Accepted => "accepted",
                Outcome::Refused => "refused",
                Outcome::Error => "error",
            },
        };
        self.questions.get_or_create(&question).observe(took.as_secs_f64());
    }

    /// The API server was asked whether it takes an object. Says whether it is news that it did not answer.
    pub fn rehearsed(&self, how: Rehearsed) -> bool {
        let outcome = match how {
            Rehearsed::Taken => "taken",
            Rehearsed::Refused => "refused",
            Rehearsed::Unknown => "unknown",
        };
        self.rehearsals.get_or_create(&Rehearsal { outcome }).inc();
        let is_unknown = how == Rehearsed::Unknown;
        !self.unrehearsed.swap(is_unknown, Ordering::Relaxed) && is_unknown
    }

    /// Shows when the certificate expires that is served, if there is one.
    pub fn expires(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => {
                self.expiry.get_or_create(&Nothing {}).set(at.as_second());
            }
            None => self.expiry.clear(),
        }
    }
}
