//! Which changes trigger a reconcile of an engine: of the engine, of an [object that it owns](crate::triggers::of_child), or of
//! the class or instance that it references.

use std::sync::Arc;

use firebolt_api::key::Annotation;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_core::plan::engine::WAKE_TTL;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler, Guarded, Store};
use firebolt_runtime::queue::{PendingSet, Priority};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::phase;
use crate::caches::{ENGINES_BY_CLASS, ENGINES_BY_INSTANCE};

/// A change of the engine itself. A client waits for a wake request, so it is urgent; and so is every phase of a stop that
/// the request has to wait for. An old wake request is not: after a restart, every engine that was ever woken would delay
/// the next one.
pub(crate) fn of_engine(pending: &Arc<PendingSet<ObjectKey>>) -> impl EventHandler<FireboltEngine> + Clone + use<> {
    let pending = Arc::clone(pending);
    move |change: &Change<FireboltEngine>| {
        let (before, after) = (readable(change.before.as_ref()), readable(change.after.as_ref()));
        let Some(key) = change.key() else { return };
        let new = before.and_then(wake) != after.and_then(wake);
        let waits =
            after.is_some_and(|engine| engine.spec.replicas == 0) && before.and_then(phase) != after.and_then(phase);
        let priority = if (new || waits) && after.and_then(wake).is_some_and(is_fresh) {
            Priority::Urgent
        } else {
            Priority::Normal
        };
        pending.add(key, priority);
    }
}

fn wake(engine: &FireboltEngine) -> Option<&str> {
    let request = engine.annotations().get(Annotation::WakeRequested.key())?;
    Some(request.as_str())
}

/// Whether the wake request may be honoured. The plan reports a clock that is off.
fn is_fresh(request: &str) -> bool {
    let age = |requested: Timestamp| Timestamp::now().duration_since(requested);
    let ttl = SignedDuration::try_from(WAKE_TTL).unwrap_or(SignedDuration::MAX);
    request.parse().is_ok_and(|requested| age(requested) < ttl)
}

/// A change of a class that engines depend on.
pub(crate) fn of_engine_class(
    engines: &Arc<Store<FireboltEngine>>,
    pending: &Arc<PendingSet<ObjectKey>>,
) -> impl EventHandler<FireboltEngineClass> + Clone + use<> {
    let (engines, pending) = (Arc::clone(engines), Arc::clone(pending));
    move |change: &Change<FireboltEngineClass>| {
        // Not its status: whether it can be used follows from its spec.
        let relevant = |class: &FireboltEngineClass| (class.spec.clone(), class.metadata.uid.clone());
        let sides = [&change.before, &change.after].map(|class| readable(class.as_ref()).map(relevant));
        if sides[0] != sides[1] || sides[0].is_none() {
            let Some(class) = change.key() else { return };
            for engine in engines.names_by_index(ENGINES_BY_CLASS, &class) {
                pending.add(ObjectKey::new(&class.namespace, engine), Priority::Normal);
            }
        }
    }
}

/// A change of an instance that engines depend on.
pub(crate) fn of_instance(
    engines: &Arc<Store<FireboltEngine>>,
    pending: &Arc<PendingSet<ObjectKey>>,
) -> impl EventHandler<FireboltInstance> + Clone + use<> {
    let (engines, pending) = (Arc::clone(engines), Arc::clone(pending));
    move |change: &Change<FireboltInstance>| {
        let relevant = |instance: &FireboltInstance| {
            let endpoint = instance.status.as_ref().map(|status| status.metadata_endpoint.clone());
            // Engines may not reference this Secret.
            let credentials = instance
                .spec
                .metadata
                .postgres
                .as_ref()
                .map(|postgres| &postgres.credentials_secret_ref.name);
            (
                instance.spec.id.clone(),
                instance.spec.metric_scrape_mode,
                endpoint,
                credentials.cloned(),
            )
        };
        let sides = [&change.before, &change.after].map(|instance| readable(instance.as_ref()).map(relevant));
        if sides[0] != sides[1] || sides[0].is_none() {
            let Some(instance) = change.key() else { return };
            for engine in engines.names_by_index(ENGINES_BY_INSTANCE, &instance) {
                pending.add(ObjectKey::new(&instance.namespace, engine), Priority::Normal);
            }
        }
    }
}

