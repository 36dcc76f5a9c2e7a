//! The ServiceAccount of the gateway, unless its template names another one.

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::ServiceAccount;

use crate::render::instance::object_meta;
use crate::resolve::instance::EffectiveInstance;

/// Renders the ServiceAccount.
#[must_use]
pub fn gateway_service_account(instance: &EffectiveInstance) -> ServiceAccount {
    ServiceAccount {
        metadata: object_meta(instance, instance.names().gateway(), Component::Gateway),
        // A pod gets a token of the account only if it requests one.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
