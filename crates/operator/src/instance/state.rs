//! What the process keeps of an instance from one reconcile to the next. A restart loses it, which costs a few reads and
//! nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::FireboltInstance;
use firebolt_core::compare::instance::AcceptedDrift;
use firebolt_core::plan::instance::{Component, InstanceObject, Limits};
use firebolt_runtime::reconciler::{ObjectState, RejectionBackoff};
use tokio::time::Instant;

/// The state of one instance.
pub(super) type State = ObjectState<FireboltInstance, InstanceState>;

/// What instances add to it.
#[derive(Debug, Default)]
pub(super) struct InstanceState {
    /// What the API server rejected.
    pub(super) rejections: Rejections,
    /// The difference that the API server left in each object when it was applied.
    pub(super) accepted: BTreeMap<InstanceObject, AcceptedDrift>,
    /// Since when each component is not ready.
    pub(super) waiting_since: BTreeMap<Component, Instant>,
}

/// What the API server rejected, by component.
#[derive(Debug, Default)]
pub(super) struct Rejections(BTreeMap<Component, Rejection>);

#[derive(Debug)]
struct Rejection {
    message: String,
    /// The generation of the instance that it was about.
    generation: Option<i64>,
    backoff: RejectionBackoff,
}

impl Rejections {
    /// The API server rejected an object of a component. It is sent again after a delay, which grows.
    pub(super) fn add(&mut self, component: Component, generation: Option<i64>, message: String) {
        let before = self.0.remove(&component);
        let before = before.filter(|before| before.generation == generation);
        let rejection = Rejection {
            message,
            generation,
            backoff: RejectionBackoff::after(before.map(|before| before.backoff)),
        };
        self.0.insert(component, rejection);
    }

    /// What is not to be sent again yet. A rejection of another generation of the instance is dropped.
    pub(super) fn standing(&mut self, generation: Option<i64>) -> StandingRejections {
        self.0.retain(|_, rejection| rejection.generation == generation);
        let mut standing = StandingRejections::default();
        for (component, rejection) in &self.0 {
            if let Some(remaining) = rejection.backoff.remaining() {
                standing.messages.insert(*component, rejection.message.clone());
                let earliest = standing
                    .retry_after
                    .map_or(remaining, |earliest| earliest.min(remaining));
                standing.retry_after = Some(earliest);
            }
        }
        standing
    }

    /// All objects of a component were accepted.
    pub(super) fn overcome(&mut self, component: Component) {
        self.0.remove(&component);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rejections that hold a reconcile back.
#[derive(Debug, Default)]
pub(super) struct StandingRejections {
    messages: BTreeMap<Component, String>,
    retry_after: Option<Duration>,
}

impl StandingRejections {
    /// What the next plan is limited to. `drift`: the delay after a reconcile that corrects drift.
    pub(super) fn limits(&self, drift: Option<Duration>) -> Limits<'_> {
        Limits {
            rejected: &self.messages,
            retry_after: self.retry_after,
            drift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rejection_stands_for_a_delay_that_grows_and_for_one_generation() {
        let mut rejections = Rejections::default();
        let quota = || BTreeMap::from([(Component::Gateway, "quota".to_owned())]);
        rejections.add(Component::Gateway, Some(1), "quota".to_owned());
        let standing = rejections.standing(Some(1));
        assert_eq!(standing.limits(None).rejected, &quota());
        let first = standing.retry_after.unwrap();
        tokio::time::advance(first).await;
        let due = rejections.standing(Some(1));
        assert_eq!((due.messages, due.retry_after), (BTreeMap::new(), None));
        assert!(!rejections.is_empty());
        rejections.add(Component::Gateway, Some(1), "quota".to_owned());
        assert_eq!(rejections.standing(Some(1)).retry_after, Some(first * 2));
        assert!(rejections.standing(Some(2)).messages.is_empty() && rejections.is_empty());
        rejections.add(Component::Gateway, Some(2), "quota".to_owned());
        assert_eq!(rejections.standing(Some(2)).retry_after, Some(first));
        rejections.overcome(Component::Gateway);
        assert!(rejections.is_empty());
    }
}
