//! What the table is told, and what it wants done.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use super::answer::Answer;
use super::engine::Engine;

/// The time, by both clocks. Deadlines are kept by the one that never jumps; the other is for what others read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    /// A clock that only goes forward.
    pub monotonic: Instant,
    /// The time of day.
    pub wall: Timestamp,
}

/// A request that waits. No two of one table are the same, so that news for one never reach another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    pub(super) number: u64,
    /// The engine that it waits for.
    pub engine: Arc<str>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// It is answered.
    Answered(Answer),
    /// It waits. Its answer comes as an [`Effect::Answer`], now or later, unless its client leaves first.
    Waits(WaiterId),
}

/// A look at all engines of the namespace. It has to be exact (no `resourceVersion` in the request): who is not on the
/// list is told that there is no such engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct List {
    pub(super) ticket: u64,
}

/// A `GET /health/ready` to an engine, through Envoy, by the route that queries take.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Probe {
    /// The engine to ask.
    pub engine: Arc<str>,
    pub(super) ticket: u64,
}

/// A JSON merge patch of the wake annotation, and of nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Patch {
    /// The engine to wake.
    pub engine: Arc<str>,
    /// The value, to be written as it prints.
    pub at: Timestamp,
    pub(super) ticket: u64,
}

/// Something to be done. Each may be done at once and at the same time as all others, and what comes of it is told in the
/// [`Event`] that takes the same value back. News that never come cost time and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Answer a request that waits.
    Answer(WaiterId, Answer),
    /// List the engines; told as [`Event::Listed`].
    List(List),
    /// Ask an engine whether it can be reached; told as [`Event::Probed`].
    Probe(Probe),
    /// Ask for an engine; told as [`Event::Patched`].
    Patch(Patch),
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The client of a request that waits is gone. Nothing happens if the request is answered already.
    Left(WaiterId),
    /// A listing ended: every engine of the namespace that can be read, or none if the listing failed.
    Listed(List, Option<Vec<Engine>>),
    /// A probe ended: whether the engine answered that it is ready.
    Probed(Probe, bool),
    /// A patch ended.
    Patched(Patch, PatchOutcome),
    /// The moment of [`wake_at`](super::Table::wake_at) has come. One that comes early or late does no harm.
    Tick,
    /// This gateway stops: who still waits at that moment is sent away.
    Closing(Instant),
}

/// How a patch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchOutcome {
    /// It is stored.
    Stored,
    /// Permissions or a policy are against it (403, 422 and their like): the same again would fare no better.
    Refused,
    /// It failed in any other way, a conflict included, or nobody knows. It is tried again.
    Failed,
}
