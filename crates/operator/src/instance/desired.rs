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
        database: match effective.postgres {
            Postgres::Internal { .. } => Database::Internal,
            Postgres::External(_) => Database::External,
        },
        credentials: effective.credentials_secret(),
        claim: postgres_claim_name(&effective),
        own_account: effective.gateway.service_account.is_some(),
        rejected: rejected(instance),
    };
    Wish { effective, wanted }
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
