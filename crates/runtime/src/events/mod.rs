//! Kubernetes Events, which `kubectl describe` shows.
//!
//! They are sent beside the reconciles and never delay them: through a queue of bounded length, a few requests at a time.
//! Events that do not fit are dropped; conditions carry everything that must last.
//!
//! The recorder of kube-rs is not used: it takes two events with the same reason within some minutes for one and keeps the
//! first message, which would hide what a second rollout is about.

mod apply;
mod deduplication;
mod event;
mod recorder;

pub use self::apply::Reporter;
pub use self::deduplication::EventDeduplicator;
pub use self::event::{Event, EventType};
pub use self::recorder::{Broadcaster, Recorder, recorder};
