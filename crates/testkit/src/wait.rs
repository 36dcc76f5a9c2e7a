//! Waiting for a condition.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// The timeout for anything that should happen soon, on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Polls until the condition holds, and returns how long that took. The description is for the failure.
pub fn eventually(what: impl Display, within: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < within, "timed out after {within:?}: {what}");
        thread::sleep(POLL);
    }
    start.elapsed()
}

/// Polls until there is a result. The description is for the failure.
pub async fn eventually_async<T>(what: impl Display, within: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(start.elapsed() < within, "timed out after {within:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_holds_ends_the_wait() {
        let mut polls = 0;
        eventually("the third poll", SOON, || {
            polls += 1;
            polls == 3
        });
        assert_eq!(polls, 3);
    }

    #[test]
    #[should_panic(expected = "timed out after 0ns: never")]
    fn a_condition_that_never_holds_is_named() {
        eventually("never", Duration::ZERO, || false);
    }

    #[tokio::test]
    async fn a_result_is_returned() {
        let mut polls = 0;
        let ask = async || {
            polls += 1;
            (polls == 2).then_some("found")
        };
        assert_eq!(eventually_async("a result", SOON, ask).await, "found");
    }

    #[tokio::test]
    #[should_panic(expected = "timed out after 0ns: a result")]
    async fn a_result_that_never_comes_is_named() {
        eventually_async("a result", Duration::ZERO, async || None::<()>).await;
    }
}
