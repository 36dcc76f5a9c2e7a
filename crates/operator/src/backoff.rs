//! Waiting between attempts: growing, bounded, and never in step with another process.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// The first pause after a failure.
const FIRST: Duration = Duration::from_millis(500);
/// After this long without a failure, the next one starts from the first pause again.
const QUIET: Duration = Duration::from_mins(1);

/// Between half of the span and all of it.
#[must_use]
pub fn jittered(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Doubling pauses for a watch stream.
///
/// The stream reports the start of each attempt as an event, on which its own back-off starts over; a watch that fails
/// at the first list would then be retried without ever slowing down. Here only quiet time counts as recovery.
#[derive(Debug)]
pub struct RetryBackoff {
    limit: Duration,
    next: Duration,
    last_failure: Option<Instant>,
}

impl RetryBackoff {
    /// Pauses that grow up to `limit`.
    #[must_use]
    pub fn up_to(limit: Duration) -> Self {
        Self {
            limit,
            next: FIRST.min(limit),
            last_failure: None,
        }
    }
}

impl Iterator for RetryBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last_failure.is_some_and(|at| now - at > QUIET) {
            self.next = FIRST.min(self.limit);
        }
        self.last_failure = Some(now);
        let pause = self.next;
        self.next = (pause * 2).min(self.limit);
        Some(jittered(pause))
    }
}

impl Backoff for RetryBackoff {
    /// Deliberately nothing: see the type.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_the_limit_and_start_over_after_quiet_time() {
        let mut backoff = RetryBackoff::up_to(Duration::from_secs(10));
        let pauses: Vec<_> = backoff.by_ref().take(8).collect();
        assert!(pauses[0] <= FIRST && pauses[0] >= FIRST / 2, "{pauses:?}");
        assert!(
            pauses[7] <= Duration::from_secs(10) && pauses[7] >= Duration::from_secs(5),
            "{pauses:?}"
        );
        backoff.reset();
        assert!(
            backoff.next().is_some_and(|pause| pause >= Duration::from_secs(5)),
            "an event alone is no recovery"
        );
        tokio::time::advance(QUIET + Duration::from_secs(1)).await;
        assert!(backoff.next().is_some_and(|pause| pause <= FIRST));
    }
}
