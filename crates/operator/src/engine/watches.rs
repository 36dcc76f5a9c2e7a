//! What wakes a look at an engine: a change of the engine, of what it owns, or of the class or instance that it names.

use std::sync::Arc;

use firebolt_api::key::Annotation;
use firebolt_api::{EnginePhase, FireboltEngine, FireboltEngineClass, FireboltInstance};
use firebolt_core::plan::engine::WAKE_TTL;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::key::ObjectKey;
use crate::queue::{Inbox, Lane};
use crate::watches::{Change, Family, Guarded, Listener, Store, Watched};

/// A change of the engine itself. Somebody waits behind a request to wake, so that is urgent; and so is every phase of a
/// stop that the request has to wait for. A stamp that was left behind long ago is not: after a restart, every engine
/// that was ever woken would be in the way of the next.
pub fn of_engine(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<FireboltEngine> + Clone + use<> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<FireboltEngine>| {
        let (before, after) = (readable(change.before.as_ref()), readable(change.after.as_ref()));
        let Some(key) = change.key() else { return };
        let new = before.and_then(wake) != after.and_then(wake);
        let waits =
            after.is_some_and(|engine| engine.spec.replicas == 0) && before.and_then(phase) != after.and_then(phase);
        let lane = if (new || waits) && after.and_then(wake).is_some_and(is_fresh) {
            Lane::Urgent
        } else {
            Lane::Ordinary
        };
        inbox.add(key, lane);
    }
}

fn wake(engine: &FireboltEngine) -> Option<&str> {
    let stamp = engine.annotations().get(Annotation::WakeRequested.key())?;
    Some(stamp.as_str())
}

fn phase(engine: &FireboltEngine) -> Option<EnginePhase> {
    engine.status.as_ref()?.phase
}

/// Whether the request may be honoured. Which clock is off is for the decision to say.
fn is_fresh(stamp: &str) -> bool {
    let age = |stamp: Timestamp| Timestamp::now().duration_since(stamp);
    let ttl = SignedDuration::try_from(WAKE_TTL).unwrap_or(SignedDuration::MAX);
    stamp.parse().is_ok_and(|stamp| age(stamp) < ttl)
}

/// A change of an object that an engine owns, or did.
pub fn of_child<K: Watched>(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<K> + Clone + use<K> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<K>| {
        for engine in change.owners(Family::OfEngines) {
            inbox.add(engine, Lane::Ordinary);
        }
    }
}

/// A change of a class, as far as engines look at it.
pub fn of_engine_class(
    engines: &Arc<Store<FireboltEngine>>,
    inbox: &Arc<Inbox<ObjectKey>>,
) -> impl Listener<FireboltEngineClass> + Clone + use<> {
    let (engines, inbox) = (Arc::clone(engines), Arc::clone(inbox));
    move |change: &Change<FireboltEngineClass>| {
        // Not its status: whether it can be used is found out from its specification.
        let matters = |class: &FireboltEngineClass| (class.spec.clone(), class.metadata.uid.clone());
        let seen = [&change.before, &change.after].map(|class| readable(class.as_ref()).map(matters));
        if seen[0] != seen[1] || seen[0].is_none() {
            let Some(class) = change.key() else { return };
            for engine in engines.of_class(&class) {
                inbox.add(ObjectKey::new(&class.namespace, engine), Lane::Ordinary);
            }
        }
    }
}

