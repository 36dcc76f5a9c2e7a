//! The Role with what the gateway may do: find engines, and ask for one that is stopped.

use firebolt_api::key::Component;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};

use crate::render::instance::metadata;
use crate::resolve::instance::EffectiveInstance;

/// Renders the Role.
#[must_use]
pub fn gateway_role(instance: &EffectiveInstance) -> Role {
    Role {
        metadata: metadata(instance, instance.names().gateway_wake(), Component::Gateway),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![firebolt_api::GROUP.to_owned()]),
            resources: Some(vec!["fireboltengines".to_owned()]),
            verbs: ["get", "list", "patch"].map(str::to_owned).into(),
            ..PolicyRule::default()
        }]),
    }
}
