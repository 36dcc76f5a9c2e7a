//! What the table knows of an engine.

use firebolt_api::AutoStopReason;
use firebolt_api::name::MAX_ENGINE_NAME;
use jiff::Timestamp;

/// An engine as the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// The instance that it belongs to.
    pub instance: String,
    /// What `spec.replicas` asks for.
    pub replicas: i32,
    /// Whether it says that it is ready.
    pub ready: bool,
    /// What auto-stop decided last. None as long as the operator has not looked.
    pub auto_stop: Option<AutoStopReason>,
    /// The time in the wake annotation. One that cannot be read is none.
    pub wake_requested: Option<Timestamp>,
}

impl Engine {
    /// Whether it has no pods and wants none.
    pub(super) fn stopped(&self) -> bool {
        self.replicas == 0
    }

    /// Whether it is stopped and nobody would follow a request to wake it. One that the operator has not looked at yet may
    /// have a policy, be it from its class.
    pub(super) fn stopped_for_good(&self) -> bool {
        self.stopped() && self.auto_stop == Some(AutoStopReason::Disabled)
    }

    /// Whether it is stopped and may be woken.
    pub(super) fn sleeps(&self) -> bool {
        self.stopped() && !self.stopped_for_good()
    }
}

/// Whether an engine can have this name. Envoy has looked already; this keeps the table safe from whoever else asks.
pub(super) fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= MAX_ENGINE_NAME
        && !text.is_empty()
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
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
    fn names_are_those_that_the_gateway_selects(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(is_name(text), valid);
    }

    #[test]
    fn the_longest_name_is_that_of_the_api() {
        assert!(is_name(&"a".repeat(MAX_ENGINE_NAME)));
        assert!(!is_name(&"a".repeat(MAX_ENGINE_NAME + 1)));
    }
}
