//! The desired state of an instance.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;

use crate::admit;
use crate::plan::instance::{Component, Database, Desired};
use crate::render::instance::postgres_claim_name;
use crate::resolve::Defaults;
use crate::resolve::instance::{EffectiveInstance, Postgres, resolve};

/// The desired state of one instance.
#[derive(Clone, Debug)]
pub struct DesiredInstance {
    /// Everything resolved.
    pub effective: EffectiveInstance,
    /// The part that decisions depend on.
    pub for_plan: Desired,
}

/// Resolves an instance and finds what is wrong with it. `ipv6`: the Service of the gateway has addresses of that family.
#[must_use]
pub fn desired(instance: &FireboltInstance, defaults: &Defaults, ipv6: bool) -> DesiredInstance {
    let effective = resolve(instance, defaults, ipv6);
    let for_plan = Desired {
        metadata_endpoint: effective.metadata_endpoint(),
        gateway_endpoint: effective.gateway_endpoint(),
        database: database(&effective),
        credentials: effective.credentials_secret(),
        claim: postgres_claim_name(&effective.name),
        own_account: effective.gateway.service_account.is_some(),
        rejected: rejected(instance),
    };
    DesiredInstance { effective, for_plan }
}

/// The database that the metadata service is to use.
pub(crate) fn database(instance: &EffectiveInstance) -> Database {
    match instance.postgres {
        Postgres::Internal { .. } => Database::Internal,
        Postgres::External(_) => Database::External,
    }
}

fn rejected(instance: &FireboltInstance) -> BTreeMap<Component, String> {
    let (gateway, metadata): (Vec<_>, Vec<_>) = admit::instance(instance)
        .into_iter()
        .partition(|violation| violation.path.starts_with("spec.gateway"));
    let components = [
        (Component::Metadata, "metadata service", metadata),
        (Component::Gateway, "gateway", gateway),
    ];
    let wrong = components
        .into_iter()
        .filter(|(_, _, violations)| !violations.is_empty());
    wrong
        .map(|(component, name, violations)| {
            let summary = admit::summary(&violations);
            (
                component,
                format!("The configuration of the {name} is rejected: {summary}"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn instance(metadata: &Value, gateway: &Value) -> FireboltInstance {
        let spec = json!({ "id": "01J", "metadata": metadata, "gateway": gateway });
        let instance = json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": "main" }, "spec": spec });
        serde_json::from_value(instance).unwrap()
    }

    fn desired_for(metadata: &Value, gateway: &Value) -> Desired {
        desired(&instance(metadata, gateway), &Defaults::example(), false).for_plan
    }

    #[test]
    fn the_component_that_is_at_fault_is_the_one_that_is_rejected() {
        let bad = json!({ "template": { "spec": { "hostNetwork": true } } });
        let rejected = |metadata, gateway| desired_for(&metadata, &gateway).rejected;
        assert_eq!(rejected(json!({}), json!({})), BTreeMap::new());
        let metadata = rejected(bad.clone(), json!({}));
        assert_eq!(metadata.keys().collect::<Vec<_>>(), [&Component::Metadata]);
        let text = &metadata[&Component::Metadata];
        assert!(
            text.contains("spec.metadata.template.spec.hostNetwork: Forbidden"),
            "{text}"
        );
        let gateway = rejected(json!({}), bad);
        assert_eq!(gateway.keys().collect::<Vec<_>>(), [&Component::Gateway]);
    }

    #[test]
    fn the_account_of_a_user_is_not_ours() {
        let own = |gateway| desired_for(&json!({}), &gateway).own_account;
        assert!(own(json!({})));
        assert!(!own(
            json!({ "template": { "spec": { "serviceAccountName": "theirs" } } })
        ));
    }
}
