//! The sweep: generations that nothing names any more are removed, in every pass.
//!
//! It removes what an abandoned rollout, a crash or a restore left behind. Three rules make it safe:
//! - the *keep set*: whatever the persisted status or the routing Service names stays;
//! - the *floor*: nothing as new as the newest generation of the status is touched, so a status that lags behind the
//!   cluster costs nothing;
//! - only what this engine owns by UID, and what is not going already, is deleted.

use std::time::Duration;

use super::delete;
use super::input::Input;
use super::output::Write;
use super::phase::{Progress, Step};

/// How many objects one pass deletes at most, so that a heap of leftovers delays nobody for long.
pub const BUDGET: usize = 100;
/// When the rest is dealt with.
const BACKLOG_DELAY: Duration = Duration::from_secs(2);

/// Adds the deletes to a step. `persisted` is what the status in the cluster says, not what it is going to say: the
/// deletes happen before that.
pub(super) fn add(input: &Input, persisted: Progress, step: &mut Step) {
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
    // A generation that is given up goes before the next one is created, so that crashes in a row cannot pile them up; but
    // one that cannot be deleted must not keep the route from being repaired.
    let creates = |write: &Write| matches!(write, Write::CreateStatefulSet { .. });
    let place = step.writes.iter().position(creates).unwrap_or(step.writes.len());
    step.writes.splice(place..place, deletes.by_ref().take(BUDGET));
    if deletes.next().is_some() {
        step.look_again = super::sooner(step.look_again, Some(BACKLOG_DELAY));
    }
}

/// What the routing Service selects counts even if the Service is not ours: somebody relies on it.
fn selected(input: &Input) -> Option<i64> {
    input.observed.routing.as_ref().and_then(|routing| routing.target)
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Creating, Draining, Stable};

    use super::*;
    use crate::plan::engine::Object;
    use crate::plan::engine::fixture::{Case, engine, route_to};

    fn deleted(case: &Case) -> Vec<String> {
        let name = |write: &Write| match write {
            Write::Delete(Object { name, .. }) => Some(name.clone()),
            Write::AddFinalizer
            | Write::RemoveFinalizer
            | Write::ApplyConfigMap { .. }
            | Write::ApplyHeadlessService { .. }
            | Write::CreateStatefulSet { .. }
            | Write::ApplyRoutingService { .. }
            | Write::SetReplicas { .. } => None,
        };
        case.plan().writes.iter().filter_map(name).collect()
    }

    #[test]
    fn what_nothing_names_is_removed_after_the_route_is_right_and_before_anything_is_created() {
        let case = engine("a").whole(0).serving(2).at(Stable).unrouted();
        assert_eq!(deleted(&case), ["a-g0", "a-g0-hl", "a-g0-config"]);
        assert_eq!(case.plan().writes[0], route_to(2));
        let creating = engine("a").whole(0).serving(2).counting(Creating, 3, 2, None);
        assert_eq!(deleted(&creating), ["a-g0", "a-g0-hl", "a-g0-config"]);
        assert_eq!(
            creating.plan().writes.last(),
            Some(&Write::CreateStatefulSet { generation: 3 })
        );
    }

    #[test]
    fn what_status_or_route_name_stays() {
        assert_eq!(deleted(&engine("a").whole(1).serving(2).at(Draining)), [""; 0]);
        let routed = engine("a").whole(0).serving(2).at(Stable).routed(0);
        assert_eq!(deleted(&routed), [""; 0]);
        let routed_by_others = engine("a").whole(0).serving(2).at(Stable).routed(0);
        let routed_by_others = routed_by_others.routing(|routing| routing.meta.owned = false);
        assert_eq!(deleted(&routed_by_others), [""; 0]);
    }

    #[test]
    fn nothing_as_new_as_the_status_is_touched() {
        let above = engine("a").serving(2).whole(3).counting(Stable, 2, 2, None);
        assert_eq!(deleted(&above), [""; 0]);
    }

    #[test]
    fn what_is_not_ours_stays() {
        let case = engine("a")
            .whole(0)
            .serving(2)
            .at(Stable)
            .set(0, |set| set.meta.owned = false);
        assert_eq!(deleted(&case), ["a-g0-hl", "a-g0-config"]);
    }

    #[test]
    fn one_pass_deletes_only_so_many() {
        let many = (0..40).fold(engine("a"), Case::whole).serving(40).at(Stable);
        assert_eq!(deleted(&many).len(), BUDGET);
        assert_eq!(many.reported().plan().look_again, Some(BACKLOG_DELAY));
        let few = (0..33).fold(engine("a"), Case::whole).serving(40).at(Stable);
        assert_eq!(few.reported().plan().look_again, None);
    }

    #[test]
    fn a_pass_that_starts_a_generation_sweeps_nothing() {
        assert_eq!(
            deleted(&engine("a").whole(0).serving(2).at(Stable).wants("new")),
            [""; 0]
        );
    }
}
