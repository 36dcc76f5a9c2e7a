//! Limits how often drift is corrected, in case another client keeps changing an object back.

use std::time::Duration;

use tokio::time::Instant;

/// So many corrections per window are not delayed.
const BURST: u32 = 20;
const WINDOW: Duration = Duration::from_mins(1);
/// The delay after each further one.
const DELAY: Duration = Duration::from_secs(5);

/// How often the objects of one owner were corrected recently.
#[derive(Debug, Default)]
pub struct DriftLimiter {
    window: Option<(Instant, u32)>,
}

impl DriftLimiter {
    /// How long to wait after the next reconcile that corrects drift; `None` unless that happens too often.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        let (_, count) = self.recent(Instant::now());
        (count >= BURST).then_some(DELAY)
    }

    /// Counts a reconcile that corrected drift.
    pub fn corrected(&mut self) {
        let (since, count) = self.recent(Instant::now());
        self.window = Some((since, count + 1));
    }

    /// When the window began, and how often drift was corrected in it.
    fn recent(&self, now: Instant) -> (Instant, u32) {
        let window = self.window.filter(|(since, _)| now - *since < WINDOW);
        window.unwrap_or((now, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_corrections_beyond_the_burst_are_delayed() {
        let mut limiter = DriftLimiter::default();
        let mut delayed = 0;
        for _ in 0..BURST + 5 {
            delayed += u32::from(limiter.delay().is_some());
            limiter.corrected();
        }
        assert_eq!((delayed, limiter.delay()), (5, Some(DELAY)));
        tokio::time::advance(WINDOW).await;
        assert_eq!(limiter.delay(), None);
    }
}
