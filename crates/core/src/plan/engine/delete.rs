//! Deletion of a generation, and deletion of an engine.

use std::time::Duration;

use firebolt_api::key::Finalizer;

use super::cleanup;
use super::input::Input;
use super::output::{DeletedObject, EngineObjectKind, EngineWrite, Plan};
use super::status;
use crate::plan::{EXTERNAL_FINALIZER, Meta, PlannedEvent, has_finalizer};

/// How soon the cleanup checks again for objects that are being deleted.
const GOING: Duration = Duration::from_secs(5);

/// Deletes the objects of a generation that the engine owns and that are not being deleted. The pods come first, because
/// a pod without its ConfigMap could not restart.
pub(super) fn generation(input: &Input, number: i64) -> Vec<EngineWrite> {
    let objects = objects_of(input, number);
    let ours = objects.iter().filter(|(_, _, meta)| meta.owned && !meta.terminating);
    ours.map(delete).collect()
}

type ChildObject<'a> = (EngineObjectKind, String, &'a Meta);

fn objects_of<'a>(input: &Input<'a>, number: i64) -> Vec<ChildObject<'a>> {
    let names = input.names();
    let seen = input.generation(number);
    let set = seen
        .stateful_set
        .as_ref()
        .map(|set| (EngineObjectKind::StatefulSet, names.stateful_set(number), &set.meta));
    let headless = seen.headless_service.as_ref();
    let headless = headless.map(|child| (EngineObjectKind::Service, names.headless_service(number), &child.meta));
    let config_map = seen.config_map.as_ref();
    let config_map = config_map.map(|child| (EngineObjectKind::ConfigMap, names.config_map(number), &child.meta));
    let orphans = seen
        .orphans
        .iter()
        .map(|pod| (EngineObjectKind::Pod, pod.name.clone(), &pod.meta));
    let rest = [headless, config_map].into_iter().flatten();
    set.into_iter().chain(orphans).chain(rest).collect()
}

fn delete((kind, name, meta): &ChildObject) -> EngineWrite {
    EngineWrite::Delete(DeletedObject {
        kind: *kind,
        name: name.clone(),
        uid: meta.uid.clone(),
    })
}

/// The engine is being deleted: first the route and the pods, then the objects that the pods needed, then the
/// finalizer. The plan waits for each deletion, but an object that is blocked by the finalizer of another
/// controller is reported and left behind.
pub(super) fn plan(input: &Input) -> Plan {
    let nothing = Plan::default();
    if !has_finalizer(&input.engine.metadata, Finalizer::Engine.key()) {
        return nothing;
    }
    let objects = owned_objects(input);
    let (first, then): (Vec<&ChildObject>, Vec<&ChildObject>) =
        objects.iter().partition(|(kind, name, _)| match kind {
            EngineObjectKind::StatefulSet | EngineObjectKind::Pod => true,
            EngineObjectKind::Service => *name == input.names().routing_service(),
            EngineObjectKind::ConfigMap => false,
        });
    let held = held_by_others(&objects);
    let mut events: Vec<PlannedEvent> = held
        .iter()
        .map(|held| PlannedEvent::warning(EXTERNAL_FINALIZER, held))
        .collect();
    if let Some((reason, message)) = cleanup::problem(input) {
        events.push(PlannedEvent::warning(<&str>::from(reason), message));
    }
    let stage = [first, then]
        .into_iter()
        .find(|stage| stage.iter().any(|seen| blocks_deletion(seen)));
    if let Some(stage) = stage {
        let writes = stage
            .into_iter()
            .filter(|(_, _, meta)| !meta.terminating)
            .map(delete)
            .collect();
        let status = status::deleting(input, &held);
        return Plan {
            writes,
            status,
            events,
            requeue_after: Some(GOING),
            throttle: None,
        };
    }
    // Reported before the finalizer is removed: afterwards there is no object left to report it on.
    match status::deleting(input, &held) {
        Some(status) => Plan {
            status: Some(status),
            events,
            requeue_after: Some(Duration::ZERO),
            ..nothing
        },
        None => Plan {
            writes: vec![EngineWrite::RemoveFinalizer],
            events,
            ..nothing
        },
    }
}

fn owned_objects<'a>(input: &Input<'a>) -> Vec<ChildObject<'a>> {
    let routing = input.observed.routing.as_ref();
    let routing = routing.map(|routing| {
        (
            EngineObjectKind::Service,
            input.names().routing_service(),
            &routing.meta,
        )
    });
    let generations = input.observed.generations.keys();
    routing
        .into_iter()
        .chain(generations.flat_map(|&number| objects_of(input, number)))
        .filter(|(_, _, meta)| meta.owned)
        .collect()
}

/// It is not deleted yet, or it is being deleted and no other controller blocks that.
fn blocks_deletion((_, _, meta): &ChildObject) -> bool {
    !meta.terminating || meta.foreign_finalizers.is_empty()
}

