//! The RoleBinding that gives the gateway its Role.

use firebolt_api::key::Component;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use crate::render::instance::object_meta;
use crate::resolve::instance::EffectiveInstance;

/// Renders the RoleBinding.
#[must_use]
pub fn gateway_role_binding(instance: &EffectiveInstance) -> RoleBinding {
    RoleBinding {
        metadata: object_meta(instance, instance.names().gateway_wake(), Component::Gateway),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: instance.names().gateway_wake(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: instance.names().gateway(),
            namespace: Some(instance.namespace.clone()),
            api_group: None,
        }]),
    }
}
