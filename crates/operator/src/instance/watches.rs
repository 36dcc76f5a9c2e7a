//! What wakes a look at an instance: a change of the instance, of what it owns, or of which engines refer to it. The
//! Secret that it reads wakes it too, through [`FollowedCredentials`](crate::watches::FollowedCredentials).

use std::sync::Arc;

use firebolt_api::{FireboltEngine, FireboltInstance};

use crate::key::ObjectKey;
use crate::queue::{Inbox, Lane};
use crate::watches::{Change, Family, Listener, Watched};

/// A change of the instance itself.
pub fn of_instance(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<FireboltInstance> + Clone + use<> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<FireboltInstance>| {
        if let Some(instance) = change.key() {
            inbox.add(instance, Lane::Ordinary);
        }
    }
}

/// A change of an object that an instance owns, or did.
pub fn of_child<K: Watched>(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<K> + Clone + use<K> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<K>| {
        for instance in change.owners(Family::OfInstances) {
            inbox.add(instance, Lane::Ordinary);
        }
    }
}

/// An engine that came, went, or is seen for the first time to refer to an instance. What else it does is none of the
/// instance's business.
pub fn of_engine(inbox: &Arc<Inbox<ObjectKey>>) -> impl Listener<FireboltEngine> + Clone + use<> {
    let inbox = Arc::clone(inbox);
    move |change: &Change<FireboltEngine>| {
        let refers =
            [&change.before, &change.after].map(|engine| FireboltEngine::owner(engine.as_ref()?, Family::Root));
        if refers[0] != refers[1] {
            for instance in refers.into_iter().flatten() {
                inbox.add(instance, Lane::Ordinary);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use firebolt_api::key::Label;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::watches::Guarded;

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
    async fn an_instance_is_woken_by_any_change_of_itself() {
        let inbox = open_inbox();
        let listener = of_instance(&inbox);
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
            listener(&Change { before, after });
            assert_eq!(heard(&inbox).await, names(["i"]));
        }
    }

    #[tokio::test]
    async fn a_child_wakes_the_instance_that_has_it_and_the_one_that_had_it() {
        let inbox = open_inbox();
        let listener = of_child::<Pod>(&inbox);
        let pod = |instance: &str| Some(object("p", &json!({ Label::Instance.key(): instance }), json!({})));
        listener(&Change {
            before: pod("i"),
            after: pod("j"),
        });
        assert_eq!(heard(&inbox).await, names(["i", "j"]));
    }

    #[tokio::test]
    async fn an_engine_wakes_the_instance_only_when_it_begins_or_ends_to_refer_to_it() {
        let inbox = open_inbox();
        let listener = of_engine(&inbox);
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
            listener(&Change {
                before: before.clone(),
                after: after.clone(),
            });
            assert_eq!(heard(&inbox).await, expected);
        }
    }
}
