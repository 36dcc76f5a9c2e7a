//! Waiting for a condition.

use std::time::{Duration, Instant};

/// The timeout for anything that should happen soon, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Polls until the condition holds, and returns how long that took. The description is for the failure.
pub async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !ask().await {
        assert!(start.elapsed() < SOON, "not within {SOON:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
    start.elapsed()
}
