//! What the state machine knows of an engine.

use firebolt_api::AutoStopReason;
use firebolt_api::name::{MAX_ENGINE_NAME, is_dns_label};
use jiff::Timestamp;

/// An engine as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// The instance that it belongs to.
    pub instance: String,
    /// `spec.replicas`.
    pub replicas: i32,
    /// Whether it reports that it is ready.
    pub ready: bool,
    /// `status.autoStopReason`. None as long as the operator has not reconciled the engine.
    pub auto_stop: Option<AutoStopReason>,
    /// The time in the wake annotation. None if it cannot be parsed.
    pub wake_requested: Option<Timestamp>,
}

impl Engine {
    /// Whether it is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.replicas == 0
    }

    /// Whether it is stopped, and the operator would ignore a wake request. An engine that the operator has not
    /// reconciled yet may inherit a policy from its class.
    pub(super) fn is_stopped_without_auto_stop(&self) -> bool {
        self.is_stopped() && self.auto_stop == Some(AutoStopReason::Disabled)
    }

    /// Whether it is stopped and may be woken.
    pub(super) fn is_wakeable(&self) -> bool {
        self.is_stopped() && !self.is_stopped_without_auto_stop()
    }
}

/// Whether an engine can have this name. Envoy has checked it already; other clients in the pod have not.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= MAX_ENGINE_NAME && is_dns_label(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("9-to-5", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("a.b", false)]
    #[case("A", false)]
    #[case("é", false)]
    fn names_are_those_that_the_gateway_accepts(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(is_name(text), valid);
    }

    #[test]
    fn the_longest_name_is_that_of_the_api() {
        assert!(is_name(&"a".repeat(MAX_ENGINE_NAME)));
        assert!(!is_name(&"a".repeat(MAX_ENGINE_NAME + 1)));
    }
}
