//! The two objects that tell API servers which webhooks there are, and whom to trust when they call them.

use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::ResourceExt;

use super::rotation::Seen;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of the webhooks that check.
    Validating,
    /// That of the webhooks that fill in defaults.
    Mutating,
}

impl Which {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Validating, Self::Mutating];
}

impl fmt::Display for Which {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        })
    }
}

/// One of them, as far as it matters here. All webhooks in it are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The version that this was read from.
    pub version: Option<String>,
    /// Name and `caBundle` of each webhook.
    pub webhooks: Vec<(String, Vec<u8>)>,
}

impl Configuration {
    /// What it trusts.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen::Present(self.webhooks.iter().map(|(_, bundle)| bundle.clone()).collect())
    }
}

impl From<ValidatingWebhookConfiguration> for Configuration {
    fn from(configuration: ValidatingWebhookConfiguration) -> Self {
        let version = configuration.resource_version();
        let webhooks = configuration.webhooks.into_iter().flatten();
        let webhooks = webhooks.map(|webhook| (webhook.name, bytes(webhook.client_config.ca_bundle)));
        Self {
            version,
            webhooks: webhooks.collect(),
        }
    }
}

impl From<MutatingWebhookConfiguration> for Configuration {
    fn from(configuration: MutatingWebhookConfiguration) -> Self {
        let version = configuration.resource_version();
        let webhooks = configuration.webhooks.into_iter().flatten();
        let webhooks = webhooks.map(|webhook| (webhook.name, bytes(webhook.client_config.ca_bundle)));
        Self {
            version,
            webhooks: webhooks.collect(),
        }
    }
}

fn bytes(bundle: Option<ByteString>) -> Vec<u8> {
    bundle.map(|bundle| bundle.0).unwrap_or_default()
}
