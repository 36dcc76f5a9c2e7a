//! A leader, servers and webhook configurations of their own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firebolt_operator::settings::CertificateSettings;
use firebolt_operator::webhook::certificates::{ServingCertificate, reload_from_secret, run_controller};
use firebolt_runtime::leader::{ElectionStatus, Leadership};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use localkube::Cluster;
use rustls::ServerConfig;
use serde_json::{Value, json};
use testkit::wait::{SOON, eventually_async};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::probe::Probe;
use crate::support::tls::{connect, trusted};
use crate::support::{OPERATOR_NAMESPACE, prepare, unique};

/// One set of objects, with the controllers and servers that use them. Everything stops when it is dropped.
pub(super) struct CertificateEnv {
    cluster: Cluster,
    /// As a user.
    client: Client,
    /// As the operator.
    operator: Client,
    settings: CertificateSettings,
    servers: Vec<(Arc<ServingCertificate>, SocketAddr)>,
    leading: CancellationToken,
    tasks: JoinSet<()>,
}

impl CertificateEnv {
    /// Objects with unique names, managed with all permissions.
    pub(super) async fn new(validity: Duration) -> Self {
        let cluster = Cluster::attach();
        prepare(&cluster).await;
        let client = cluster.client().await.unwrap();
        let name = unique("webhook");
        Self::of(cluster, client, &name, &name, validity).await
    }

    /// The objects that the operator is shipped with, managed as it would.
    pub(super) async fn shipped(validity: Duration, operator: Client) -> Self {
        let (secret, configuration) = ("firebolt-operator-webhook", "firebolt-operator");
        Self::of(Cluster::attach(), operator, secret, configuration, validity).await
    }

    async fn of(cluster: Cluster, operator: Client, secret: &str, configuration: &str, validity: Duration) -> Self {
        Self {
            client: cluster.client().await.unwrap(),
            operator,
            cluster,
            settings: CertificateSettings {
                namespace: OPERATOR_NAMESPACE.to_owned(),
                secret: secret.to_owned(),
                configuration: configuration.to_owned(),
                hosts: vec!["operator.firebolt-system.svc".to_owned(), "127.0.0.1".to_owned()],
                validity,
            },
            servers: Vec::new(),
            leading: CancellationToken::new(),
            tasks: JoinSet::new(),
        }
    }

    /// The webhooks as they are installed, but for a kind that does not exist, so that they are never called.
    pub(super) fn webhooks() -> [Value; 2] {
        let webhook = |name: &str| {
            json!({
                "name": name,
                "clientConfig": { "url": "https://127.0.0.1:1/" },
                "rules": [{
                    "apiGroups": ["certificates.test"], "apiVersions": ["v1"], "resources": ["nothing"],
                    "operations": ["CREATE"], "scope": "*",
                }],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
            })
        };
        let mut mutating = webhook("defaults.certificates.test");
        mutating["reinvocationPolicy"] = json!("Never");
        [
            json!([
                webhook("engines.certificates.test"),
                webhook("instances.certificates.test")
            ]),
            json!([mutating]),
        ]
    }

    /// Installs both configurations.
    pub(super) async fn configure(&self) {
        let [validating, mutating] = Self::webhooks();
        let metadata = json!({ "name": self.settings.configuration });
        let body = |webhooks: Value| json!({ "metadata": metadata, "webhooks": webhooks });
        let parameters = PostParams::default();
        let object = serde_json::from_value(body(validating)).unwrap();
        self.validating().create(&parameters, &object).await.unwrap();
        let object = serde_json::from_value(body(mutating)).unwrap();
        self.mutating().create(&parameters, &object).await.unwrap();
    }

    /// Starts a leader; one that there was before stops first.
    pub(super) fn lead(&mut self) {
        self.leading.cancel();
        self.leading = CancellationToken::new();
        let (_, reports) = watch::channel(ElectionStatus::LEADER);
        let (client, settings) = (self.operator.clone(), self.settings.clone());
        self.tasks.spawn(run_controller(
            client,
            settings,
            Leadership::new(reports),
            self.leading.clone(),
        ));
    }

