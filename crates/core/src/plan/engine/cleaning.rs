//! Cleaning: the old generation is removed.

use firebolt_api::EnginePhase;

use super::delete;
use super::input::Input;
use super::phase::{Progress, Step, mend, undo_switch};

pub(super) fn step(input: &Input, before: Progress) -> Step {
    let Some(old) = before.draining else {
        return Step::go(
            before.finished(input.replicas()),
            "There is no old generation to remove.",
        );
    };
    if let Some(undone) = undo_switch(input, before, old) {
        return undone;
    }
    if input.routed_to() == Some(old) {
        // Somebody moved the route back, so queries may have come since they were counted. The phase goes first and the
        // repair follows in draining: the other way round, a crash in between would end in a delete.
        let why = format!("The routing Service was moved back to generation {old}, which may have queries again.");
        return Step::go(before.at(EnginePhase::Draining), why);
    }
    let mut writes = mend(input, before);
    writes.extend(delete::generation(input, old));
    Step {
        writes,
        ..Step::go(
            before.finished(input.replicas()),
            format!("Generation {old} is removed."),
        )
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Stopped};

    use crate::plan::engine::fixture::{Case, engine};
    use crate::plan::engine::{GateCause, Kind, Object, Write};

    fn cleaning() -> Case {
        engine("a").whole(0).serving(1).at(Cleaning)
    }

    fn delete(kind: Kind, name: &str, uid: &str) -> Write {
        Write::Delete(Object {
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    }

    #[test]
    fn the_old_generation_is_deleted_by_identity_and_the_rollout_ends() {
        let case = cleaning();
        let expected = [
            delete(Kind::StatefulSet, "a-g0", "set-0"),
            delete(Kind::Service, "a-g0-hl", "headless-0"),
            delete(Kind::ConfigMap, "a-g0-config", "config-0"),
        ];
        assert_eq!(case.plan().writes, expected);
        let status = case.status();
        assert_eq!((status.phase, status.draining_generation), (Some(Stable), None));
        assert_eq!(case.gate(GateCause::InstanceNotReady).plan().writes, expected);
        let stopped = engine("a").replicas(0).whole(0).serving(1).at(Cleaning);
        assert_eq!(stopped.status().phase, Some(Stopped));
    }

    #[test]
    fn what_is_going_or_not_ours_is_left_alone() {
        let case = cleaning()
            .set(0, |set| set.meta.terminating = true)
            .config(0, |config| config.meta.owned = false);
        assert_eq!(case.plan().writes, [delete(Kind::Service, "a-g0-hl", "headless-0")]);
    }

    #[test]
    fn a_generation_that_is_routed_to_is_not_deleted() {
        let case = cleaning().routed(0);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.status().phase, Some(Draining));
    }

    #[test]
    fn the_only_generation_that_serves_is_not_deleted() {
        let case = cleaning().lost_set(1);
        assert_eq!(case.plan().writes, []);
        assert_eq!(case.status().phase, Some(Creating));
    }
}
