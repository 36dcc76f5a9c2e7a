//! Which engines adopt the rendering of this version of the operator, with `--upgrade-policy=Rolling`: a few at a time, and no
//! further one as long as one of them is not ready.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use firebolt_api::condition::{EngineCondition, is_true};
use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::plan::engine::{ADOPTS_RENDERING, Adoption, Observed};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::Store;

use crate::settings::Upgrades as Policy;

/// The engines that adopt the rendering at present.
#[derive(Debug, Default)]
pub(super) struct Upgrades(Mutex<BTreeSet<ObjectKey>>);

impl Upgrades {
    /// Whether this engine adopts the rendering now, if another version of the operator rendered its newest generation.
    pub(super) fn permit(
        &self,
        policy: Policy,
        engine: &FireboltEngine,
        observed: &Observed,
        engines: &Store<FireboltEngine>,
    ) -> Adoption {
        let concurrency = match policy {
            Policy::Rolling { concurrency } => usize::from(concurrency),
            Policy::OnNextChange => return Adoption::OnNextChange,
        };
        let current = engine.status.as_ref().map(|status| status.current_generation);
        let newest = current.and_then(|current| observed.generations.get(&current)?.stateful_set.as_ref());
        if newest.is_none_or(|set| set.outdated.is_empty()) {
            return Adoption::OnNextChange;
        }
        let key = ObjectKey::of(engine);
        let mut adopting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if adopting.len() >= concurrency && !adopting.contains(&key) {
            return Adoption::Waits;
        }
        // Only now, because there may be many: those that a process before this one has begun with count, too.
        let begun = engines.all();
        let begun = begun
            .iter()
            .filter_map(|engine| engine.0.as_ref().ok())
            .filter(|engine| is_adopting(engine));
        adopting.extend(begun.map(ObjectKey::of));
        if adopting.len() >= concurrency && !adopting.contains(&key) {
            return Adoption::Waits;
        }
        adopting.insert(key);
        Adoption::Now
    }

    /// An engine was reconciled. One that is as it should be makes room for the next.
    pub(super) fn reconciled(&self, engine: &FireboltEngine, permitted: Adoption) {
        let mut adopting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_adopting(engine) {
            adopting.insert(ObjectKey::of(engine));
        } else if permitted != Adoption::Now {
            adopting.remove(&ObjectKey::of(engine));
        }
    }

    pub(super) fn forget(&self, engine: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(engine);
    }
}

/// Whether the newest generation was started to adopt a rendering, and is not ready yet.
fn is_adopting(engine: &FireboltEngine) -> bool {
    let Some(status) = &engine.status else { return false };
    let done = match status.phase {
        Some(EnginePhase::Stopped) => true,
        Some(EnginePhase::Stable) => is_true(&status.conditions, EngineCondition::Ready),
        Some(EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning) | None => {
            false
        }
    };
    status.rollout_cause.as_deref() == Some(ADOPTS_RENDERING) && !done
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firebolt_core::plan::Meta;
    use firebolt_core::plan::engine::{Generation, StatefulSet};
    use firebolt_runtime::informer::Guarded;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    const ONE: Policy = Policy::Rolling { concurrency: 1 };

    fn engine(name: &str, cause: &str, phase: &str, ready: &str) -> FireboltEngine {
        let ready = json!({ "type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": "2026-11-16T12:00:00Z" });
        let status = json!({ "currentGeneration": 0, "activeGeneration": 0, "phase": phase, "rolloutCause": cause, "conditions": [ready] });
        let metadata = json!({ "name": name, "namespace": "n" });
        let engine = json!({ "apiVersion": "v", "kind": "K", "metadata": metadata, "spec": { "instanceRef": "i" }, "status": status });
        serde_json::from_value(engine).unwrap()
    }

    fn at_rest(name: &str) -> FireboltEngine {
        engine(name, "", "stable", "True")
    }

    fn observed(outdated: &[&'static str]) -> Observed {
        let meta = Meta {
            uid: String::new(),
            owned: true,
            terminating: false,
            foreign_finalizers: Vec::new(),
        };
        let set = StatefulSet {
            meta,
            template_hash: None,
            tampered: false,
            outdated: outdated.to_vec(),
            changes: Vec::new(),
            replicas: 1,
            created: Timestamp::UNIX_EPOCH,
        };
        let generation = Generation {
            stateful_set: Some(set),
            ..Generation::default()
        };
        Observed {
            generations: [(0, generation)].into(),
            ..Observed::default()
        }
    }

    fn store(engines: &[FireboltEngine]) -> Store<FireboltEngine> {
        let store = Store::new([]);
        for engine in engines {
            store.put(Arc::new(Guarded(Ok(engine.clone()))));
        }
        store
    }

    #[test]
    fn engines_adopt_a_rendering_one_after_the_other_and_wait_for_one_that_is_not_ready() {
        let (upgrades, none) = (Upgrades::default(), store(&[]));
        let permit = |engine: &FireboltEngine| upgrades.permit(ONE, engine, &observed(&["container `engine`"]), &none);
        let (a, b) = (at_rest("a"), at_rest("b"));
        assert_eq!(
            (permit(&a), permit(&a), permit(&b)),
            (Adoption::Now, Adoption::Now, Adoption::Waits)
        );
        for (phase, ready) in [("creating", "False"), ("draining", "False"), ("stable", "False")] {
            upgrades.reconciled(&engine("a", ADOPTS_RENDERING, phase, ready), Adoption::OnNextChange);
            assert_eq!(permit(&b), Adoption::Waits, "{phase}");
        }
        upgrades.reconciled(&engine("a", ADOPTS_RENDERING, "stable", "True"), Adoption::OnNextChange);
        assert_eq!(permit(&b), Adoption::Now);
        upgrades.forget(&ObjectKey::of(&b));
        assert_eq!(permit(&at_rest("c")), Adoption::Now);
    }

    #[test]
    fn a_restart_does_not_forget_who_has_begun() {
        let begun = store(&[engine("a", ADOPTS_RENDERING, "creating", "False"), at_rest("b")]);
        let permit = Upgrades::default().permit(ONE, &at_rest("b"), &observed(&["container `engine`"]), &begun);
        assert_eq!(permit, Adoption::Waits);
    }

    #[test]
    fn without_another_rendering_or_the_policy_nothing_is_adopted() {
        let (upgrades, none) = (Upgrades::default(), store(&[]));
        assert_eq!(
            upgrades.permit(ONE, &at_rest("a"), &observed(&[]), &none),
            Adoption::OnNextChange
        );
        let outdated = observed(&["container `engine`"]);
        assert_eq!(
            upgrades.permit(Policy::OnNextChange, &at_rest("a"), &outdated, &none),
            Adoption::OnNextChange
        );
    }
}
