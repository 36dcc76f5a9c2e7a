//! The answers to requests.

use std::time::Duration;

/// What Envoy does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Send it to the engine.
    Route(Route),
    /// Respond in place of the engine.
    Refuse(Refusal),
}

impl Answer {
    /// The name of the answer, as in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Route(Route::Ready) => "ready",
            Self::Route(Route::Reachable) => "reachable",
            Self::Route(Route::Released(_)) => "released",
            Self::Route(Route::FailOpen) => "fail_open",
            Self::Refuse(Refusal::Malformed) => "malformed",
            Self::Refuse(Refusal::NotFound) => "not_found",
            Self::Refuse(Refusal::Stopped) => "stopped",
            Self::Refuse(Refusal::NotAllowed(_)) => "not_allowed",
            Self::Refuse(Refusal::Full) => "full",
            Self::Refuse(Refusal::TimedOut(_)) => "timed_out",
            Self::Refuse(Refusal::Closing(_)) => "closing",
        }
    }

    /// The stages of the wake that the request was held for.
    #[must_use]
    pub(crate) fn stages(&self) -> Option<&Stages> {
        match self {
            Self::Route(Route::Released(stages))
            | Self::Refuse(Refusal::TimedOut(stages) | Refusal::Closing(stages)) => Some(stages),
            Self::Route(Route::Ready | Route::Reachable | Route::FailOpen)
            | Self::Refuse(
                Refusal::Malformed | Refusal::NotFound | Refusal::Stopped | Refusal::NotAllowed(_) | Refusal::Full,
            ) => None,
        }
    }
}

/// Why a request is routed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The engine reports that it is ready.
    Ready,
    /// The engine does not report that it is ready, as during a rollout, but a probe reached it a moment ago.
    Reachable,
    /// It was held, and a probe has reached the engine.
    Released(Stages),
    /// The state of the engines is unknown: Envoy routes as it would without the agent.
    FailOpen,
}

/// Why a request is refused. The query was not sent to an engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No engine can have this name.
    Malformed,
    /// No engine of this instance has this name.
    NotFound,
    /// The engine is stopped, and a query does not start it.
    Stopped,
    /// The engine is stopped, and the gateway is not allowed to wake it. It tries again after this time.
    NotAllowed(Duration),
    /// The queue is full. A stopped engine is woken all the same.
    Full,
    /// The engine could not be reached in time. It is still being woken.
    TimedOut(Stages),
    /// The gateway is stopping, and the engine could not be reached in time. Another gateway pod takes over.
    Closing(Stages),
}

/// When each stage of a wake was observed, relative to the arrival of the request. None if it never was; zero if it was
/// before the request arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stages {
    /// The engine was found not to be ready.
    pub detected: Duration,
    /// `spec.replicas` was above zero.
    pub scaled: Option<Duration>,
    /// The engine reported that it is ready.
    pub ready: Option<Duration>,
    /// The request was released.
    pub released: Duration,
}

/// `Retry-After` when the queue is full: held requests are released together when their engine is ready.
const FULL: Duration = Duration::from_secs(5);
/// `Retry-After` after a timeout. The next request would be held again, so there is no hurry.
const TIMED_OUT: Duration = Duration::from_secs(10);
/// `Retry-After` when the next request reaches another gateway pod.
const CLOSING: Duration = Duration::from_secs(1);

impl Refusal {
    /// The status of the response.
    #[must_use]
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::NotFound => 404,
            Self::Stopped | Self::NotAllowed(_) | Self::Full | Self::TimedOut(_) | Self::Closing(_) => 503,
        }
    }

    /// The `error.code` of the response, for programs.
    #[must_use]
    pub(crate) fn code(&self) -> &'static str {
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

    /// The `error.message` of the response, for people.
    #[must_use]
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Self::Malformed => "The engine name is not valid. Use lower-case letters, digits and hyphens.",
            Self::NotFound => {
                "The engine does not exist in this instance. Check its name, and use the gateway of its instance."
            }
            Self::Stopped => {
                "The engine is stopped and auto-stop is off, so queries do not start it. Set spec.replicas to start it."
            }
            Self::NotAllowed(_) => {
                "The engine is stopped, and the gateway is not allowed to wake it. See the log of the wake agent for the cause."
            }
            Self::Full => "The engine is starting, and too many queries are waiting at this gateway. Retry the query.",
            Self::TimedOut(_) => "The engine did not start in time. It may still be starting. Retry the query.",
            Self::Closing(_) => "The gateway is stopping while the engine is starting. Retry the query.",
        }
    }

    /// When to retry the query. None if a retry alone does not help.
    #[must_use]
    pub(crate) fn retry_after(&self) -> Option<Duration> {
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
    fn only_refusals_that_are_temporary_have_a_retry_after(
        #[case] refusal: Refusal,
        #[case] status: u16,
        #[case] retry_after: Option<u64>,
    ) {
        assert_eq!(refusal.status(), status);
        assert_eq!(refusal.retry_after(), retry_after.map(Duration::from_secs));
    }
}
