//! What a decision consists of. Everything here is data; `apply` in the operator carries it out.

use std::time::Duration;

use firebolt_api::{EnginePhase, FireboltEngineStatus};

use super::input::Input;
use crate::plan::Event;

/// What one pass does.
///
/// The caller performs the writes in order and stops at the first failure; every prefix is a safe place to die. Then it
/// writes the status, guarded by the resourceVersion that the engine was read with (or the one that a write of this
/// plan to the engine itself returned), and publishes the events.
///
/// # Fencing
///
/// The engine may come from a cache. Before the first write the caller confirms with a live read that the engine still
/// has the resourceVersion that the decision was made from: a decision from an old phase must not move the routing
/// Service or delete anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to write, in this order.
    pub writes: Vec<Write>,
    /// The next status; none if nothing but a timestamp would change.
    pub status: Option<FireboltEngineStatus>,
    /// What to tell people.
    pub events: Vec<Event>,
    /// When to look again, even if nothing is seen to change.
    pub look_again: Option<Duration>,
}

impl Plan {
    /// Whether the decision is too grave for a watch cache that may lag behind. Then the caller reads everything live
    /// and decides again; the second decision stands.
    ///
    /// Grave are: what the phases do that trust a single look (switching moves on when it sees the Service, cleaning
    /// deletes); moving the routing Service; deleting anything; calling a generation ready or drained; undoing a switch; and
    /// starting a generation, which an object that a cache has not seen yet must not set off.
    #[must_use]
    pub fn needs_live_reads(&self, input: &Input) -> bool {
        if self.writes == [Write::AddFinalizer] {
            return false;
        }
        let before = input.engine.status.as_ref();
        let phase = |status: Option<&FireboltEngineStatus>| status.and_then(|status| status.phase);
        let trusting = match phase(before) {
            Some(EnginePhase::Switching | EnginePhase::Cleaning) | None => true,
            Some(EnginePhase::Stable | EnginePhase::Stopped | EnginePhase::Creating | EnginePhase::Draining) => false,
        };
        let grave = self.writes.iter().any(|write| match write {
            Write::ApplyRoutingService { .. } | Write::Delete(_) | Write::RemoveFinalizer => true,
            Write::AddFinalizer
            | Write::ApplyConfigMap { .. }
            | Write::ApplyHeadlessService { .. }
            | Write::CreateStatefulSet { .. }
            | Write::SetReplicas { .. } => false,
        });
        let (was, becomes) = (phase(before), phase(self.status.as_ref()));
        // The next phases look live. What they would take back at once must not come from a cache that lags behind.
        let moves_on = matches!(becomes, Some(EnginePhase::Switching | EnginePhase::Cleaning)) && was != becomes;
        let undone = was == Some(EnginePhase::Draining) && becomes == Some(EnginePhase::Creating);
        trusting || grave || self.starts_generation(input) || moves_on || undone
    }
}

impl Plan {
    /// Whether the decision is to make a new generation. Then the caller makes sure that it knows the newest class and
    /// instance too: from old ones, every engine would be rolled back.
    #[must_use]
    pub fn starts_generation(&self, input: &Input) -> bool {
        let current = |status: &FireboltEngineStatus| status.current_generation;
        let before = input.engine.status.as_ref().map(current);
        self.status.as_ref().map(current) > before
    }
}

/// One write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Puts our finalizer on the engine.
    AddFinalizer,
    /// Takes our finalizer off the engine, which lets it go.
    RemoveFinalizer,
    /// Server-side apply of the ConfigMap of a generation.
    ApplyConfigMap {
        /// Which generation.
        generation: i64,
    },
    /// Server-side apply of the headless Service of a generation.
    ApplyHeadlessService {
        /// Which generation.
        generation: i64,
    },
    /// Creation of the StatefulSet of a generation. The API server must refuse it if one exists: a generation is
    /// immutable, and a stale cache must not put a new template under pods that run an old one.
    CreateStatefulSet {
        /// Which generation.
        generation: i64,
    },
    /// Server-side apply of the routing Service.
    ApplyRoutingService {
        /// The generation to select.
        generation: i64,
    },
    /// Deletion of an object that this engine owns, with its UID as precondition. A StatefulSet goes with foreground
    /// propagation: its pods first. An object that is already gone is a success.
    Delete(Object),
    /// A patch of `spec.replicas`, refused if the value or the resourceVersion is no longer what was read: an edit of
    /// the user in between wins.
    SetReplicas {
        /// The value that was read.
        from: i32,
        /// The value to set.
        to: i32,
        /// The version that was read.
        resource_version: String,
    },
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

/// The kinds of objects that an engine owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The StatefulSet of a generation.
    StatefulSet,
    /// The headless Service of a generation or the routing Service.
    Service,
    /// The ConfigMap of a generation.
    ConfigMap,
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Switching};
    use rstest::rstest;

    use crate::plan::engine::Drain;
    use crate::plan::engine::fixture::{Case, engine};

    /// A rollout whose new generation is not ready, with everything said about it.
    fn creating() -> Case {
        engine("a").serving(0).generation(1, 1).at(Creating).reported()
    }

    #[rstest]
    #[case::at_rest(engine("a").serving(0).at(Stable), false)]
    #[case::nothing_new(engine("a").serving(0).at(Stable).reported(), false)]
    #[case::repair(engine("a").serving(0).at(Stable).lost_config(0), false)]
    #[case::creating(creating(), false)]
    #[case::all_ready(engine("a").serving(0).whole(1).at(Creating), true)]
    #[case::still_draining(engine("a").whole(0).serving(1).at(Draining), false)]
    #[case::adds_the_finalizer(engine("a").but(|case| case.engine.metadata.finalizers = None), false)]
    #[case::no_status(engine("a").serving(0), true)]
    #[case::switching(engine("a").serving(0).whole(1).at(Switching), true)]
    #[case::sees_the_switch(engine("a").whole(0).serving(1).counting(Switching, 1, 0, None), true)]
    #[case::cleaning(engine("a").whole(0).serving(1).at(Cleaning), true)]
    #[case::moves_the_route(engine("a").serving(0).at(Stable).unrouted(), true)]
    #[case::sweeps(engine("a").whole(0).serving(2).at(Stable), true)]
    #[case::starts_a_generation(engine("a").serving(0).at(Stable).wants("new"), true)]
    #[case::gives_a_generation_up(creating().wants("new"), true)]
    #[case::undoes_the_switch(engine("a").whole(0).serving(1).at(Draining).lost_set(1), true)]
    #[case::calls_it_drained(engine("a").whole(0).serving(1).at(Draining).counted(0, Drain::Drained), true)]
    fn what_cannot_be_undone_is_decided_from_live_reads(#[case] case: Case, #[case] live: bool) {
        assert_eq!(case.needs_live_reads(), live, "{:?}", case.plan());
    }
}
