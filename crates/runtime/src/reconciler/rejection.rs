//! When a request that the API server rejected is sent again.

use std::time::Duration;

use tokio::time::Instant;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// The delay of a rejected request, which doubles with each further rejection.
#[derive(Clone, Copy, Debug)]
pub struct RejectionBackoff {
    rejections: u32,
    retry_at: Instant,
}

impl RejectionBackoff {
    /// The request was rejected; `before` if the same request was rejected before.
    #[must_use]
    pub fn after(before: Option<Self>) -> Self {
        let rejections = before.map_or(0, |before| before.rejections + 1);
        let delay = FIRST_DELAY.saturating_mul(1 << rejections.min(10)).min(LONGEST_DELAY);
        Self {
            rejections,
            retry_at: Instant::now() + delay,
        }
    }

    /// How long the request is not to be sent yet; `None` if it can be.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let left = self.retry_at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_with_each_rejection() {
        let (mut before, mut delays) = (None, Vec::new());
        for _ in 0..9 {
            let backoff = RejectionBackoff::after(before);
            let left = backoff.remaining().unwrap();
            tokio::time::advance(left).await;
            assert_eq!(backoff.remaining(), None);
            delays.push(left.as_secs());
            before = Some(backoff);
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
