//! What the process remembers of an instance from one look to the next. A restart forgets it, which costs a few reads and
//! nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use firebolt_api::FireboltInstance;
use firebolt_core::plan::instance::{Component, Object};
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

/// A state of an object, and what we wanted it to be then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    wanted: String,
    uid: Option<String>,
    version: Option<String>,
}

impl Mark {
    /// The mark of an object as it is. Where Kubernetes counts changes of the specification, others do not matter.
    pub fn of<K: Resource + Serialize>(rendered: &K, live: &K) -> Self {
        let meta = live.meta();
        let counted = meta.generation.map(|generation| generation.to_string());
        Self {
            wanted: serde_json::to_string(rendered).unwrap_or_default(),
            uid: meta.uid.clone(),
            version: counted.or_else(|| meta.resource_version.clone()),
        }
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
    use serde_json::json;

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
    fn a_mark_is_of_one_state_and_one_wish() {
        let service = |generation: Option<i64>, version: &str, name: &str| -> Service {
            let metadata = json!({ "name": name, "uid": "u", "generation": generation, "resourceVersion": version });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let (wish, live) = (service(None, "", "a"), service(None, "7", "a"));
        assert_eq!(Mark::of(&wish, &live), Mark::of(&wish, &live));
        assert_ne!(Mark::of(&wish, &live), Mark::of(&wish, &service(None, "8", "a")));
        assert_ne!(Mark::of(&wish, &live), Mark::of(&service(None, "", "b"), &live));
        let counted = |version| service(Some(1), version, "a");
        assert_eq!(Mark::of(&wish, &counted("7")), Mark::of(&wish, &counted("8")));
    }
}
