//! The engine of the model.

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::hold::Engine;
use jiff::Timestamp;

pub(crate) const NAME: &str = "a";

/// The actual state of the engine.
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EngineState {
    pub exists: bool,
    pub running: bool,
    pub ready: bool,
    pub reachable: bool,
    pub auto_stop: bool,
    pub wake_requested: Option<Timestamp>,
}

impl EngineState {
    /// What a list returns.
    pub(crate) fn listed(&self) -> Vec<Engine> {
        let reason = if self.auto_stop {
            AutoStopReason::Stopped
        } else {
            AutoStopReason::Disabled
        };
        let engine = Engine {
            name: NAME.to_owned(),
            instance: "main".to_owned(),
            replicas: i32::from(self.running),
            ready: self.ready,
            auto_stop: Some(reason),
            wake_requested: self.wake_requested,
        };
        if self.exists { vec![engine] } else { Vec::new() }
    }

    /// Whether the operator is about to wake it.
    pub(crate) fn wakes(&self) -> bool {
        self.exists && !self.running && self.auto_stop && self.wake_requested.is_some()
    }
}
