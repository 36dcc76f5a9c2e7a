//! A fight over an object: how often things were put right, and when that is too often.

use std::time::Duration;

use tokio::time::Instant;

/// So many repairs within a minute are more than accidents, and each further one waits.
const REPAIRS: u32 = 20;
const WINDOW: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_secs(5);

/// How often objects were put right lately.
#[derive(Debug, Default)]
pub struct Repairs {
    window: Option<(Instant, u32)>,
}

impl Repairs {
    /// Counts a pass that put something right. Says how long the next one must wait, if that happens too often: somebody
    /// else keeps changing it back.
    pub fn made(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let (since, count) = self
            .window
            .filter(|(since, _)| now - *since < WINDOW)
            .unwrap_or((now, 0));
        self.window = Some((since, count + 1));
        (count >= REPAIRS).then_some(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_goes_on_has_to_wait() {
        let mut repairs = Repairs::default();
        let waits = (0..REPAIRS + 5).filter(|_| repairs.made().is_some()).count();
        assert_eq!(waits, 5);
        tokio::time::advance(WINDOW).await;
        assert_eq!(repairs.made(), None);
    }
}
