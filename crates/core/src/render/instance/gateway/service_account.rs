//! The ServiceAccount of the gateway, for an instance whose user brings no other.

use firebolt_api::key::Component;
use k8s_openapi::api::core::v1::ServiceAccount;

use crate::render::instance::metadata;
use crate::resolve::instance::EffectiveInstance;

/// Renders the ServiceAccount.
#[must_use]
pub fn gateway_service_account(instance: &EffectiveInstance) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(instance, instance.names().gateway(), Component::Gateway),
        // Whichever pod uses the account: its token goes only where it is asked for.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}
