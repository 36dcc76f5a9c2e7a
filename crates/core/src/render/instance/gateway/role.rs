//! The Role of the gateway: reads engines, and requests a wake of a stopped one.

use firebolt_api::key::Component;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};

use crate::render::instance::object_meta;
use crate::resolve::instance::EffectiveInstance;

/// Renders the Role.
#[must_use]
pub fn gateway_role(instance: &EffectiveInstance) -> Role {
    Role {
        metadata: object_meta(instance, instance.names().gateway_wake(), Component::Gateway),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![firebolt_api::GROUP.to_owned()]),
            resources: Some(vec!["fireboltengines".to_owned()]),
            verbs: ["get", "list", "patch"].map(str::to_owned).into(),
            ..PolicyRule::default()
        }]),
    }
}
