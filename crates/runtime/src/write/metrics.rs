//! The metrics of writes.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    kind: String,
    verb: &'static str,
    outcome: &'static str,
}

/// Counts writes. The default is not exported.
#[derive(Clone, Debug, Default)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
}

impl WriteMetrics {
    /// Registers the metrics under the prefix of the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "api_writes",
            "Total number of write requests to the API server by kind, verb and outcome",
            metrics.writes.clone(),
        );
        metrics
    }

    pub(super) fn wrote(&self, verb: &'static str, kind: &str, succeeded: bool) {
        let labels = WriteLabels {
            kind: kind.to_owned(),
            verb,
            outcome: if succeeded { "success" } else { "error" },
        };
        self.writes.get_or_create(&labels).inc();
    }
}
