//! The answers to requests.

use std::time::Duration;

/// What Envoy is to do with a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Pass it on to the engine.
    Route(Route),
    /// Answer it in place of the engine.
    Refuse(Refusal),
}

/// Why a request is passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The engine says that it is ready.
    Ready,
    /// The engine does not say so, as in a rollout, but a probe reached it a moment ago.
    Reachable,
    /// It waited, and a probe has reached the engine.
    Released(Stages),
    /// Nothing is known of engines: Envoy does as it would without us.
    Blind,
}

/// Why a request is refused. In no case was the query passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No engine can have this name.
    Malformed,
    /// No engine of this instance has this name.
    NotFound,
    /// The engine is stopped, and a query does not start it.
    Stopped,
    /// The engine is stopped, and we are not allowed to ask for it. The next attempt is made after this time.
    NotAllowed(Duration),
    /// Too many requests wait. The engine was asked for all the same.
    Full,
    /// The engine could not be reached in time. It is still asked for.
    TimedOut(Stages),
    /// This gateway stops before the engine could be reached. Another one goes on.
    Closing(Stages),
}

/// When a request that waited saw what, counted from its arrival. None if it never did; zero if that was so before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stages {
    /// The engine was found to be not ready.
    pub detected: Duration,
    /// The engine was seen to ask for pods.
    pub scaled: Option<Duration>,
    /// The engine was seen to call itself ready.
    pub ready: Option<Duration>,
    /// The request was let go.
    pub released: Duration,
}

/// How long a client that found no room does best to stay away: requests that wait are let go together, when their
/// engine comes up.
const FULL: Duration = Duration::from_secs(5);
/// The same after a whole wait. The next request would wait again, so there is no need to hurry.
const TIMED_OUT: Duration = Duration::from_secs(10);
/// The same when the next request reaches another gateway.
const CLOSING: Duration = Duration::from_secs(1);

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::NotFound => 404,
            Self::Stopped | Self::NotAllowed(_) | Self::Full | Self::TimedOut(_) | Self::Closing(_) => 503,
        }
    }

    /// The `error.code` of the answer, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "engine_malformed",
            Self::NotFound => "engine_not_found",
            Self::Stopped => "engine_stopped",
            Self::NotAllowed(_) => "engine_wake_refused",
            Self::Full => "engine_queue_full",
            Self::TimedOut(_) => "engine_start_timeout",
            Self::Closing(_) => "gateway_stopping",
        }
    }

    /// The `error.message` of the answer, for people.
    #[must_use]
    pub fn message(&self) -> &'static str {
        match self {
            Self::Malformed => "The name of the engine is not valid.",
            Self::NotFound => "This instance has no engine of this name.",
            Self::Stopped => {
                "The engine is stopped, and without auto-stop a query does not start it. Set its replicas to start it."
            }
            Self::NotAllowed(_) => {
                "The engine is stopped, and the gateway is not allowed to wake it. Its log says what is missing."
            }
            Self::Full => "The engine is starting, and too many queries wait at this gateway. Send the query again.",
            Self::TimedOut(_) => "The engine did not start in time. It may still do so: send the query again.",
            Self::Closing(_) => "This gateway stops while the engine is starting. Send the query again.",
        }
    }

    /// When to send the query again. None if time alone changes nothing.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Malformed | Self::NotFound | Self::Stopped => None,
            Self::NotAllowed(wait) => Some(*wait),
            Self::Full => Some(FULL),
            Self::TimedOut(_) => Some(TIMED_OUT),
            Self::Closing(_) => Some(CLOSING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const STAGES: Stages = Stages {
        detected: Duration::ZERO,
        scaled: None,
        ready: None,
        released: Duration::ZERO,
    };

    #[rstest]
    #[case(Refusal::Malformed, 400, None)]
    #[case(Refusal::NotFound, 404, None)]
    #[case(Refusal::Stopped, 503, None)]
    #[case(Refusal::NotAllowed(Duration::from_secs(7)), 503, Some(7))]
    #[case(Refusal::Full, 503, Some(5))]
    #[case(Refusal::TimedOut(STAGES), 503, Some(10))]
    #[case(Refusal::Closing(STAGES), 503, Some(1))]
    fn only_what_time_can_change_is_to_be_tried_again(
        #[case] refusal: Refusal,
        #[case] status: u16,
        #[case] retry_after: Option<u64>,
    ) {
        assert_eq!(refusal.status(), status);
        assert_eq!(refusal.retry_after(), retry_after.map(Duration::from_secs));
    }
}
