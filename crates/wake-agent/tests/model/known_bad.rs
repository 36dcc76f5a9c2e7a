//! Known-bad variants. Each makes one mistake in the events or the effects of the shipping state machine, and a named
//! rule must find it: a check that passes with these proves nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bad {
    /// The result of any probe of an engine releases all requests for it.
    ReleaseByName,
    /// The memory limit is checked first, and a wake is requested only for requests that are held.
    RequestWakeAfterRefusal,
    /// No probe starts because of a deadline.
    NoFinalProbe,
    /// A request that times out gets no answer.
    LoseAnAnswer,
    /// A request that is released is answered twice.
    AnswerTwice,
    /// The memory limit is doubled.
    NoMemoryLimit,
    /// A stored patch does not count.
    RequestWakeTooOften,
    /// A wake is requested for an engine that is starting too.
    WakeRunningEngine,
    /// The probe of an earlier request is good enough for an engine that is stopping.
    RouteToStoppingEngine,
    /// The results of probes are ignored.
    IgnoreProbes,
}
