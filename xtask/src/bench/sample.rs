//! Durations that were measured, and their summary.

use std::time::Duration;

/// Some durations.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn add(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The smallest sample that is not exceeded by this part of all samples; zero if there is none.
    pub(super) fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a number of samples"
        )]
        let rank = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
    }

    /// The middle one.
    pub(super) fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The longest.
    pub(super) fn worst(&self) -> Duration {
        self.quantile(1.0)
    }

    /// The median and the 99th percentile, as text.
    pub(super) fn summary(&self) -> String {
        let [median, high] = [self.median(), self.quantile(0.99)].map(milliseconds);
        format!("p50 {median:.1} ms, p99 {high:.1} ms ({} samples)", self.0.len())
    }
}

impl Extend<Duration> for Samples {
    fn extend<I: IntoIterator<Item = Duration>>(&mut self, samples: I) {
        self.0.extend(samples);
    }
}

/// For people.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.median(), Duration::ZERO);
        samples.extend((1..=200).rev().map(Duration::from_millis));
        assert_eq!(samples.median(), Duration::from_millis(100));
        assert_eq!(samples.quantile(0.99), Duration::from_millis(198));
        assert_eq!(samples.worst(), Duration::from_millis(200));
        assert_eq!(samples.summary(), "p50 100.0 ms, p99 198.0 ms (200 samples)");
    }
}