fn readable<K>(object: Option<&Arc<Guarded<K>>>) -> Option<&K> {
    object.and_then(|object| object.0.as_ref().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::caches::engine_store;
    use crate::triggers::fixture::{normal, object, open_set, triggered};

    fn engine(name: &str, spec: &Value, wake: Option<&str>) -> Arc<Guarded<FireboltEngine>> {
        let annotations = wake
            .map(|wake| json!({ Annotation::WakeRequested.key(): wake }))
            .unwrap_or_default();
        object(name, &json!({ "annotations": annotations }), &json!({ "spec": spec }))
    }

    fn of(instance: &str, class: Option<&str>) -> Value {
        json!({ "instanceRef": instance, "engineClassRef": class, "replicas": 1 })
    }

    fn engines() -> Arc<Store<FireboltEngine>> {
        let store = Arc::new(engine_store());
        for (name, spec) in [
            ("a", of("i", Some("c"))),
            ("b", of("j", Some("c"))),
            ("d", of("i", None)),
        ] {
            store.put(engine(name, &spec, None));
        }
        store
    }

    #[tokio::test]
    async fn a_new_wake_request_is_urgent_and_an_old_one_is_not() {
        let pending = open_set();
        let handler = of_engine(&pending);
        let spec = of("i", None);
        let ago = |seconds| (Timestamp::now() - SignedDuration::from_secs(seconds)).to_string();
        let requests = [
            None,
            Some(ago(1)),
            Some(ago(0)),
            Some(ago(300)),
            Some("soon".to_owned()),
        ];
        let [plain, first, second, expired, malformed] = requests.map(|wake| Some(engine("a", &spec, wake.as_deref())));
        for (before, after, priority) in [
            (&None, &plain, Priority::Normal),
            (&plain, &first, Priority::Urgent),
            (&first, &first, Priority::Normal),
            (&first, &second, Priority::Urgent),
            (&second, &plain, Priority::Normal),
            (&None, &first, Priority::Urgent),
            (&first, &None, Priority::Normal),
            (&None, &expired, Priority::Normal),
            (&first, &expired, Priority::Normal),
            (&first, &malformed, Priority::Normal),
        ] {
            handler(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(triggered(&pending).await, BTreeMap::from([("a".to_owned(), priority)]));
        }
    }

    #[tokio::test]
    async fn a_wake_request_that_waits_for_the_end_of_a_stop_makes_its_phases_urgent() {
        let pending = open_set();
        let handler = of_engine(&pending);
        let in_phase = |phase: &str, replicas: i32, request: &str| {
            let annotations = json!({ Annotation::WakeRequested.key(): request });
            let status = json!({ "phase": phase, "currentGeneration": 1, "activeGeneration": 1 });
            let spec = json!({ "instanceRef": "i", "replicas": replicas });
            let body = json!({ "spec": spec, "status": status });
            Some(object::<FireboltEngine>(
                "a",
                &json!({ "annotations": annotations }),
                &body,
            ))
        };
        let (fresh, old) = (Timestamp::now().to_string(), "2026-01-01T00:00:00Z");
        for (phases, replicas, request, priority) in [
            (["draining", "cleaning"], 0, fresh.as_str(), Priority::Urgent),
            (["cleaning", "stopped"], 0, &fresh, Priority::Urgent),
            (["stopped", "stopped"], 0, &fresh, Priority::Normal),
            (["cleaning", "stopped"], 0, old, Priority::Normal),
            (["creating", "switching"], 2, &fresh, Priority::Normal),
        ] {
            let [before, after] = phases.map(|phase| in_phase(phase, replicas, request));
            handler(&Change { before, after });
            assert_eq!(
                triggered(&pending).await,
                BTreeMap::from([("a".to_owned(), priority)]),
                "{phases:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_class_triggers_exactly_the_engines_that_reference_it() {
        let pending = open_set();
        let handler = of_engine_class(&engines(), &pending);
        let class = |spec: Value| Some(object("c", &json!({}), &json!({ "spec": spec })));
        let (plain, edited) = (
            class(json!({ "template": {} })),
            class(json!({ "template": {}, "uiSidecar": true })),
        );
        let counted = Some(object(
            "c",
            &json!({}),
            &json!({ "spec": { "template": {} }, "status": { "boundEngines": 2 } }),
        ));
        for (before, after, expected) in [
            (None, plain.clone(), normal(&["a", "b"])),
            (plain.clone(), edited, normal(&["a", "b"])),
            (plain.clone(), counted, normal(&[])),
            (plain, None, normal(&["a", "b"])),
        ] {
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, expected);
        }
    }

    #[tokio::test]
    async fn an_instance_triggers_its_engines_when_it_becomes_usable_or_unusable() {
        let pending = open_set();
        let handler = of_instance(&engines(), &pending);
        let instance = |endpoint: &str, phase: &str| {
            let spec = json!({ "id": "01J", "metadata": {}, "gateway": {} });
            let status = json!({ "metadataEndpoint": endpoint, "phase": phase });
            Some(object("i", &json!({}), &json!({ "spec": spec, "status": status })))
        };
        for (before, after, expected) in [
            (
                instance("", "Provisioning"),
                instance("m:7000", "Provisioning"),
                normal(&["a", "d"]),
            ),
            (
                instance("m:7000", "Provisioning"),
                instance("m:7000", "Ready"),
                normal(&[]),
            ),
            (instance("m:7000", "Ready"), None, normal(&["a", "d"])),
        ] {
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, expected);
        }
    }

    #[tokio::test]
    async fn an_instance_triggers_its_engines_when_its_credentials_secret_changes() {
        let pending = open_set();
        let handler = of_instance(&engines(), &pending);
        let instance = |secret: &str| {
            let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": secret } });
            let spec = json!({ "id": "01J", "metadata": { "postgres": postgres }, "gateway": {} });
            Some(object("i", &json!({}), &json!({ "spec": spec })))
        };
        for (after, expected) in [("one", normal(&[])), ("other", normal(&["a", "d"]))] {
            let (before, after) = (instance("one"), instance(after));
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, expected);
        }
    }
}