fn held_by_others(objects: &[ChildObject]) -> Vec<String> {
    let held = objects.iter().filter(|seen| !blocks_deletion(seen));
    held.map(|(kind, name, meta)| {
        let finalizers = meta.foreign_finalizers.join(", ");
        format!(
            "{kind:?} {name} is left behind: the finalizer {finalizers} blocks its deletion. Remove the finalizer to \
             complete the deletion."
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use firebolt_api::EnginePhase::Stable;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::plan::engine::fixture::{Case, engine, now};

    fn deleting(case: Case) -> Case {
        case.but(|case| case.engine.metadata.deletion_timestamp = Some(Time(now())))
    }

    fn names(case: &Case) -> Vec<String> {
        let name = |write: &EngineWrite| match write {
            EngineWrite::Delete(object) => object.name.clone(),
            EngineWrite::RemoveFinalizer => "finalizer".to_owned(),
            EngineWrite::AddFinalizer
            | EngineWrite::ApplyConfigMap { .. }
            | EngineWrite::ApplyHeadlessService { .. }
            | EngineWrite::CreateStatefulSet { .. }
            | EngineWrite::ApplyRoutingService { .. }
            | EngineWrite::SetReplicas { .. } => unreachable!("an engine that is being deleted creates nothing"),
        };
        case.plan().writes.iter().map(name).collect()
    }

    #[test]
    fn route_and_pods_are_deleted_first_then_their_dependencies_then_the_finalizer() {
        let case = deleting(engine("a").complete(0).serving(1).at(Stable));
        assert_eq!(names(&case), ["a-service", "a-g0", "a-g1"]);
        let terminating = case.unrouted().lost_set(0).set(1, |set| set.meta.terminating = true);
        assert_eq!(names(&terminating), [""; 0]);
        assert_eq!(terminating.plan().requeue_after, Some(GOING));
        let gone = terminating.lost_set(1);
        assert_eq!(names(&gone), ["a-g0-hl", "a-g0-config", "a-g1-hl", "a-g1-config"]);
        let empty = gone.but(|case| case.observed.generations.clear());
        assert_eq!(names(&empty), ["finalizer"]);
    }

    #[test]
    fn orphaned_pods_are_deleted_before_their_dependencies_and_awaited() {
        let case = deleting(engine("a").serving(0).at(Stable)).orphaned(0);
        assert_eq!(names(&case), ["a-service", "a-g0-0", "a-g0-1"]);
        let terminating = case.unrouted().but(|case| {
            let orphans = &mut case.observed.generations.get_mut(&0).unwrap().orphans;
            for pod in orphans.iter_mut() {
                pod.meta.terminating = true;
            }
        });
        assert_eq!(names(&terminating), [""; 0]);
        assert_eq!(terminating.plan().requeue_after, Some(GOING));
    }

    #[test]
    fn without_the_finalizer_of_the_operator_nothing_is_written() {
        let case = deleting(engine("a").serving(0).at(Stable));
        assert_eq!(names(&case.but(|case| case.engine.metadata.finalizers = None)), [""; 0]);
    }

    #[test]
    fn foreign_objects_are_not_awaited() {
        let case = deleting(engine("a").serving(0).at(Stable))
            .unrouted()
            .lost_set(0)
            .lost_config(0);
        let foreign = case.but(|case| {
            let headless = case.observed.generations.get_mut(&0).unwrap().headless_service.as_mut();
            headless.unwrap().meta.owned = false;
        });
        assert_eq!(names(&foreign), ["finalizer"]);
    }

    #[test]
    fn a_foreign_finalizer_is_reported_and_then_left_behind() {
        let held = deleting(engine("a").serving(0).at(Stable))
            .unrouted()
            .lost_config(0)
            .lost_set(0)
            .but(|case| {
                let headless = case
                    .observed
                    .generations
                    .get_mut(&0)
                    .unwrap()
                    .headless_service
                    .as_mut()
                    .unwrap();
                headless.meta.terminating = true;
                headless.meta.foreign_finalizers = vec!["example.com/hold".to_owned()];
            });
        assert_eq!(names(&held), [""; 0]);
        let ready = held.ready();
        assert_eq!(ready.reason, "ExternalFinalizer");
        assert!(
            ready
                .message
                .contains("Service a-g0-hl is left behind: the finalizer example.com/hold blocks its deletion.")
        );
        assert_eq!(held.plan().requeue_after, Some(Duration::ZERO));
        assert_eq!(held.plan().events[0].reason, "ExternalFinalizerOnOwnedResource");
        let reported = held.reported();
        assert_eq!(names(&reported), ["finalizer"]);
        assert_eq!(reported.plan().events[0].reason, "ExternalFinalizerOnOwnedResource");
    }
}
