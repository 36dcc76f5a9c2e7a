//! Which changes trigger a reconcile of an instance: of the instance, of an object that it owns, or of the engines that
//! reference it. The Secret that it references does too, through [`WatchedCredentials`](crate::caches::WatchedCredentials).

use std::sync::Arc;

use firebolt_api::{FireboltEngine, FireboltInstance};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler, Watched};
use firebolt_runtime::queue::{PendingSet, Priority};

use crate::caches::{ENGINES_BY_INSTANCE, by_instance};

/// A change of the instance itself.
pub(crate) fn of_instance(pending: &Arc<PendingSet<ObjectKey>>) -> impl EventHandler<FireboltInstance> + Clone + use<> {
    let pending = Arc::clone(pending);
    move |change: &Change<FireboltInstance>| {
        if let Some(instance) = change.key() {
            pending.add(instance, Priority::Normal);
        }
    }
}

/// A change of an object that an instance owns or owned.
pub(crate) fn of_child<K: Watched>(pending: &Arc<PendingSet<ObjectKey>>) -> impl EventHandler<K> + Clone + use<K> {
    let pending = Arc::clone(pending);
    move |change: &Change<K>| {
        for instance in change.values(by_instance()).into_iter().flatten() {
            pending.add(instance, Priority::Normal);
        }
    }
}

/// An engine that is created, deleted, or references another instance than before.
pub(crate) fn of_engine(pending: &Arc<PendingSet<ObjectKey>>) -> impl EventHandler<FireboltEngine> + Clone + use<> {
    let pending = Arc::clone(pending);
    move |change: &Change<FireboltEngine>| {
        let references = change.values(ENGINES_BY_INSTANCE);
        if references[0] != references[1] {
            for instance in references.into_iter().flatten() {
                pending.add(instance, Priority::Normal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use firebolt_api::key::Label;
    use firebolt_runtime::informer::Guarded;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: Watched>(name: &str, labels: &Value, body: Value) -> Arc<Guarded<K>> {
        let mut object = body;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        object["metadata"] = json!({ "name": name, "namespace": "n", "labels": labels });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn engine(spec: &Value) -> Arc<Guarded<FireboltEngine>> {
        object("e", &json!({}), json!({ "spec": spec }))
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
    async fn an_instance_is_triggered_by_any_change_of_itself() {
        let pending = open_set();
        let handler = of_instance(&pending);
        let instance = Some(object(
            "i",
            &json!({}),
            json!({ "spec": { "metadata": {}, "gateway": {} } }),
        ));
        for (before, after) in [
            (None, instance.clone()),
            (instance.clone(), instance.clone()),
            (instance, None),
        ] {
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, names(["i"]));
        }
    }

    #[tokio::test]
    async fn an_owned_object_triggers_its_owner_before_and_now() {
        let pending = open_set();
        let handler = of_child::<Pod>(&pending);
        let pod = |instance: &str| Some(object("p", &json!({ Label::Instance.key(): instance }), json!({})));
        handler(&Change {
            before: pod("i"),
            after: pod("j"),
        });
        assert_eq!(triggered(&pending).await, names(["i", "j"]));
    }

    #[tokio::test]
    async fn an_engine_triggers_an_instance_only_when_its_reference_changes() {
        let pending = open_set();
        let handler = of_engine(&pending);
        let [small, large, elsewhere, unreadable] = [
            json!({ "instanceRef": "i", "replicas": 1 }),
            json!({ "instanceRef": "i", "replicas": 9 }),
            json!({ "instanceRef": "j", "replicas": 1 }),
            json!({ "instanceRef": "i", "replicas": "many" }),
        ]
        .map(|spec| Some(engine(&spec)));
        for (before, after, expected) in [
            (&None, &small, names(["i"])),
            (&small, &large, names([])),
            (&unreadable, &small, names(["i"])),
            (&small, &elsewhere, names(["i", "j"])),
            (&small, &None, names(["i"])),
        ] {
            handler(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(triggered(&pending).await, expected);
        }
    }
}
