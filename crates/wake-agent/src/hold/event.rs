//! The events that the state machine handles, and the effects that it asks for.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use super::answer::Answer;
use super::engine::Engine;

/// The time by two clocks: the monotonic one for deadlines, the wall clock for what other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    /// A clock that never goes backwards.
    pub monotonic: Instant,
    /// The time of day.
    pub wall: Timestamp,
}

/// Identifies a held request. No two requests of one state have the same, so that an event never reaches another
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    pub(super) number: u64,
    /// The engine that the request is for.
    pub engine: Arc<str>,
}

/// What happened to a request that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// It is answered.
    Answered(Answer),
    /// It is held. Its answer is an [`Effect::Answer`], now or later, unless its client disconnects first.
    Waits(WaiterId),
}

/// A listing of all engines of the namespace. It has to be consistent (no `resourceVersion` in the request): engines
/// that are not in the list do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct List {
    pub(super) id: u64,
}

/// A `GET /health/ready` to an engine, through Envoy, on the route that queries take.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Probe {
    /// The engine to probe.
    pub engine: Arc<str>,
    pub(super) id: u64,
}

/// A JSON merge patch of the wake annotation, and of nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Patch {
    /// The engine to wake.
    pub engine: Arc<str>,
    /// The value of the annotation, in its `Display` form.
    pub at: Timestamp,
    pub(super) id: u64,
}

/// Something to do. Effects may be carried out at once and concurrently. The result of each is reported by the
/// [`Event`] that takes its value back. A result that never arrives costs time and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Answer a held request.
    Answer(WaiterId, Answer),
    /// List the engines; reported by [`Event::Listed`].
    List(List),
    /// Probe an engine; reported by [`Event::Probed`].
    Probe(Probe),
    /// Request that an engine be woken; reported by [`Event::Patched`].
    Patch(Patch),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The client of a held request has disconnected. Ignored if the request is answered already.
    Left(WaiterId),
    /// A listing ended: all readable engines of the namespace, or None if it failed.
    Listed(List, Option<Vec<Engine>>),
    /// A probe ended: whether the engine answered that it is ready.
    Probed(Probe, bool),
    /// A patch ended.
    Patched(Patch, PatchOutcome),
    /// The time of [`wake_at`](super::HoldState::wake_at) has come. An early or late tick does no harm.
    Tick,
    /// The gateway is stopping: requests that are still held at this time are answered.
    Closing(Instant),
}

/// How a patch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchOutcome {
    /// It is stored.
    Stored,
    /// It was denied by RBAC or by admission (403, 422 and similar): a retry would not help.
    Refused,
    /// It failed otherwise, for example with a conflict, or its result is unknown. It is retried.
    Failed,
}
