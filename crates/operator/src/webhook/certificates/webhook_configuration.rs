//! The two webhook configurations, with the `caBundle` of each webhook.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::ResourceExt;

use super::rotation::InjectedBundles;

/// The type of a webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookType {
    /// `ValidatingWebhookConfiguration`.
    Validating,
    /// `MutatingWebhookConfiguration`.
    Mutating,
}

impl WebhookType {
    /// Both types.
    pub(super) const BOTH: [Self; 2] = [Self::Validating, Self::Mutating];

    /// The kind of its objects.
    #[must_use]
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }
}

/// A webhook configuration. All webhooks in it belong to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookConfiguration {
    /// Its `resourceVersion`.
    pub version: Option<String>,
    /// Name and `caBundle` of each webhook.
    pub webhooks: Vec<(String, Vec<u8>)>,
}

impl WebhookConfiguration {
    /// The bundles that are injected into it.
    #[must_use]
    pub(super) fn injected(&self) -> InjectedBundles {
        InjectedBundles::Present(self.webhooks.iter().map(|(_, bundle)| bundle.clone()).collect())
    }
}

impl From<ValidatingWebhookConfiguration> for WebhookConfiguration {
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

impl From<MutatingWebhookConfiguration> for WebhookConfiguration {
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