/// A change of an instance, as far as engines look at it.
pub fn of_instance(
    engines: &Arc<Store<FireboltEngine>>,
    inbox: &Arc<Inbox<ObjectKey>>,
) -> impl Listener<FireboltInstance> + Clone + use<> {
    let (engines, inbox) = (Arc::clone(engines), Arc::clone(inbox));
    move |change: &Change<FireboltInstance>| {
        let matters = |instance: &FireboltInstance| {
            let endpoint = instance.status.as_ref().map(|status| status.metadata_endpoint.clone());
            // Engines may not read them.
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
        let seen = [&change.before, &change.after].map(|instance| readable(instance.as_ref()).map(matters));
        if seen[0] != seen[1] || seen[0].is_none() {
            let Some(instance) = change.key() else { return };
            for engine in engines.belonging_to(&instance) {
                inbox.add(ObjectKey::of(&*engine), Lane::Ordinary);
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

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: Watched>(name: &str, metadata: &Value, body: &Value) -> Arc<Guarded<K>> {
        let mut metadata = metadata.clone();
        metadata["name"] = json!(name);
        metadata["namespace"] = json!("n");
        let mut object = json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata });
        object
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        Arc::new(serde_json::from_value(object).unwrap())
    }

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
        let store = Arc::new(Store::of(Family::Root));
        for (name, spec) in [
            ("a", of("i", Some("c"))),
            ("b", of("j", Some("c"))),
            ("d", of("i", None)),
        ] {
            store.put(engine(name, &spec, None));
        }
        store
    }

    fn open_inbox() -> Arc<Inbox<ObjectKey>> {
        let inbox = Inbox::default();
        inbox.open();
        Arc::new(inbox)
    }

    async fn heard(inbox: &Inbox<ObjectKey>) -> BTreeMap<String, Lane> {
        // Something is always there, so that this never waits.
        inbox.add(ObjectKey::new("n", "-"), Lane::Ordinary);
        let heard = inbox.take().await.into_iter().map(|(key, lane)| (key.name, lane));
        heard.filter(|(name, _)| name != "-").collect()
    }

    fn ordinary(names: &[&str]) -> BTreeMap<String, Lane> {
        names.iter().map(|name| ((*name).to_owned(), Lane::Ordinary)).collect()
    }

    #[tokio::test]
    async fn a_new_request_to_wake_is_urgent_and_an_old_one_is_not() {
        let inbox = open_inbox();
        let listener = of_engine(&inbox);
        let spec = of("i", None);
        let ago = |seconds| (Timestamp::now() - SignedDuration::from_secs(seconds)).to_string();
        let stamps = [
            None,
            Some(ago(1)),
            Some(ago(0)),
            Some(ago(300)),
            Some("soon".to_owned()),
        ];
        let [plain, first, second, expired, malformed] = stamps.map(|wake| Some(engine("a", &spec, wake.as_deref())));
        for (before, after, lane) in [
            (&None, &plain, Lane::Ordinary),
            (&plain, &first, Lane::Urgent),
            (&first, &first, Lane::Ordinary),
            (&first, &second, Lane::Urgent),
            (&second, &plain, Lane::Ordinary),
            (&None, &first, Lane::Urgent),
            (&first, &None, Lane::Ordinary),
            (&None, &expired, Lane::Ordinary),
            (&first, &expired, Lane::Ordinary),
            (&first, &malformed, Lane::Ordinary),
        ] {
            listener(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(heard(&inbox).await, BTreeMap::from([("a".to_owned(), lane)]));
        }
    }

    #[tokio::test]
    async fn a_request_that_waits_for_the_end_of_a_stop_makes_its_phases_urgent() {
        let inbox = open_inbox();
        let listener = of_engine(&inbox);
        let in_phase = |phase: &str, replicas: i32, stamp: &str| {
            let annotations = json!({ Annotation::WakeRequested.key(): stamp });
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
        for (phases, replicas, stamp, lane) in [
            (["draining", "cleaning"], 0, fresh.as_str(), Lane::Urgent),
            (["cleaning", "stopped"], 0, &fresh, Lane::Urgent),
            (["stopped", "stopped"], 0, &fresh, Lane::Ordinary),
            (["cleaning", "stopped"], 0, old, Lane::Ordinary),
            (["creating", "switching"], 2, &fresh, Lane::Ordinary),
        ] {
            let [before, after] = phases.map(|phase| in_phase(phase, replicas, stamp));
            listener(&Change { before, after });
            assert_eq!(
                heard(&inbox).await,
                BTreeMap::from([("a".to_owned(), lane)]),
                "{phases:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_class_wakes_exactly_the_engines_that_name_it() {
        let inbox = open_inbox();
        let listener = of_engine_class(&engines(), &inbox);
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
            (None, plain.clone(), ordinary(&["a", "b"])),
            (plain.clone(), edited, ordinary(&["a", "b"])),
            (plain.clone(), counted, ordinary(&[])),
            (plain, None, ordinary(&["a", "b"])),
        ] {
            listener(&Change { before, after });
            assert_eq!(heard(&inbox).await, expected);
        }
    }

    #[tokio::test]
    async fn an_instance_wakes_its_engines_when_they_can_use_it_or_no_longer() {
        let inbox = open_inbox();
        let listener = of_instance(&engines(), &inbox);
        let instance = |endpoint: &str, phase: &str| {
            let spec = json!({ "id": "01J", "metadata": {}, "gateway": {} });
            let status = json!({ "metadataEndpoint": endpoint, "phase": phase });
            Some(object("i", &json!({}), &json!({ "spec": spec, "status": status })))
        };
        for (before, after, expected) in [
            (
                instance("", "Provisioning"),
                instance("m:7000", "Provisioning"),
                ordinary(&["a", "d"]),
            ),
            (
                instance("m:7000", "Provisioning"),
                instance("m:7000", "Ready"),
                ordinary(&[]),
            ),
            (instance("m:7000", "Ready"), None, ordinary(&["a", "d"])),
        ] {
            listener(&Change { before, after });
            assert_eq!(heard(&inbox).await, expected);
        }
    }

    #[tokio::test]
    async fn an_instance_wakes_its_engines_when_they_may_read_other_secrets() {
        let inbox = open_inbox();
        let listener = of_instance(&engines(), &inbox);
        let instance = |secret: &str| {
            let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": secret } });
            let spec = json!({ "id": "01J", "metadata": { "postgres": postgres }, "gateway": {} });
            Some(object("i", &json!({}), &json!({ "spec": spec })))
        };
        for (after, expected) in [("one", ordinary(&[])), ("other", ordinary(&["a", "d"]))] {
            let (before, after) = (instance("one"), instance(after));
            listener(&Change { before, after });
            assert_eq!(heard(&inbox).await, expected);
        }
    }

    #[tokio::test]
    async fn a_child_wakes_the_engine_that_has_it_and_the_one_that_had_it() {
        let inbox = open_inbox();
        let listener = of_child::<ConfigMap>(&inbox);
        let child = |engine: &str| {
            let labels = json!({ firebolt_api::key::Label::Engine.key(): engine });
            Some(object("x", &json!({ "labels": labels }), &json!({})))
        };
        listener(&Change {
            before: child("a"),
            after: child("b"),
        });
        assert_eq!(heard(&inbox).await, ordinary(&["a", "b"]));
    }
}
