//! The plan of an engine. Everything here is data; `apply` in the operator executes it.

use firebolt_api::{EnginePhase, FireboltEngineStatus};

use super::input::Input;
use crate::plan::Reads;

/// What one reconcile of an engine does.
///
/// # Fencing
///
/// The engine may come from a cache. Before the first write the caller confirms with a live read that the engine still
/// has the resourceVersion that the plan is based on: a plan for an old phase must not switch the routing Service or
/// delete anything.
pub type Plan = crate::plan::Plan<EngineWrite, FireboltEngineStatus>;

impl Plan {
    /// Whether the plan cannot be trusted to a watch cache that may be stale.
    ///
    /// Live reads are needed for phases that act on a single observation (switching continues when it observes the
    /// Service, cleaning deletes); for switching the routing Service; for deletions; for declaring a generation ready
    /// or drained; for undoing a switch; and for starting a generation, which an object that is missing in a cache must
    /// not cause.
    pub(super) fn needs_live_reads(&self, input: &Input) -> bool {
        if self.writes == [EngineWrite::AddFinalizer] {
            return false;
        }
        let before = input.engine.status.as_ref();
        let phase = |status: Option<&FireboltEngineStatus>| status.and_then(|status| status.phase);
        let trusting = match phase(before) {
            Some(EnginePhase::Switching | EnginePhase::Cleaning) | None => true,
            Some(EnginePhase::Stable | EnginePhase::Stopped | EnginePhase::Creating | EnginePhase::Draining) => false,
        };
        let grave = self.writes.iter().any(|write| match write {
            EngineWrite::ApplyRoutingService { .. } | EngineWrite::Delete(_) | EngineWrite::RemoveFinalizer => true,
            // Caches do not keep what is copied.
            EngineWrite::ApplyConfigMap { copy_of, .. } | EngineWrite::CreateStatefulSet { copy_of, .. } => {
                copy_of.is_some()
            }
            EngineWrite::AddFinalizer | EngineWrite::ApplyHeadlessService { .. } | EngineWrite::SetReplicas { .. } => {
                false
            }
        });
        let (was, becomes) = (phase(before), phase(self.status.as_ref()));
        // The next phases read live. A phase that they would revert immediately must not come from a stale cache.
        let moves_on = matches!(becomes, Some(EnginePhase::Switching | EnginePhase::Cleaning)) && was != becomes;
        let undone = was == Some(EnginePhase::Draining) && becomes == Some(EnginePhase::Creating);
        trusting || grave || self.starts_generation(input) || moves_on || undone
    }
}

impl Plan {
    /// What has to be read live before this plan, made from what was read there, can be applied; `None` if it can.
    #[must_use]
    pub fn reads_needed(&self, input: &Input, reads: Reads) -> Option<Reads> {
        match reads {
            Reads::Cached | Reads::LiveChildren if self.starts_generation(input) || self.goes_back(input) => {
                Some(Reads::Live)
            }
            Reads::Cached if self.needs_live_reads(input) => Some(Reads::LiveChildren),
            Reads::Cached | Reads::LiveChildren | Reads::Live => None,
        }
    }

    /// Whether the plan corrects an object that was changed or deleted.
    #[must_use]
    pub fn corrects_drift(&self) -> bool {
        self.writes.iter().any(|write| match write {
            EngineWrite::ApplyConfigMap { .. }
            | EngineWrite::ApplyHeadlessService { .. }
            | EngineWrite::ApplyRoutingService { .. } => true,
            EngineWrite::AddFinalizer
            | EngineWrite::RemoveFinalizer
            | EngineWrite::CreateStatefulSet { .. }
            | EngineWrite::Delete(_)
            | EngineWrite::SetReplicas { .. } => false,
        })
    }

    /// Whether the plan starts a new generation, for which class and instance are also read live: stale ones would roll
    /// every engine back.
    fn starts_generation(&self, input: &Input) -> bool {
        let current = |status: &FireboltEngineStatus| status.current_generation;
        let before = input.engine.status.as_ref().map(current);
        self.status.as_ref().map(current) > before
    }

    /// Whether the plan goes back to creating before the switch, which a stale class or instance must not cause either.
    fn goes_back(&self, input: &Input) -> bool {
        let phase = |status: Option<&FireboltEngineStatus>| status.and_then(|status| status.phase);
        let (was, becomes) = (phase(input.engine.status.as_ref()), phase(self.status.as_ref()));
        (was, becomes) == (Some(EnginePhase::Switching), Some(EnginePhase::Creating))
    }
}

