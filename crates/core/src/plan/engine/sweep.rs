//! The sweep: deletes generations that nothing refers to, in every reconcile.
//!
//! It deletes the leftovers of abandoned rollouts, crashes and restores. Three rules make it safe:
//! - the *keep set*: generations that the persisted status or the routing Service refers to are kept;
//! - the *floor*: nothing as new as the newest generation of the status is deleted, so a stale status does no harm;
//! - only objects that this engine owns by UID, and that are not being deleted, are deleted.

use std::time::Duration;

use super::delete;
use super::input::Input;
use super::output::EngineWrite;
use super::phase::Transition;
use super::progress::Progress;

/// Maximum number of objects that one reconcile deletes, so that many leftovers do not delay other engines.
pub(crate) const BUDGET: usize = 100;
/// When the rest is deleted.
const BACKLOG_DELAY: Duration = Duration::from_secs(2);

/// Adds the deletes to a transition. `persisted` is the status in the cluster, not the next one, because the deletes
/// happen before the status is written.
pub(super) fn add(input: &Input, persisted: Progress, step: &mut Transition) {
    let named = [Some(persisted.current), persisted.active, persisted.draining];
    let floor = named.into_iter().flatten().max().unwrap_or(persisted.current);
    let keep = |number: i64| named.contains(&Some(number)) || selected(input) == Some(number) || number >= floor;
    let orphans = input
        .observed
        .generations
        .keys()
        .copied()
        .filter(|&number| !keep(number));
    let mut deletes = orphans.flat_map(|number| delete::generation(input, number));
    // An abandoned generation is deleted before the next one is created, so that repeated crashes cannot accumulate
    // them; but one that cannot be deleted must not prevent the route from being repaired.
    let creates = |write: &EngineWrite| matches!(write, EngineWrite::CreateStatefulSet { .. });
    let place = step.writes.iter().position(creates).unwrap_or(step.writes.len());
    step.writes.splice(place..place, deletes.by_ref().take(BUDGET));
    if deletes.next().is_some() {
        step.requeue_after = super::sooner(step.requeue_after, Some(BACKLOG_DELAY));
    }
}

/// The selected generation is kept even if the engine does not own the Service: another client relies on it.
fn selected(input: &Input) -> Option<i64> {
    input.observed.routing.as_ref().and_then(|routing| routing.target)
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable};

    use super::*;
    use crate::plan::engine::GateCause::ClassUnready;
    use crate::plan::engine::fixture::{Case, engine, route_to};

    fn deleted(case: &Case) -> Vec<String> {
        let writes = case.plan().writes;
        writes
            .iter()
            .filter_map(EngineWrite::deleted)
            .map(|object| object.name.clone())
            .collect()
    }

    #[test]
    fn orphans_are_deleted_after_the_route_is_repaired_and_before_anything_is_created() {
        let case = engine("a").complete(0).serving(2).at(Stable).unrouted();
        assert_eq!(deleted(&case), ["a-g0", "a-g0-hl", "a-g0-config"]);
        assert_eq!(case.plan().writes[0], route_to(2));
        let creating = engine("a").complete(0).serving(2).counting(Creating, 3, 2, None);
        assert_eq!(deleted(&creating), ["a-g0", "a-g0-hl", "a-g0-config"]);
        assert_eq!(
            creating.plan().writes.last(),
            Some(&EngineWrite::CreateStatefulSet {
                generation: 3,
                copy_of: None,
            })
        );
    }

    #[test]
    fn generations_that_status_or_route_refer_to_are_kept() {
        assert_eq!(deleted(&engine("a").complete(1).serving(2).at(Draining)), [""; 0]);
        let routed = engine("a").complete(0).serving(2).at(Stable).routed(0);
        assert_eq!(deleted(&routed), [""; 0]);
        let routed_by_others = engine("a").complete(0).serving(2).at(Stable).routed(0);
        let routed_by_others = routed_by_others.routing(|routing| routing.meta.owned = false);
        assert_eq!(deleted(&routed_by_others), [""; 0]);
    }

    #[test]
    fn pods_that_a_stateful_set_left_behind_are_swept_with_their_generation() {
        let case = engine("a").complete(0).serving(2).at(Stable).orphaned(0);
        assert_eq!(deleted(&case), ["a-g0-0", "a-g0-1", "a-g0-hl", "a-g0-config"]);
        assert_eq!(
            deleted(&engine("a").serving(2).at(Stable).orphaned(2).gate(ClassUnready)),
            [""; 0]
        );
    }

    #[test]
    fn nothing_as_new_as_the_status_is_deleted() {
        let above = engine("a").serving(2).complete(3).counting(Stable, 2, 2, None);
        assert_eq!(deleted(&above), [""; 0]);
    }

    #[test]
    fn objects_that_are_not_owned_are_kept() {
        let case = engine("a")
            .complete(0)
            .serving(2)
            .at(Stable)
            .set(0, |set| set.meta.owned = false);
        assert_eq!(deleted(&case), ["a-g0-hl", "a-g0-config"]);
    }

    #[test]
    fn one_reconcile_deletes_a_limited_number_of_objects() {
        let many = (0..40).fold(engine("a"), Case::complete).serving(40).at(Stable);
        assert_eq!(deleted(&many).len(), BUDGET);
        assert_eq!(many.reported().plan().requeue_after, Some(BACKLOG_DELAY));
        let few = (0..33).fold(engine("a"), Case::complete).serving(40).at(Stable);
        assert_eq!(few.reported().plan().requeue_after, None);
    }

    #[test]
    fn a_reconcile_that_starts_a_generation_sweeps_nothing() {
        assert_eq!(
            deleted(&engine("a").complete(0).serving(2).at(Stable).desired_hash("new")),
            [""; 0]
        );
    }
}
