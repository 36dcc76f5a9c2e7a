//! Waiting for a condition.

use std::time::Duration;

use testkit::wait::eventually_async;

pub use testkit::wait::SOON;

/// Polls until the condition holds, and returns how long that took. The description is for the failure.
pub async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> bool) -> Duration {
    let start = std::time::Instant::now();
    eventually_async(what, SOON, async || ask().await.then_some(())).await;
    start.elapsed()
}
