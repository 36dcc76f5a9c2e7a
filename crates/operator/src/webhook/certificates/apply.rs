//! Writes the Secret, and the `caBundle` of each webhook. Each write is made only while this process leads, and only on the
//! `resourceVersion` that the decision was based on.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::fmt::Debug;

use firebolt_api::key::FIELD_MANAGER;
use firebolt_runtime::client::REQUEST_TIMEOUT;
use firebolt_runtime::error::describe;
use firebolt_runtime::leader::Leadership;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::secret::SecretData;
use super::webhook_configuration::{WebhookConfiguration, WebhookType};
use crate::settings::CertificateSettings;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateWriteError {
    /// This process is not the leader, so it must not write.
    #[error("write: not the leader")]
    NotLeader,
    /// The object was written, created or deleted after it was read.
    #[error("{attempt}: the object has changed")]
    Conflict {
        /// Verb and object.
        attempt: String,
    },
    /// No response in time; the write may have succeeded or not.
    #[error("{attempt}: timed out after {REQUEST_TIMEOUT:?}")]
    TimedOut {
        /// Verb and object.
        attempt: String,
    },
    /// Any other failure; the write may have succeeded or not.
    #[error("{attempt}: {}", describe(source))]
    Failed {
        /// Verb and object.
        attempt: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl CertificateWriteError {
    /// What to do about it; `None` if nothing has to be done, because it is normal.
    #[must_use]
    pub(super) fn remedy(&self) -> Option<&'static str> {
        let code = match self {
            Self::NotLeader | Self::Conflict { .. } => return None,
            Self::Failed { source, .. } => match &**source {
                kube::Error::Api(status) => status.code,
                _ => 0,
            },
            Self::TimedOut { .. } => 0,
        };
        Some(match code {
            403 => {
                "Grant the permission to the operator's service account (see deploy/rbac.yaml), or supply a certificate with \
                 --webhook-cert-dir."
            }
            404 => "Create the namespace, or set --lease-namespace to an existing one.",
            422 => {
                "Delete the Secret, which the operator then recreates. For a webhook configuration, delete it and apply \
                 deploy/webhooks.yaml again."
            }
            _ => "Check that the API server is reachable and healthy; the operator retries.",
        })
    }
}

/// Writes the Secret and the webhook configurations.
pub(super) struct CertificateWriter {
    secrets: Api<Secret>,
    validating: Api<ValidatingWebhookConfiguration>,
    mutating: Api<MutatingWebhookConfiguration>,
    secret: String,
    namespace: String,
    configuration: String,
    leadership: Leadership,
}

impl CertificateWriter {
    /// A writer of the objects that the settings name.
    #[must_use]
    pub(super) fn new(client: &Client, settings: &CertificateSettings, leadership: Leadership) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            validating: Api::all(client.clone()),
            mutating: Api::all(client.clone()),
            secret: settings.secret.clone(),
            namespace: settings.namespace.clone(),
            configuration: settings.configuration.clone(),
            leadership,
        }
    }

    /// Patches the Secret, or creates it if there is none.
    pub(super) async fn write_secret(
        &self,
        data: &SecretData,
        existing: Option<&Secret>,
    ) -> Result<Secret, CertificateWriteError> {
        let object = format!("Secret {}/{}", self.namespace, self.secret);
        let Some(existing) = existing else {
            let (secret, parameters) = (self.new_secret(data), post_params());
            let request = self.secrets.create(&parameters, &secret);
            return self
                .request(format!("create {object}"), NotFound::Namespace, request)
                .await;
        };
        let body = json!({
            "metadata": { "uid": existing.uid(), "resourceVersion": existing.resource_version() },
            "data": data.patch(),
        });
        let (parameters, patch) = (patch_params(), Patch::Merge(body));
        let request = self.secrets.patch(&self.secret, &parameters, &patch);
        self.request(format!("patch {object}"), NotFound::Object, request).await
    }

    /// Injects the bundle into each webhook of a configuration, and changes nothing else.
    ///
    /// From then on the operator owns a field of each webhook. A server-side apply that removes a webhook is rejected, since
    /// that field would remain without the rest: to remove or rename a webhook, delete the configuration first.
    pub(super) async fn inject_bundle(
        &self,
        webhook_type: WebhookType,
        configuration: &WebhookConfiguration,
        bundle: &[u8],
    ) -> Result<WebhookConfiguration, CertificateWriteError> {
        match webhook_type {
            WebhookType::Validating => self.apply_bundle(&self.validating, configuration, bundle).await,
            WebhookType::Mutating => self.apply_bundle(&self.mutating, configuration, bundle).await,
        }
    }

    async fn apply_bundle<K>(
        &self,
        api: &Api<K>,
        configuration: &WebhookConfiguration,
        bundle: &[u8],
    ) -> Result<WebhookConfiguration, CertificateWriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Into<WebhookConfiguration>,
    {
        let webhooks = configuration.webhooks.iter();
        let webhooks: Vec<Value> = webhooks
            .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": ByteString(bundle.to_vec()) } }))
            .collect();
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            // Without it, the apply would create a webhook that was just removed again, with nothing but this field.
            "metadata": { "resourceVersion": configuration.version },
            "webhooks": webhooks,
        });
        let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER).force(), Patch::Apply(body));
        let request = api.patch(&self.configuration, &parameters, &patch);
        let attempt = format!("apply caBundle to {} {}", K::kind(&()), self.configuration);
        self.request(attempt, NotFound::Object, request).await.map(K::into)
    }

    fn new_secret(&self, data: &SecretData) -> Secret {
        let data = data.patch().into_iter();
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret.clone()),
                labels: Some([("app.kubernetes.io/managed-by".to_owned(), FIELD_MANAGER.to_owned())].into()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(data.filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()),
            ..Secret::default()
        }
    }

    async fn request<T>(
        &self,
        attempt: String,
        not_found: NotFound,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CertificateWriteError> {
        if !self.leadership.is_held() {
            return Err(CertificateWriteError::NotLeader);
        }
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status)))
                if status.code == 409 || (status.code == 404 && not_found == NotFound::Object) =>
            {
                Err(CertificateWriteError::Conflict { attempt })
            }
            Ok(Err(source)) => Err(CertificateWriteError::Failed {
                attempt,
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(CertificateWriteError::TimedOut { attempt }),
        }
    }
}

/// What a 404 of a request means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotFound {
    /// The object was deleted.
    Object,
    /// The namespace does not exist.
    Namespace,
}

fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firebolt_runtime::leader::ElectionStatus;
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn nothing_is_written_unless_this_process_leads() {
        let unreachable = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(unreachable).unwrap();
        let settings = CertificateSettings {
            namespace: "n".to_owned(),
            secret: "s".to_owned(),
            configuration: "c".to_owned(),
            hosts: Vec::new(),
            validity: Duration::from_hours(1),
        };
        let (_, reports) = watch::channel(ElectionStatus::STANDBY);
        let writer = CertificateWriter::new(&client, &settings, Leadership::new(reports));
        let configuration = WebhookConfiguration {
            version: None,
            webhooks: Vec::new(),
        };
        let data = SecretData::default();
        for existing in [None, Some(&Secret::default())] {
            let written = writer.write_secret(&data, existing).await;
            assert!(matches!(written, Err(CertificateWriteError::NotLeader)), "{written:?}");
        }
        for webhook_type in WebhookType::BOTH {
            let written = writer.inject_bundle(webhook_type, &configuration, b"").await;
            assert!(matches!(written, Err(CertificateWriteError::NotLeader)), "{written:?}");
        }
    }
}
