//! What an instance is to be: what its specification and the operator's defaults make of it, or what is wrong with it.

use std::collections::BTreeMap;

use firebolt_api::FireboltInstance;
use firebolt_core::admit;
use firebolt_core::plan::instance::{Component, Database, Wanted};
use firebolt_core::render::instance::postgres_claim_name;
use firebolt_core::resolve::Defaults;
use firebolt_core::resolve::instance::{EffectiveInstance, Postgres, resolve};

/// What is wanted of one instance.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Everything resolved.
    pub effective: EffectiveInstance,
    /// The part that decisions depend on.
    pub wanted: Wanted,
}

/// Puts together what is wanted. `ipv6`: Kubernetes gives the gateway addresses of that kind.
pub fn wish(instance: &FireboltInstance, defaults: &Defaults, ipv6: bool) -> Wish {
    let effective = resolve(instance, defaults, ipv6);
    let wanted = Wanted {
        metadata_endpoint: effective.metadata_endpoint(),
        gateway_endpoint: effective.gateway_endpoint(),
        database: database(&effective),
        credentials: effective.credentials_secret(),
        claim: postgres_claim_name(&effective),
        own_account: effective.gateway.service_account.is_some(),
        rejected: rejected(instance),
    };
    Wish { effective, wanted }
}

/// The database that the metadata service is to use.
pub fn database(instance: &EffectiveInstance) -> Database {
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
            (component, format!("The {name} cannot be set up like this: {summary}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::instance::fixture::{defaults, instance};

    #[test]
    fn the_component_that_is_at_fault_is_the_one_that_is_rejected() {
        let bad = json!({ "template": { "spec": { "hostNetwork": true } } });
        let rejected = |metadata, gateway| wish(&instance(&metadata, &gateway), &defaults(), false).wanted.rejected;
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
        let own = |gateway| {
            wish(&instance(&json!({}), &gateway), &defaults(), false)
                .wanted
                .own_account
        };
        assert!(own(json!({})));
        assert!(!own(
            json!({ "template": { "spec": { "serviceAccountName": "theirs" } } })
        ));
    }
}
