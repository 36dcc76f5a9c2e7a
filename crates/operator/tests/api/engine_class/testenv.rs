//! What the tests of engine classes add to the test environment.

use firebolt_api::condition::Condition;
use firebolt_api::{FireboltEngineClass, FireboltEngineClassStatus};

use crate::fixtures::{Engine, engine};
use crate::testenv::{EventSummary, TestEnv};

/// The name of the class.
pub(super) const CLASS: &str = "c";
/// One replica that waits for no lease.
pub(super) const ALONE: &str = "--leader-elect=false";

/// An engine without pods that refers to the class.
pub(super) fn bound(name: &str) -> Engine {
    engine(name).replicas(0).class(CLASS)
}

pub(super) fn status(class: &FireboltEngineClass) -> FireboltEngineClassStatus {
    class.status.clone().unwrap_or_default()
}

/// The `Ready` condition of the class.
pub(super) fn ready(class: &FireboltEngineClass) -> Option<Condition> {
    let mut conditions = class.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == "Ready").cloned()
}

impl TestEnv {
    /// Waits until the class is as described, and says so of its latest edit.
    pub(crate) async fn wait_for_class(
        &self,
        class: &str,
        what: &str,
        is: impl Fn(&FireboltEngineClass) -> bool,
    ) -> FireboltEngineClass {
        let latest =
            |class: &FireboltEngineClass| status(class).observed_generation == class.metadata.generation && is(class);
        self.wait_for_object(class, what, latest).await
    }

    /// Waits until the class counts so many engines.
    pub(crate) async fn wait_for_bound(&self, class: &str, engines: i32) -> FireboltEngineClass {
        let counts = |class: &FireboltEngineClass| class.status.is_some() && status(class).bound_engines == engines;
        self.wait_for_class(class, &format!("counts {engines}"), counts).await
    }

    /// Waits until the class has the reason.
    pub(crate) async fn wait_for_class_reason(&self, class: &str, reason: &str) -> Condition {
        let has = |class: &FireboltEngineClass| ready(class).is_some_and(|ready| ready.reason == reason);
        let found = self
            .wait_for_class(class, &format!("has the reason {reason}"), has)
            .await;
        ready(&found).expect("it has a reason")
    }

    /// Waits until the message of the class contains the text.
    pub(crate) async fn wait_for_class_message(&self, class: &str, text: &str) -> FireboltEngineClass {
        let says = |class: &FireboltEngineClass| ready(class).is_some_and(|ready| ready.message.contains(text));
        self.wait_for_class(class, &format!("says {text:?}"), says).await
    }

    /// Waits until an event about the class was emitted.
    pub(crate) async fn wait_for_class_event(&self, class: &str, reason: &str) -> EventSummary {
        let reported = async || {
            let events = self.events_about::<FireboltEngineClass>(class).await;
            events.into_iter().find(|event| event.reason == reason)
        };
        self.eventually(&format!("{reason} is an event of class {class}"), reported)
            .await
    }

    /// Waits until no reconcile of an object of this kind is queued, running or scheduled.
    pub(crate) async fn wait_until_no_class_reconcile_is_scheduled(&self) {
        let none = async || {
            self.operator()
                .has_no_reconcile_scheduled("fireboltengineclass")
                .then_some(())
        };
        self.eventually("no reconcile of a class is scheduled", none).await;
    }

    /// Waits until the operator has reconciled the class.
    pub(crate) async fn wait_until_class_was_reconciled(&self, class: &str) {
        let of = format!(r#"{{namespace="{}",name="{class}"}}"#, self.namespace);
        let name = format!("firebolt_engine_class_last_reconciled_timestamp{of}");
        let reconciled = async || self.operator().metric(&name);
        self.eventually(&format!("class {class} was reconciled"), reconciled)
            .await;
    }
}
