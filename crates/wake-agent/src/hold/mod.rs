//! The state machine of the hold queue: it decides for each request whether Envoy routes it, holds it, or refuses it.
//!
//! Flow: call [`HoldState::arrive`] for each request and [`HoldState::handle`] for every other event, carry out the
//! [`Effect`]s that they return, and send [`Event::Tick`] at the time that [`HoldState::wake_at`] returns. The state
//! machine decides when to list, to probe and to patch. It does no I/O, reads no clock and uses no randomness.
//!
//! # What a request gets
//!
//! The first row that applies:
//!
//! | The engine | The request |
//! |---|---|
//! | has a name that no engine can have | is refused: 400 |
//! | is any engine, and there is no list yet, or listing fails and the last list is ten seconds old | is routed: the agent fails open |
//! | is not in the list | is held until a list arrives that was started after the request, then refused: 404. Engines of other instances are not in the list, so they look the same as engines that do not exist |
//! | is ready | is routed; within five seconds of becoming ready only if no request is held, because Envoy may not have noticed yet |
//! | is stopped, and auto-stop is off | is refused: 503 |
//! | is neither ready nor stopping, and a probe succeeded within the last second | is routed |
//! | is stopped, and the gateway may not wake it | is refused: 503 |
//! | is any other engine, and the queue is full | is refused: 503. A stopped engine is woken all the same |
//! | is any other engine | is held |
//!
//! A held request is checked again at every event, and refused as soon as one of the rows above says so. Only a probe
//! through Envoy releases it; what the API server says is merely a reason to probe. At its deadline it is routed if the
//! engine reports that it is ready, so that the agent never blocks a working route, and refused with a 503 otherwise.
//! The last probe before a deadline starts at most a quarter of a second earlier, or is still running.
//!
//! # Guarantees, for every order of events
//!
//! - Every request is answered exactly once, at its deadline at the latest, unless its client disconnects.
//! - Held requests never exceed the memory limit, and requests for unknown engines never exceed a quarter of it, except
//!   that one such request may always be held. Names that clients make up are not remembered. A request counts with the
//!   part of its body that Envoy may have to buffer, plus [`OVERHEAD`].
//! - Listings start at least a quarter of a second apart. After a listing, the API server is left alone for four times
//!   as long as the listing took, up to two seconds. Probes of an engine start at least a tenth of a second apart;
//!   patches of an engine at least half a second after a failure and ten seconds after a success.
//! - The result of a listing, probe or patch that timed out, or that was started for requests which are gone, is
//!   ignored.
//!
//! # Assumptions
//!
//! Time never goes backwards, and ticks arrive on time. Effects may be slow, fail, or never report a result. The wall
//! clock is roughly right: the operator ignores wake requests that are five minutes old.

mod answer;
mod arrival;
mod engine;
mod engine_queue;
mod event;
mod listing;
mod results;
mod state;
mod time;
mod timers;
mod wake_request;
mod weighted_queue;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Refusal, Route, Stages};
pub use engine::Engine;
pub use engine_queue::FINAL_PROBE;
pub(crate) use engine_queue::TIMEOUT as PROBE_TIMEOUT;
pub use event::{Arrival, Effect, Event, List, Now, Patch, PatchOutcome, Probe, WaiterId};
pub use listing::TIMEOUT as LIST_TIMEOUT;
pub use state::{HoldState, Occupancy, Settings};
pub use wake_request::TIMEOUT as PATCH_TIMEOUT;
pub use weighted_queue::{LARGEST as LARGEST_BODY, OVERHEAD};
