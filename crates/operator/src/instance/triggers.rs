//! Which changes trigger a reconcile of an instance: of the [instance](crate::triggers::of_object), of an
//! [object that it owns](crate::triggers::of_child), or of the engines that reference it. The Secret that it references does too, through [`WatchedCredentials`](crate::caches::WatchedCredentials).

use std::sync::Arc;

use firebolt_api::FireboltEngine;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Change, EventHandler};
use firebolt_runtime::queue::{PendingSet, Priority};

use crate::caches::ENGINES_BY_INSTANCE;

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
    use firebolt_runtime::informer::Guarded;
    use serde_json::{Value, json};

    use super::*;
    use crate::triggers::fixture::{normal, object, open_set, triggered};

    fn engine(spec: &Value) -> Arc<Guarded<FireboltEngine>> {
        object("e", &json!({}), &json!({ "spec": spec }))
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
            (&None, &small, normal(&["i"])),
            (&small, &large, normal(&[])),
            (&unreadable, &small, normal(&["i"])),
            (&small, &elsewhere, normal(&["i", "j"])),
            (&small, &None, normal(&["i"])),
        ] {
            handler(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(triggered(&pending).await, expected);
        }
    }
}
