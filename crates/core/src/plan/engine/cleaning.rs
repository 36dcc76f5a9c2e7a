//! Cleaning: the old generation is deleted.

use firebolt_api::EnginePhase;

use super::delete;
use super::input::Input;
use super::phase::{Transition, repair_serving, undo_switch};
use super::progress::Progress;

pub(super) fn step(input: &Input, before: Progress) -> Transition {
    let Some(old) = before.draining else {
        return Transition::to(
            before.finished(input.replicas()),
            "There is no old generation to delete.",
        );
    };
    if let Some(undone) = undo_switch(input, before, old) {
        return undone;
    }
    if input.routed_to() == Some(old) {
        // The route was moved back by another client, so queries may have arrived since they were counted. The phase is
        // persisted first and the repair follows in draining: in the opposite order, a crash in between would end in a
        // delete.
        let why =
            format!("The routing Service was switched back to generation {old}, which may be running queries again.");
        return Transition::to(before.at(EnginePhase::Draining), why);
    }
    let mut writes = repair_serving(input, before);
    writes.extend(delete::generation(input, old));
    let result = if input.generation(before.current).has_no_replicas() {
        "The engine is stopped".to_owned()
    } else {
        format!("Generation {} is serving queries", before.current)
    };
    Transition {
        writes,
        ..Transition::to(
            before.finished(input.replicas()),
            format!("{result}; deleted generation {old}."),
        )
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::{Cleaning, Creating, Draining, Stable, Stopped};

    use crate::plan::engine::fixture::{Case, engine};
    use crate::plan::engine::{DeletedObject, EngineObjectKind, EngineWrite, GateCause};

    fn cleaning() -> Case {
        engine("a").complete(0).serving(1).at(Cleaning)
    }

    fn delete(kind: EngineObjectKind, name: &str, uid: &str) -> EngineWrite {
        EngineWrite::Delete(DeletedObject {
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    }

    #[test]
    fn the_old_generation_is_deleted_by_uid_and_the_rollout_ends() {
        let case = cleaning();
        let expected = [
            delete(EngineObjectKind::StatefulSet, "a-g0", "set-0"),
            delete(EngineObjectKind::Service, "a-g0-hl", "headless-0"),
            delete(EngineObjectKind::ConfigMap, "a-g0-config", "config-0"),
        ];
        assert_eq!(case.plan().writes, expected);
        let status = case.status();
        assert_eq!((status.phase, status.draining_generation), (Some(Stable), None));
        assert_eq!(case.gate(GateCause::InstanceNotReady).plan().writes, expected);
        let stopped = engine("a").replicas(0).complete(0).serving(1).at(Cleaning);
        assert_eq!(stopped.status().phase, Some(Stopped));
    }

    #[test]
    fn pods_that_the_stateful_set_left_behind_are_deleted_by_uid() {
        let expected = [
            delete(EngineObjectKind::Pod, "a-g0-0", "pod-0-0"),
            delete(EngineObjectKind::Pod, "a-g0-1", "pod-0-1"),
            delete(EngineObjectKind::Service, "a-g0-hl", "headless-0"),
            delete(EngineObjectKind::ConfigMap, "a-g0-config", "config-0"),
        ];
        assert_eq!(cleaning().orphaned(0).plan().writes, expected);
    }

    #[test]
    fn terminating_and_foreign_objects_are_not_deleted() {
        let case = cleaning()
            .set(0, |set| set.meta.terminating = true)
            .config(0, |config| config.meta.owned = false);
        assert_eq!(
            case.plan().writes,
            [delete(EngineObjectKind::Service, "a-g0-hl", "headless-0")]
        );
    }

    #[test]
    fn a_routed_generation_is_not_deleted() {
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
