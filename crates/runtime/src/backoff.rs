//! Backoff between attempts: exponential, bounded, with jitter.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// The first delay after a failure.
const FIRST: Duration = Duration::from_millis(500);
/// After this long without a failure, the next one starts from the first delay again.
const QUIET: Duration = Duration::from_mins(1);

/// A random duration between half of `delay` and all of it.
#[must_use]
pub(crate) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Exponential backoff for a watch stream.
///
/// The stream reports the start of each attempt as an event, which resets the backoff of kube-rs; a watch that fails at the
/// first list would then be retried without ever slowing down. Here only time without failures resets it.
#[derive(Debug)]
pub struct WatchBackoff {
    limit: Duration,
    next: Duration,
    last_failure: Option<Instant>,
}

impl WatchBackoff {
    /// Delays that grow up to `limit`.
    #[must_use]
    pub fn up_to(limit: Duration) -> Self {
        Self {
            limit,
            next: FIRST.min(limit),
            last_failure: None,
        }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last_failure.is_some_and(|at| now - at > QUIET) {
            self.next = FIRST.min(self.limit);
        }
        self.last_failure = Some(now);
        let delay = self.next;
        self.next = (delay * 2).min(self.limit);
        Some(jittered(delay))
    }
}

impl Backoff for WatchBackoff {
    /// Does nothing on purpose: see the type.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_to_the_limit_and_start_over_after_time_without_failures() {
        let mut backoff = WatchBackoff::up_to(Duration::from_secs(10));
        let delays: Vec<_> = backoff.by_ref().take(8).collect();
        assert!(delays[0] <= FIRST && delays[0] >= FIRST / 2, "{delays:?}");
        assert!(
            delays[7] <= Duration::from_secs(10) && delays[7] >= Duration::from_secs(5),
            "{delays:?}"
        );
        backoff.reset();
        assert!(
            backoff.next().is_some_and(|delay| delay >= Duration::from_secs(5)),
            "an event alone is no recovery"
        );
        tokio::time::advance(QUIET + Duration::from_secs(1)).await;
        assert!(backoff.next().is_some_and(|delay| delay <= FIRST));
    }
}