    /// Starts a server that shows what the Secret holds, and returns its number.
    pub(super) async fn serve(&mut self) -> usize {
        let served = Arc::new(ServingCertificate::default());
        let following = reload_from_secret(self.operator.clone(), self.settings.clone(), Arc::clone(&served));
        self.tasks.spawn(following);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.servers.push((Arc::clone(&served), listener.local_addr().unwrap()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(served);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        self.tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Whether it succeeds is for the client to say.
                tokio::spawn(acceptor.accept(stream));
            }
        });
        self.servers.len() - 1
    }

    /// What a server shows.
    pub(super) fn served(&self, server: usize) -> &ServingCertificate {
        &self.servers[server].0
    }

    /// The certificate that a client gets from a server, once there is one, if it trusts what the Secret says.
    pub(super) async fn certificate_of(&self, server: usize) -> Vec<u8> {
        let address = self.servers[server].1;
        self.served(server).ready().await;
        connect(&trusted(&self.authorities().await), address).await.unwrap()
    }

    /// Starts to connect to these servers all the time.
    pub(super) fn probe(&self, servers: &[usize]) -> Probe {
        let addresses = servers.iter().map(|server| self.servers[*server].1).collect();
        Probe::start(self.validating(), self.settings.configuration.clone(), addresses)
    }

    pub(super) async fn secret(&self) -> Option<Secret> {
        self.secrets().get_opt(&self.settings.secret).await.unwrap()
    }

    pub(super) async fn delete_secret(&self) {
        let parameters = DeleteParams::default();
        self.secrets().delete(&self.settings.secret, &parameters).await.unwrap();
    }

    pub(super) async fn damage_secret(&self, keys: &[&str]) {
        let garbage = ByteString(b"-----BEGIN CERTIFICATE-----\ngarbage".to_vec());
        let data: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), json!(garbage))).collect();
        let patch = Patch::Merge(json!({ "data": data }));
        let parameters = PatchParams::default();
        self.secrets()
            .patch(&self.settings.secret, &parameters, &patch)
            .await
            .unwrap();
    }

    /// Whom to trust, as the Secret says.
    pub(super) async fn authorities(&self) -> Vec<u8> {
        let data = self.secret().await.and_then(|secret| secret.data).unwrap_or_default();
        data.get("ca.crt").map(|bundle| bundle.0.clone()).unwrap_or_default()
    }

    pub(super) async fn wait_for_authorities(&self, expected: &[u8]) {
        let as_expected = async || (self.authorities().await == expected).then_some(());
        eventually_async("the Secret has the expected certificate authorities", SOON, as_expected).await;
    }

    /// Waits until all webhooks trust exactly the certificate authorities in the Secret.
    pub(super) async fn trust_is_current(&self) {
        let is_current = async || {
            let (expected, bundles) = (self.authorities().await, self.bundles().await);
            let is_current = bundles.len() == 3 && bundles.iter().all(|bundle| *bundle == expected);
            (is_current && !expected.is_empty()).then_some(())
        };
        eventually_async(
            "the webhooks trust the certificate authorities in the Secret",
            SOON,
            is_current,
        )
        .await;
    }

    /// Empties or overwrites what one webhook of each configuration trusts.
    pub(super) async fn edit_trust(&self, bundle: &str) {
        let place = "/webhooks/0/clientConfig/caBundle";
        let operation = json!([{ "op": "replace", "path": place, "value": ByteString(bundle.into()) }]);
        let patch = Patch::<()>::Json(serde_json::from_value(operation).unwrap());
        let (name, parameters) = (&self.settings.configuration, PatchParams::default());
        self.validating().patch(name, &parameters, &patch).await.unwrap();
        self.mutating().patch(name, &parameters, &patch).await.unwrap();
    }

    /// What is in the configurations beside whom they trust.
    pub(super) async fn webhooks_without_trust(&self) -> [Value; 2] {
        let name = &self.settings.configuration;
        let validating = json!(self.validating().get(name).await.unwrap().webhooks);
        let mutating = json!(self.mutating().get(name).await.unwrap().webhooks);
        [validating, mutating].map(|mut webhooks| {
            for webhook in webhooks.as_array_mut().unwrap() {
                webhook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
            }
            webhooks
        })
    }

    async fn bundles(&self) -> Vec<Vec<u8>> {
        let name = &self.settings.configuration;
        let validating = self.validating().get(name).await.unwrap().webhooks.unwrap();
        let mutating = self.mutating().get(name).await.unwrap().webhooks.unwrap();
        let validating = validating.into_iter().map(|webhook| webhook.client_config.ca_bundle);
        let mutating = mutating.into_iter().map(|webhook| webhook.client_config.ca_bundle);
        let bundles = validating.chain(mutating);
        bundles
            .map(|bundle| bundle.map(|bundle| bundle.0).unwrap_or_default())
            .collect()
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.settings.namespace)
    }

    fn validating(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    fn mutating(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }
}

impl Drop for CertificateEnv {
    fn drop(&mut self) {
        self.leading.cancel();
        self.tasks.abort_all();
        let (name, secret) = (&self.settings.configuration, &self.settings.secret);
        let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        let _best_effort = self.cluster.kubectl(&["delete", kinds, name, "--ignore-not-found"]);
        let _best_effort = self.cluster.kubectl(&[
            "delete",
            "secret",
            "-n",
            OPERATOR_NAMESPACE,
            secret,
            "--ignore-not-found",
        ]);
    }
}
