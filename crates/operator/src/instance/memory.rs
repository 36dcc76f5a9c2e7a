//! What the process remembers of an instance from one look to the next. A restart forgets it, which costs a few reads and
//! nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::FireboltInstance;
use firebolt_core::plan::instance::{Component, Object};
use firebolt_core::render::differences;
use kube::Resource;
use serde::Serialize;
use tokio::time::Instant;

use crate::events::Told;
use crate::queue::{Attempts, Repairs};
use crate::write::Written;

/// The first pause after a refusal; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The memory of one instance.
#[derive(Debug, Default)]
pub struct Memory {
    /// What was written and the caches may not show yet.
    pub written: Written<FireboltInstance>,
    /// How the passes went.
    pub attempts: Attempts,
    /// What people were told.
    pub told: Told,
    /// What the API server refused.
    pub refusals: Refusals,
    /// What is as we want it as far as the API server lets us.
    pub settled: BTreeMap<Object, Mark>,
    /// Since when each component is waited for.
    pub waiting_since: BTreeMap<Component, Instant>,
    /// How often something was put right lately.
    pub repairs: Repairs,
}

/// What the cluster made of an object that we wrote: where it differs from what we wanted it to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    wanted: String,
    uid: Option<String>,
    differences: Vec<String>,
}

impl Mark {
    /// The mark of an object as it is.
    pub fn of<K: Resource + Serialize>(rendered: &K, live: &K) -> Self {
        Self {
            wanted: serde_json::to_string(rendered).unwrap_or_default(),
            uid: live.meta().uid.clone(),
            differences: differences(rendered, live),
        }
    }

    /// Whether there is anything to mark.
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

/// What the API server refused to store, by component.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<Component, Refusal>);

#[derive(Debug)]
struct Refusal {
    message: String,
    /// The specification that it was about.
    generation: Option<i64>,
    retry_at: Instant,
    attempts: u32,
}

impl Refusals {
    /// Remembers a refusal. It is tried again after a pause, which grows.
    pub fn add(&mut self, component: Component, generation: Option<i64>, message: String) {
        let before = self.0.remove(&component);
        let before = before.filter(|before| before.generation == generation);
        let attempts = before.map_or(0, |before| before.attempts + 1);
        let pause = FIRST_PAUSE.saturating_mul(1 << attempts.min(10)).min(LONGEST_PAUSE);
        let refusal = Refusal {
            message,
            generation,
            retry_at: Instant::now() + pause,
            attempts,
        };
        self.0.insert(component, refusal);
    }

    /// What is not to be tried again yet. What was about another specification is forgotten.
    pub fn standing(&mut self, generation: Option<i64>) -> BTreeMap<Component, String> {
        self.0.retain(|_, refusal| refusal.generation == generation);
        let now = Instant::now();
        let standing = self.0.iter().filter(|(_, refusal)| refusal.retry_at > now);
        standing
            .map(|(component, refusal)| (*component, refusal.message.clone()))
            .collect()
    }

    /// A component was written without a refusal.
    pub fn overcome(&mut self, component: Component) {
        self.0.remove(&component);
    }

    /// When the next attempt is due.
    pub fn next_attempt(&self) -> Option<Duration> {
        let now = Instant::now();
        let due = self
            .0
            .values()
            .map(|refusal| refusal.retry_at.saturating_duration_since(now));
        due.min()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_stands_for_a_while_that_grows_and_for_one_specification() {
        let mut refusals = Refusals::default();
        refusals.add(Component::Gateway, Some(1), "quota".to_owned());
        assert_eq!(
            refusals.standing(Some(1)),
            BTreeMap::from([(Component::Gateway, "quota".to_owned())])
        );
        assert_eq!(refusals.next_attempt(), Some(FIRST_PAUSE));
        tokio::time::advance(FIRST_PAUSE).await;
        assert!(refusals.standing(Some(1)).is_empty() && !refusals.is_empty());
        refusals.add(Component::Gateway, Some(1), "quota".to_owned());
        assert_eq!(refusals.next_attempt(), Some(FIRST_PAUSE * 2));
        assert!(refusals.standing(Some(2)).is_empty() && refusals.is_empty());
        refusals.add(Component::Gateway, Some(2), "quota".to_owned());
        assert_eq!(refusals.next_attempt(), Some(FIRST_PAUSE));
        refusals.overcome(Component::Gateway);
        assert!(refusals.is_empty());
    }

    #[test]
    fn a_mark_is_of_one_wish_and_what_became_of_it() {
        let service = |name: &str, labels: &Value| -> Service {
            serde_json::from_value(json!({ "metadata": { "name": name, "uid": "u", "labels": labels } })).unwrap()
        };
        let wish = service("a", &json!({ "x": "1", "y": "1" }));
        assert!(Mark::of(&wish, &wish).is_clean());
        let live = service("a", &json!({ "x": "2", "y": "1" }));
        assert_eq!(Mark::of(&wish, &live), Mark::of(&wish, &live.clone()));
        assert!(!Mark::of(&wish, &live).is_clean());
        let worse = service("a", &json!({ "x": "2" }));
        assert_ne!(Mark::of(&wish, &live), Mark::of(&wish, &worse));
        let other = service("a", &json!({ "x": "3", "y": "1" }));
        assert_ne!(Mark::of(&wish, &live), Mark::of(&other, &live));
    }
}
