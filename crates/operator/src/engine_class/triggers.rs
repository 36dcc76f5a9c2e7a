//! Which changes trigger a reconcile of a class: of the class, or of the engines that reference it.

use std::sync::Arc;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler, Guarded, Store};
use firebolt_runtime::queue::{PendingSet, Priority};

use crate::caches::ENGINES_BY_CLASS;

/// A change of the class itself.
pub(crate) fn of_engine_class(
    pending: &Arc<PendingSet<ObjectKey>>,
) -> impl EventHandler<FireboltEngineClass> + Clone + use<> {
    let pending = Arc::clone(pending);
    move |change: &Change<FireboltEngineClass>| {
        if let Some(class) = change.key() {
            pending.add(class, Priority::Normal);
        }
    }
}

/// An engine that is created, deleted, or references another class than before, which triggers both.
pub(crate) fn of_engine(
    classes: &Arc<Store<FireboltEngineClass>>,
    pending: &Arc<PendingSet<ObjectKey>>,
) -> impl EventHandler<FireboltEngine> + Clone + use<> {
    let (classes, pending) = (Arc::clone(classes), Arc::clone(pending));
    move |change: &Change<FireboltEngine>| {
        let references = change.values(ENGINES_BY_CLASS);
        if references[0] != references[1] {
            for class in references.into_iter().flatten() {
                pending.add(class, Priority::Normal);
            }
        }
        let unreadable =
            [&change.before, &change.after].map(|engine| engine.as_ref().is_some_and(|engine| engine.0.is_err()));
        if unreadable[0] != unreadable[1] {
            trigger_deleted(change, &classes, &pending);
        }
    }
}

/// An engine that cannot be read blocks the deletion of every class in its namespace.
fn trigger_deleted(
    change: &Change<FireboltEngine>,
    classes: &Store<FireboltEngineClass>,
    pending: &PendingSet<ObjectKey>,
) {
    let Some(ObjectKey { namespace, .. }) = change.key() else {
        return;
    };
    let is_deleted = |class: &Guarded<FireboltEngineClass>| {
        let class = class.0.as_ref();
        class.is_ok_and(|class| class.metadata.deletion_timestamp.is_some())
    };
    for class in classes.all().iter().filter(|class| is_deleted(class)) {
        let key = ObjectKey::of(&**class);
        if key.namespace == namespace {
            pending.add(key, Priority::Normal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use firebolt_runtime::informer::Watched;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: Watched>(mut metadata: Value, body: Value) -> Arc<Guarded<K>> {
        let mut object = body;
        metadata["namespace"] = json!("n");
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        object["metadata"] = metadata;
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn engine(spec: &Value) -> Arc<Guarded<FireboltEngine>> {
        object(json!({ "name": "e" }), json!({ "spec": spec }))
    }

    fn class(metadata: Value) -> Arc<Guarded<FireboltEngineClass>> {
        object(metadata, json!({ "spec": { "template": {} } }))
    }

    fn open_set() -> Arc<PendingSet<ObjectKey>> {
        let pending = PendingSet::default();
        pending.open();
        Arc::new(pending)
    }

    async fn triggered(pending: &PendingSet<ObjectKey>) -> BTreeSet<String> {
        // Something is always there, so that this never waits.
        pending.add(ObjectKey::new("n", "-"), Priority::Normal);
        let triggered = pending.take().await.into_keys().map(|key| key.name);
        triggered.filter(|name| name != "-").collect()
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[tokio::test]
    async fn a_class_is_triggered_by_any_change_of_itself() {
        let pending = open_set();
        let handler = of_engine_class(&pending);
        let class = Some(class(json!({ "name": "c" })));
        for (before, after) in [(None, class.clone()), (class.clone(), class.clone()), (class, None)] {
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, names(["c"]));
        }
    }

    #[tokio::test]
    async fn an_engine_triggers_the_classes_of_its_old_and_new_reference_and_no_others() {
        let pending = open_set();
        let classes = Arc::new(Store::new([]));
        classes.put(class(json!({ "name": "bystander" })));
        classes.put(class(
            json!({ "name": "leaving", "deletionTimestamp": "2026-11-16T12:00:00Z" }),
        ));
        let handler = of_engine(&classes, &pending);
        let [small, large, elsewhere, unbound, unreadable] = [
            json!({ "instanceRef": "i", "replicas": 1, "engineClassRef": "c" }),
            json!({ "instanceRef": "i", "replicas": 9, "engineClassRef": "c" }),
            json!({ "instanceRef": "i", "replicas": 1, "engineClassRef": "d" }),
            json!({ "instanceRef": "i", "replicas": 1 }),
            json!({ "instanceRef": "i", "replicas": "many", "engineClassRef": "c" }),
        ]
        .map(|spec| Some(engine(&spec)));
        for (before, after, expected) in [
            (&None, &small, names(["c"])),
            (&small, &large, names([])),
            (&small, &elsewhere, names(["c", "d"])),
            (&small, &unbound, names(["c"])),
            (&unbound, &small, names(["c"])),
            (&small, &None, names(["c"])),
            (&None, &unbound, names([])),
            (&unbound, &unreadable, names(["leaving"])),
            (&unreadable, &small, names(["c", "leaving"])),
            (&unreadable, &unreadable, names([])),
            (&unreadable, &None, names(["leaving"])),
        ] {
            handler(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(triggered(&pending).await, expected, "{before:?} to {after:?}");
        }
    }
}
