//! What the one engine is like.

use firebolt_api::AutoStopReason;
use firebolt_wake_agent::table::Engine;
use jiff::Timestamp;

pub const NAME: &str = "a";

/// What is so, whoever knows of it.
#[expect(clippy::struct_excessive_bools, reason = "any of them can be without the others")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Truth {
    pub exists: bool,
    pub running: bool,
    pub ready: bool,
    pub reachable: bool,
    pub auto_stop: bool,
    pub stamp: Option<Timestamp>,
}

impl Truth {
    /// What a list says of it.
    pub fn listed(&self) -> Vec<Engine> {
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
            wake_requested: self.stamp,
        };
        if self.exists { vec![engine] } else { Vec::new() }
    }

    /// Whether the operator is about to wake it.
    pub fn wakes(&self) -> bool {
        self.exists && !self.running && self.auto_stop && self.stamp.is_some()
    }
}
