//! Which changes trigger a reconcile of a class: of the [class](crate::triggers::of_object), or of the engines that reference it.

use std::sync::Arc;

use firebolt_api::{FireboltEngine, FireboltEngineClass};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler, Guarded, Store};
use firebolt_runtime::queue::{PendingSet, Priority};

use crate::caches::ENGINES_BY_CLASS;

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
    use serde_json::{Value, json};

    use super::*;
    use crate::triggers::fixture::{normal, object, open_set, triggered};

    fn engine(spec: &Value) -> Arc<Guarded<FireboltEngine>> {
        object("e", &json!({}), &json!({ "spec": spec }))
    }

    fn class(name: &str, metadata: &Value) -> Arc<Guarded<FireboltEngineClass>> {
        object(name, metadata, &json!({ "spec": { "template": {} } }))
    }

    #[tokio::test]
    async fn an_engine_triggers_the_classes_of_its_old_and_new_reference_and_no_others() {
        let pending = open_set();
        let classes = Arc::new(Store::new([]));
        classes.put(class("bystander", &json!({})));
        classes.put(class(
            "leaving",
            &json!({ "deletionTimestamp": "2026-11-16T12:00:00Z" }),
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
            (&None, &small, normal(&["c"])),
            (&small, &large, normal(&[])),
            (&small, &elsewhere, normal(&["c", "d"])),
            (&small, &unbound, normal(&["c"])),
            (&unbound, &small, normal(&["c"])),
            (&small, &None, normal(&["c"])),
            (&None, &unbound, normal(&[])),
            (&unbound, &unreadable, normal(&["leaving"])),
            (&unreadable, &small, normal(&["c", "leaving"])),
            (&unreadable, &unreadable, normal(&[])),
            (&unreadable, &None, normal(&["leaving"])),
        ] {
            handler(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(triggered(&pending).await, expected, "{before:?} to {after:?}");
        }
    }
}
