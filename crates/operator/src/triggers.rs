//! Event handlers that more than one controller uses. Those of a single kind are in its own `triggers.rs`.

use std::sync::Arc;

use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler, Index, Watched};
use firebolt_runtime::queue::{PendingSet, Priority};

/// Any change of an object triggers a reconcile of the object itself.
pub(crate) fn of_object<K: Watched>(pending: &Arc<PendingSet<ObjectKey>>) -> impl EventHandler<K> + Clone + use<K> {
    let pending = Arc::clone(pending);
    move |change: &Change<K>| {
        if let Some(object) = change.key() {
            pending.add(object, Priority::Normal);
        }
    }
}

/// Any change of an object triggers a reconcile of its owner, which this index returns, before and after the change.
pub(crate) fn of_child<K: Watched>(
    owner: Index<K>,
    pending: &Arc<PendingSet<ObjectKey>>,
) -> impl EventHandler<K> + Clone + use<K> {
    let pending = Arc::clone(pending);
    move |change: &Change<K>| {
        for owner in change.values(owner).into_iter().flatten() {
            pending.add(owner, Priority::Normal);
        }
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use std::collections::BTreeMap;

    use firebolt_runtime::informer::Guarded;
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn object<K: Watched>(name: &str, metadata: &Value, body: &Value) -> Arc<Guarded<K>> {
        let mut object = body.clone();
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        object["metadata"] = metadata.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("n");
        Arc::new(serde_json::from_value(object).unwrap())
    }

    pub(crate) fn open_set() -> Arc<PendingSet<ObjectKey>> {
        let pending = PendingSet::default();
        pending.open();
        Arc::new(pending)
    }

    /// The names of the objects that were triggered.
    pub(crate) async fn triggered(pending: &PendingSet<ObjectKey>) -> BTreeMap<String, Priority> {
        // Something is always there, so that this never waits.
        pending.add(ObjectKey::new("n", "-"), Priority::Normal);
        let triggered = pending.take().await.into_iter();
        let triggered = triggered.map(|(key, priority)| (key.name, priority));
        triggered.filter(|(name, _)| name != "-").collect()
    }

    pub(crate) fn normal(names: &[&str]) -> BTreeMap<String, Priority> {
        let names = names.iter();
        names.map(|name| ((*name).to_owned(), Priority::Normal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltInstance;
    use firebolt_api::key::Label;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::fixture::{normal, object, open_set, triggered};
    use super::*;
    use crate::caches::by_instance;

    #[tokio::test]
    async fn an_object_is_triggered_by_any_change_of_itself() {
        let pending = open_set();
        let handler = of_object::<FireboltInstance>(&pending);
        let spec = json!({ "spec": { "metadata": {}, "gateway": {} } });
        let instance = Some(object("i", &json!({}), &spec));
        for (before, after) in [
            (None, instance.clone()),
            (instance.clone(), instance.clone()),
            (instance, None),
        ] {
            handler(&Change { before, after });
            assert_eq!(triggered(&pending).await, normal(&["i"]));
        }
    }

    #[tokio::test]
    async fn an_owned_object_triggers_its_owner_before_and_now() {
        let pending = open_set();
        let handler = of_child::<Pod>(by_instance(), &pending);
        let pod = |instance: &str| {
            let labels = json!({ "labels": { Label::Instance.key(): instance } });
            Some(object("p", &labels, &json!({})))
        };
        handler(&Change {
            before: pod("i"),
            after: pod("j"),
        });
        assert_eq!(triggered(&pending).await, normal(&["i", "j"]));
    }
}
