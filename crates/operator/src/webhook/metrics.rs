//! Metrics of the admission webhook. The general ones have the names, labels and buckets of controller-runtime, so that
//! existing dashboards work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::review::Operation;

/// The default buckets of Prometheus clients, in seconds.
const LATENCY_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The status codes that every webhook exports from the start.
const INITIAL_CODES: [u16; 2] = [200, 500];

/// The result of an admission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionResult {
    Allowed,
    Denied,
    /// The request could not be validated.
    Error,
}

/// The result of a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRunResult {
    Accepted,
    /// The object is invalid.
    Rejected,
    /// The API server did not respond, or rejected the object for another reason.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabel {
    webhook: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    webhook: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    kind: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DryRunLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// The metrics of the webhook.
#[derive(Debug)]
pub struct WebhookMetrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<WebhookLabel, Histogram, fn() -> Histogram>,
    in_flight: Family<WebhookLabel, Gauge>,
    panics: Counter,
    responses: Family<ResponseLabels, Counter>,
    dry_runs: Family<DryRunLabels, Counter>,
    /// Whether the result of the last dry run was unknown.
    last_dry_run_unknown: AtomicBool,
    certificate_expiry: Family<NoLabels, Gauge>,
}

impl WebhookMetrics {
    /// Registers all metrics. The registry must not add a prefix.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            in_flight: Family::default(),
            panics: Counter::default(),
            responses: Family::default(),
            dry_runs: Family::default(),
            last_dry_run_unknown: AtomicBool::new(false),
            certificate_expiry: Family::default(),
        };
        registry.register(
            "controller_runtime_webhook_requests",
            "Total number of admission requests by HTTP status code",
            metrics.requests.clone(),
        );
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests",
            metrics.latency.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served",
            metrics.in_flight.clone(),
        );
        registry.register(
            "controller_runtime_webhook_panics",
            "Total number of admission requests that panicked",
            metrics.panics.clone(),
        );
        let own = registry.sub_registry_with_prefix("firebolt_operator_webhook");
        own.register(
            "responses",
            "Total number of admission responses by kind, operation and outcome",
            metrics.responses.clone(),
        );
        own.register(
            "dry_runs",
            "Total number of dry-run requests that validate rendered objects, by outcome",
            metrics.dry_runs.clone(),
        );
        own.register(
            "certificate_expiry_timestamp_seconds",
            "Expiry of the serving certificate, in seconds since 1970",
            metrics.certificate_expiry.clone(),
        );
        metrics
    }

    /// Exports the series of a webhook before its first request.
    pub(super) fn initialize(&self, webhook: &'static str) {
        for code in INITIAL_CODES {
            drop(self.requests.get_or_create(&RequestLabels { webhook, code }));
        }
        drop(self.latency.get_or_create(&WebhookLabel { webhook }));
        drop(self.in_flight.get_or_create(&WebhookLabel { webhook }));
    }

    /// Counts a request as in flight until the returned guard is dropped.
    pub(super) fn start_request(&self, webhook: &'static str) -> InFlight {
        let gauge = self.in_flight.get_or_create_owned(&WebhookLabel { webhook });
        gauge.inc();
        InFlight(gauge)
    }

    /// Counts a served request.
    pub(super) fn finish_request(&self, webhook: &'static str, code: u16, latency: Duration) {
        self.requests.get_or_create(&RequestLabels { webhook, code }).inc();
        self.latency
            .get_or_create(&WebhookLabel { webhook })
            .observe(latency.as_secs_f64());
    }

    /// Counts a request that panicked.
    pub(super) fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts an admission response. The operation is unknown if the request could not be parsed.
    pub(super) fn responded(&self, kind: &str, operation: Option<Operation>, result: AdmissionResult) {
        let labels = ResponseLabels {
            kind: kind.to_owned(),
            operation: operation.map_or("", Operation::label),
            outcome: match result {
                AdmissionResult::Allowed => "allowed",
                AdmissionResult::Denied => "denied",
                AdmissionResult::Error => "error",
            },
        };
        self.responses.get_or_create(&labels).inc();
    }

    /// Counts a dry run. Returns true if its result is unknown and that of the one before was not.
    pub(super) fn dry_run(&self, result: DryRunResult) -> bool {
        let outcome = match result {
            DryRunResult::Accepted => "accepted",
            DryRunResult::Rejected => "rejected",
            DryRunResult::Unknown => "unknown",
        };
        self.dry_runs.get_or_create(&DryRunLabels { outcome }).inc();
        let is_unknown = result == DryRunResult::Unknown;
        !self.last_dry_run_unknown.swap(is_unknown, Ordering::Relaxed) && is_unknown
    }

    /// Sets the expiry of the serving certificate, if there is one.
    pub(crate) fn set_certificate_expiry(&self, expiry: Option<Timestamp>) {
        match expiry {
            Some(expiry) => {
                self.certificate_expiry
                    .get_or_create(&NoLabels {})
                    .set(expiry.as_second());
            }
            None => self.certificate_expiry.clear(),
        }
    }
}

/// A request that is being served.
#[derive(Debug)]
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
