//! Known-bad variants. Each makes one mistake, in what the shipping table is told or in what it answers, and a named rule
//! must find it: a check that finds nothing wrong with these proves nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bad {
    /// The news of any probe of an engine release whoever waits for it.
    ReleaseByName,
    /// The room is looked at first, and the engine is asked for only if there is some.
    StampAfterShed,
    /// No probe is begun because somebody is about to be sent away.
    NoLastLook,
    /// Whoever is sent away at the end is forgotten.
    LoseAnAnswer,
    /// Whoever is released is told so twice.
    AnswerTwice,
    /// Twice as many wait as there is room for.
    NoBounds,
    /// A patch that was stored does not count.
    StampTooOften,
    /// An engine that has pods coming is asked for too.
    StampTheRunning,
    /// A probe of others is good enough for an engine that is being stopped.
    PassToTheStopped,
    /// Nobody listens to probes.
    UnheardProbes,
}