/// One write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineWrite {
    /// Adds the finalizer of the operator to the engine.
    AddFinalizer,
    /// Removes the finalizer of the operator from the engine, which completes its deletion.
    RemoveFinalizer,
    /// Server-side apply of the ConfigMap of a generation.
    ApplyConfigMap {
        /// The generation.
        generation: i64,
        /// The generation whose configuration it copies, for another number of nodes: nothing else can be rendered.
        copy_of: Option<i64>,
    },
    /// Server-side apply of the headless Service of a generation.
    ApplyHeadlessService {
        /// The generation.
        generation: i64,
    },
    /// Creation of the StatefulSet of a generation. The API server must reject it if one exists: a generation is
    /// immutable, and a stale cache must not apply a new template to pods that run an old one.
    CreateStatefulSet {
        /// The generation.
        generation: i64,
        /// The generation whose pods it copies, in another number: nothing else can be rendered.
        copy_of: Option<i64>,
    },
    /// Server-side apply of the routing Service.
    ApplyRoutingService {
        /// The generation to select.
        generation: i64,
    },
    /// Deletion of an object that this engine owns, or of an orphaned pod, with its UID as precondition. A StatefulSet is
    /// deleted with foreground propagation: its pods first. An object that no longer exists is a success. A delete that the
    /// API server rejects does not prevent the writes after it.
    Delete(DeletedObject),
    /// A patch of `spec.replicas`, rejected if the value or the resourceVersion has changed since it was read: a
    /// concurrent edit of the user wins.
    SetReplicas {
        /// The value that was read.
        from: i32,
        /// The value to set.
        to: i32,
        /// The resourceVersion that was read.
        resource_version: String,
    },
}

impl EngineWrite {
    /// The object that is deleted, if one is.
    pub(super) fn deleted(&self) -> Option<&DeletedObject> {
        match self {
            Self::Delete(object) => Some(object),
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::ApplyConfigMap { .. }
            | Self::ApplyHeadlessService { .. }
            | Self::CreateStatefulSet { .. }
            | Self::ApplyRoutingService { .. }
            | Self::SetReplicas { .. } => None,
        }
    }
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeletedObject {
    /// Its kind.
    pub kind: EngineObjectKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The kinds of objects that an engine owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineObjectKind {
    /// The StatefulSet of a generation.
    StatefulSet,
    /// The headless Service of a generation or the routing Service.
    Service,
    /// The ConfigMap of a generation.
    ConfigMap,
    /// A pod that the StatefulSet of a generation left behind.
    Pod,
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Switching};
    use rstest::rstest;

    use crate::plan::Reads;
    use crate::plan::engine::Drain;
    use crate::plan::engine::fixture::{Case, engine, now};

    /// A rollout whose new generation is not ready, and whose status is up to date.
    fn creating() -> Case {
        engine("a").serving(0).generation(1, 1).at(Creating).reported()
    }

    #[rstest]
    #[case::at_rest(engine("a").serving(0).at(Stable), false)]
    #[case::nothing_new(engine("a").serving(0).at(Stable).reported(), false)]
    #[case::repair(engine("a").serving(0).at(Stable).lost_config(0), false)]
    #[case::creating(creating(), false)]
    #[case::all_ready(engine("a").serving(0).complete(1).at(Creating), true)]
    #[case::still_draining(engine("a").complete(0).serving(1).at(Draining), false)]
    #[case::adds_the_finalizer(engine("a").but(|case| case.engine.metadata.finalizers = None), false)]
    #[case::no_status(engine("a").serving(0), true)]
    #[case::switching(engine("a").serving(0).complete(1).at(Switching), true)]
    #[case::sees_the_switch(engine("a").complete(0).serving(1).counting(Switching, 1, 0, None), true)]
    #[case::cleaning(engine("a").complete(0).serving(1).at(Cleaning), true)]
    #[case::moves_the_route(engine("a").serving(0).at(Stable).unrouted(), true)]
    #[case::sweeps(engine("a").complete(0).serving(2).at(Stable), true)]
    #[case::starts_a_generation(engine("a").serving(0).at(Stable).desired_hash("new"), true)]
    #[case::gives_a_generation_up(creating().desired_hash("new"), true)]
    #[case::undoes_the_switch(engine("a").complete(0).serving(1).at(Draining).lost_set(1), true)]
    #[case::calls_it_drained(engine("a").complete(0).serving(1).at(Draining).counted(0, Drain::Drained), true)]
    fn irreversible_plans_need_live_reads(#[case] case: Case, #[case] live: bool) {
        assert_eq!(case.needs_live_reads(), live, "{:?}", case.plan());
    }

    /// A stale class must neither start a generation nor give one up.
    #[rstest]
    #[case::starts_a_generation(engine("a").serving(0).at(Stable).desired_hash("new"), true)]
    #[case::gives_a_stop_up(stopping().desired_hash("new"), true)]
    #[case::waits_for_the_notice(stopping(), false)]
    #[case::switches(engine("a").serving(0).complete(1).at(Switching), false)]
    fn what_follows_from_class_and_instance_needs_them_live(#[case] case: Case, #[case] live: bool) {
        let needed = case.plan().reads_needed(&case.input(), Reads::LiveChildren);
        assert_eq!(needed, live.then_some(Reads::Live), "{:?}", case.plan());
    }

    /// A stop whose notice has just begun, because the pods of the old generation were not ready before.
    fn stopping() -> Case {
        let case = engine("a").serving(0).replicas(0).complete(1);
        case.set(1, |set| set.created = now()).counting(Switching, 1, 0, None)
    }
}
