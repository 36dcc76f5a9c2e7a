//! What all metrics have in common.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// A histogram per set of labels.
pub type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// A number of things as the value of a gauge.
#[must_use]
pub fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
