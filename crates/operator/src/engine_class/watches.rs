//! What wakes a look at a class: a change of the class, or of which engines refer to it.

use std::sync::Arc;

use firebolt_api::{FireboltEngine, FireboltEngineClass};

use crate::key::ObjectKey;
use crate::queue::{Inbox, Lane};
use crate::watches::{Change, Guarded, Listener, Store, Watched};

/// A change of the class itself.
pub fn of_engine_class(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<FireboltEngineClass> + Clone + use<> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<FireboltEngineClass>| {
        if let Some(class) = change.key() {
            inbox.add(class, Lane::Ordinary);
        }
    }
}

/// An engine that came, went, or moved from one class to another, which concerns both. What else it does is none of the
/// class's business.
pub fn of_engine(
    classes: &Arc<Store<FireboltEngineClass>>,
    inbox: &Arc<Inbox<ObjectKey>>,
) -> impl Listener<FireboltEngine> + Clone + use<> {
    let (classes, inbox) = (Arc::clone(classes), Arc::clone(inbox));
    move |change: &Change<FireboltEngine>| {
        let sides = [&change.before, &change.after];
        let named = sides.map(|engine| FireboltEngine::class(engine.as_ref()?));
        if named[0] != named[1] {
            for class in named.into_iter().flatten() {
                inbox.add(class, Lane::Ordinary);
            }
        }
        let unreadable = sides.map(|engine| engine.as_ref().is_some_and(|engine| engine.0.is_err()));
        if unreadable[0] != unreadable[1] {
            wake_those_held_up(change, &classes, &inbox);
        }
    }
}

/// An engine that cannot be read holds up the deletion of every class in its namespace.
fn wake_those_held_up(change: &Change<FireboltEngine>, classes: &Store<FireboltEngineClass>, inbox: &Inbox<ObjectKey>) {
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
            inbox.add(key, Lane::Ordinary);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::watches::Family;

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

    fn open_inbox() -> Arc<Inbox<ObjectKey>> {
        let inbox = Inbox::default();
        inbox.open();
        Arc::new(inbox)
    }

    async fn heard(inbox: &Inbox<ObjectKey>) -> BTreeSet<String> {
        // Something is always there, so that this never waits.
        inbox.add(ObjectKey::new("n", "-"), Lane::Ordinary);
        let heard = inbox.take().await.into_keys().map(|key| key.name);
        heard.filter(|name| name != "-").collect()
    }

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(str::to_owned).into()
    }

    #[tokio::test]
    async fn a_class_is_woken_by_any_change_of_itself() {
        let inbox = open_inbox();
        let listener = of_engine_class(&inbox);
        let class = Some(class(json!({ "name": "c" })));
        for (before, after) in [(None, class.clone()), (class.clone(), class.clone()), (class, None)] {
            listener(&Change { before, after });
            assert_eq!(heard(&inbox).await, names(["c"]));
        }
    }

    #[tokio::test]
    async fn an_engine_wakes_the_classes_that_it_comes_to_and_leaves_and_no_others() {
        let inbox = open_inbox();
        let classes = Arc::new(Store::of(Family::Root));
        classes.put(class(json!({ "name": "bystander" })));
        classes.put(class(
            json!({ "name": "leaving", "deletionTimestamp": "2026-11-16T12:00:00Z" }),
        ));
        let listener = of_engine(&classes, &inbox);
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
            listener(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(heard(&inbox).await, expected, "{before:?} to {after:?}");
        }
    }
}
