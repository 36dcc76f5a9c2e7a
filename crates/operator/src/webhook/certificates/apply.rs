//! The requests that write: the Secret, and the `caBundle` of each webhook. Each is made only while this process leads,
//! and only on the version that was decided from.

#![expect(
    clippy::disallowed_methods,
    reason = "this is one of the files that write to the cluster"
)]

use std::fmt::Debug;

use firebolt_api::key::FIELD_MANAGER;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::CertificateSettings;
use super::configurations::{Configuration, Which};
use super::content::Content;
use crate::error::describe;
use crate::leader::Term;
use crate::write::LONGEST_REQUEST;

/// Why a write came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This process no longer leads, so it must not write.
    #[error("write while another process leads")]
    TermOver,
    /// The object was written, created or deleted since it was read.
    #[error("{attempt}: it has changed since it was read")]
    Outdated {
        /// Verb and object.
        attempt: String,
    },
    /// No answer in time; it may have been stored or not.
    #[error("{attempt}: no answer from the API server within {LONGEST_REQUEST:?}")]
    TimedOut {
        /// Verb and object.
        attempt: String,
    },
    /// Any other failure; it may have been stored or not.
    #[error("{attempt}: {}", describe(source))]
    Failed {
        /// Verb and object.
        attempt: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

impl WriteError {
    /// What a person can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        let code = match self {
            Self::Failed { source, .. } => match &**source {
                kube::Error::Api(status) => status.code,
                _ => 0,
            },
            Self::TermOver | Self::Outdated { .. } | Self::TimedOut { .. } => 0,
        };
        match code {
            403 => {
                "Grant it to the operator's service account (deploy/rbac.yaml does), or supply certificates of your own."
            }
            404 => "Create the namespace, or name an existing one with --lease-namespace.",
            422 => {
                "Delete the object: the operator makes the Secret anew, and deploy/webhooks.yaml the configurations."
            }
            _ => "Check that the API server is reachable and healthy; the operator keeps trying.",
        }
    }
}

/// Makes the writes.
pub struct Writer {
    secrets: Api<Secret>,
    validating: Api<ValidatingWebhookConfiguration>,
    mutating: Api<MutatingWebhookConfiguration>,
    secret: String,
    namespace: String,
    configuration: String,
    term: Term,
}

impl Writer {
    /// A writer of the objects that the settings name.
    #[must_use]
    pub fn new(client: &Client, settings: &CertificateSettings, term: Term) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &settings.namespace),
            validating: Api::all(client.clone()),
            mutating: Api::all(client.clone()),
            secret: settings.secret.clone(),
            namespace: settings.namespace.clone(),
            configuration: settings.configuration.clone(),
            term,
        }
    }

    /// Puts the content into the Secret as it was read, or into a new one if there was none.
    pub async fn store(&self, content: &Content, read: Option<&Secret>) -> Result<Secret, WriteError> {
        let object = format!("Secret {}/{}", self.namespace, self.secret);
        let Some(read) = read else {
            let (secret, parameters) = (self.rendered(content), posting());
            let request = self.secrets.create(&parameters, &secret);
            return self
                .request(format!("create {object}"), Absence::OfSurroundings, request)
                .await;
        };
        let body = json!({
            "metadata": { "uid": read.uid(), "resourceVersion": read.resource_version() },
            "data": content.data(),
        });
        let (parameters, patch) = (patching(), Patch::Merge(body));
        let request = self.secrets.patch(&self.secret, &parameters, &patch);
        self.request(format!("patch {object}"), Absence::OfObject, request)
            .await
    }

    /// Writes the bundle into each webhook of a configuration, and nothing else.
    ///
    /// From then on a part of each webhook is ours. Whoever applies the configuration on the server's side without one of
    /// them is refused, since that part would remain: the names of webhooks are for ever, or the configuration has to be
    /// deleted first.
    pub async fn trust(
        &self,
        which: Which,
        configuration: &Configuration,
        bundle: &[u8],
    ) -> Result<Configuration, WriteError> {
        match which {
            Which::Validating => self.apply_bundle(&self.validating, configuration, bundle).await,
            Which::Mutating => self.apply_bundle(&self.mutating, configuration, bundle).await,
        }
    }

    async fn apply_bundle<K>(
        &self,
        api: &Api<K>,
        configuration: &Configuration,
        bundle: &[u8],
    ) -> Result<Configuration, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Into<Configuration>,
    {
        let webhooks = configuration.webhooks.iter();
        let webhooks: Vec<Value> = webhooks
            .map(|(name, _)| json!({ "name": name, "clientConfig": { "caBundle": ByteString(bundle.to_vec()) } }))
            .collect();
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            // Without its version, a webhook that somebody has just removed would come back as a torso.
            "metadata": { "resourceVersion": configuration.version },
            "webhooks": webhooks,
        });
        let (parameters, patch) = (PatchParams::apply(FIELD_MANAGER).force(), Patch::Apply(body));
        let request = api.patch(&self.configuration, &parameters, &patch);
        let attempt = format!("apply caBundle to {} {}", K::kind(&()), self.configuration);
        self.request(attempt, Absence::OfObject, request).await.map(K::into)
    }

    fn rendered(&self, content: &Content) -> Secret {
        let data = content.data().into_iter();
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
        absence: Absence,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        if !self.term.holds() {
            return Err(WriteError::TermOver);
        }
        match tokio::time::timeout(LONGEST_REQUEST, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status)))
                if status.code == 409 || (status.code == 404 && absence == Absence::OfObject) =>
            {
                Err(WriteError::Outdated { attempt })
            }
            Ok(Err(source)) => Err(WriteError::Failed {
                attempt,
                source: Box::new(source),
            }),
            Err(_elapsed) => Err(WriteError::TimedOut { attempt }),
        }
    }
}

/// What it means that something was not found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// The object is gone.
    OfObject,
    /// The namespace that it should be created in is not there.
    OfSurroundings,
}

fn posting() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::leader::Report;

    #[tokio::test]
    async fn nothing_is_written_while_another_process_leads() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let settings = CertificateSettings {
            namespace: "n".to_owned(),
            secret: "s".to_owned(),
            configuration: "c".to_owned(),
            hosts: Vec::new(),
            validity: Duration::from_hours(1),
        };
        let (_, reports) = watch::channel(Report::STANDBY);
        let writer = Writer::new(&client, &settings, Term::new(reports));
        let configuration = Configuration {
            version: None,
            webhooks: Vec::new(),
        };
        let content = Content::default();
        for read in [None, Some(&Secret::default())] {
            let stored = writer.store(&content, read).await;
            assert!(matches!(stored, Err(WriteError::TermOver)), "{stored:?}");
        }
        for which in Which::BOTH {
            let written = writer.trust(which, &configuration, b"").await;
            assert!(matches!(written, Err(WriteError::TermOver)), "{written:?}");
        }
    }
}
