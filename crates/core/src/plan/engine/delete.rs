//! The end of a generation, and the end of an engine.

use std::time::Duration;

use firebolt_api::condition::EngineReason;

use super::input::Input;
use super::output::{Kind, Object, Plan, Write};
use super::{has_finalizer, status};
use crate::plan::{Event, Meta};

/// How long the clean-up waits before it looks again at what is still going.
const GOING: Duration = Duration::from_secs(5);

/// Deletes the objects of a generation that are ours and not going already, the StatefulSet first: a pod without its
/// ConfigMap could not restart.
pub(super) fn generation(input: &Input, number: i64) -> Vec<Write> {
    let objects = objects_of(input, number);
    let ours = objects.iter().filter(|(_, _, meta)| meta.owned && !meta.terminating);
    ours.map(delete).collect()
}

type Seen<'a> = (Kind, String, &'a Meta);

fn objects_of<'a>(input: &Input<'a>, number: i64) -> Vec<Seen<'a>> {
    let names = input.names();
    let seen = input.generation(number);
    let set = seen
        .stateful_set
        .as_ref()
        .map(|set| (Kind::StatefulSet, names.stateful_set(number), &set.meta));
    let headless = seen.headless_service.as_ref();
    let headless = headless.map(|child| (Kind::Service, names.headless_service(number), &child.meta));
    let config_map = seen.config_map.as_ref();
    let config_map = config_map.map(|child| (Kind::ConfigMap, names.config_map(number), &child.meta));
    [set, headless, config_map].into_iter().flatten().collect()
}

fn delete((kind, name, meta): &Seen) -> Write {
    Write::Delete(Object {
        kind: *kind,
        name: name.clone(),
        uid: meta.uid.clone(),
    })
}

/// The engine is being deleted: first the route and the pods go, then what their pods needed, then the
/// finalizer. Each is awaited, but an object that somebody else's finalizer holds is reported and left behind.
pub(super) fn plan(input: &Input) -> Plan {
    let nothing = Plan {
        writes: Vec::new(),
        status: None,
        events: Vec::new(),
        look_again: None,
    };
    if !has_finalizer(input) {
        return nothing;
    }
    let objects = owned_objects(input);
    let (first, then): (Vec<&Seen>, Vec<&Seen>) = objects.iter().partition(|(kind, name, _)| match kind {
        Kind::StatefulSet => true,
        Kind::Service => *name == input.names().routing_service(),
        Kind::ConfigMap => false,
    });
    let held = held_by_others(&objects);
    let events: Vec<Event> = held
        .iter()
        .map(|held| Event::warning("ExternalFinalizerOnOwnedResource", held))
        .collect();
    let stage = [first, then]
        .into_iter()
        .find(|stage| stage.iter().any(|seen| awaited(seen)));
    if let Some(stage) = stage {
        let writes = stage
            .into_iter()
            .filter(|(_, _, meta)| !meta.terminating)
            .map(delete)
            .collect();
        let status = status::deleting(input, EngineReason::ExternalFinalizer, &held);
        return Plan {
            writes,
            status,
            events,
            look_again: Some(GOING),
        };
    }
    // Told before the finalizer goes: afterwards there is no object left to tell it on.
    match status::deleting(input, EngineReason::ExternalFinalizer, &held) {
        Some(status) => Plan {
            status: Some(status),
            events,
            look_again: Some(Duration::ZERO),
            ..nothing
        },
        None => Plan {
            writes: vec![Write::RemoveFinalizer],
            events,
            ..nothing
        },
    }
}

fn owned_objects<'a>(input: &Input<'a>) -> Vec<Seen<'a>> {
    let routing = input.observed.routing.as_ref();
    let routing = routing.map(|routing| (Kind::Service, input.names().routing_service(), &routing.meta));
    let generations = input.observed.generations.keys();
    routing
        .into_iter()
        .chain(generations.flat_map(|&number| objects_of(input, number)))
        .filter(|(_, _, meta)| meta.owned)
        .collect()
}

/// It is still to be deleted, or on its way and nobody else holds it.
fn awaited((_, _, meta): &Seen) -> bool {
    !meta.terminating || meta.foreign_finalizers.is_empty()
}

fn held_by_others(objects: &[Seen]) -> Vec<String> {
    let held = objects.iter().filter(|seen| !awaited(seen));
    held.map(|(kind, name, meta)| {
        let finalizers = meta.foreign_finalizers.join(", ");
        format!("{kind:?} {name} stays behind: the finalizer {finalizers} holds it. Remove that finalizer to free it.")
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
        let name = |write: &Write| match write {
            Write::Delete(object) => object.name.clone(),
            Write::RemoveFinalizer => "finalizer".to_owned(),
            Write::AddFinalizer
            | Write::ApplyConfigMap { .. }
            | Write::ApplyHeadlessService { .. }
            | Write::CreateStatefulSet { .. }
            | Write::ApplyRoutingService { .. }
            | Write::SetReplicas { .. } => unreachable!("an engine that goes creates nothing"),
        };
        case.plan().writes.iter().map(name).collect()
    }

    #[test]
    fn route_and_pods_go_first_then_what_they_needed_then_the_finalizer() {
        let case = deleting(engine("a").whole(0).serving(1).at(Stable));
        assert_eq!(names(&case), ["a-service", "a-g0", "a-g1"]);
        let going = case.unrouted().lost_set(0).set(1, |set| set.meta.terminating = true);
        assert_eq!(names(&going), [""; 0]);
        assert_eq!(going.plan().look_again, Some(GOING));
        let gone = going.lost_set(1);
        assert_eq!(names(&gone), ["a-g0-hl", "a-g0-config", "a-g1-hl", "a-g1-config"]);
        let empty = gone.but(|case| case.observed.generations.clear());
        assert_eq!(names(&empty), ["finalizer"]);
    }

    #[test]
    fn without_our_finalizer_there_is_nothing_to_do_and_none_is_added() {
        let case = deleting(engine("a").serving(0).at(Stable));
        assert_eq!(names(&case.but(|case| case.engine.metadata.finalizers = None)), [""; 0]);
    }

    #[test]
    fn what_is_not_ours_is_not_awaited() {
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
                .contains("Service a-g0-hl stays behind: the finalizer example.com/hold holds it.")
        );
        assert_eq!(held.plan().look_again, Some(Duration::ZERO));
        assert_eq!(held.plan().events[0].reason, "ExternalFinalizerOnOwnedResource");
        let told = held.reported();
        assert_eq!(names(&told), ["finalizer"]);
        assert_eq!(told.plan().events[0].reason, "ExternalFinalizerOnOwnedResource");
    }
}
