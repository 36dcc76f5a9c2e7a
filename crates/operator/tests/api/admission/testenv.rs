//! What each test of the webhooks runs in: a namespace of its own, an operator for it, and webhooks that are registered for
//! that namespace only.

use std::ops::Deref;
use std::path::PathBuf;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use localkube::Cluster;
use serde_json::{Value, json};

use crate::admission::client::{Objects, eventually};
use crate::admission::manifests::{ENGINE, INSTANCE, engine_of, instance};
use crate::support::cleanup::finish;
use crate::support::{OPERATOR_NAMESPACE, Operator, namespace, prepare};

const WEBHOOKS: &str = include_str!("../../../../../deploy/webhooks.yaml");
/// An address without a listener.
pub(super) const NOBODY: &str = "127.0.0.1:1";

/// A process of the operator, and where it answers the API server.
pub(super) struct Replica {
    pub operator: Operator,
    pub address: String,
}

pub(super) struct AdmissionEnv {
    pub cluster: Cluster,
    pub client: Client,
    /// Also the name of the registrations and of the Secret with the certificate.
    pub namespace: String,
    pub objects: Objects,
    pub replicas: Vec<Replica>,
    kubeconfig: PathBuf,
}

/// What users do, they do in the namespace of the test.
impl Deref for AdmissionEnv {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl AdmissionEnv {
    /// An operator whose webhooks are called.
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with more flags than usual.
    pub(super) async fn start_with(more: &[&str]) -> Self {
        let mut env = Self::bare().await;
        env.admit_with(more).await;
        env
    }

    /// A namespace without webhooks and without an operator.
    pub(super) async fn bare() -> Self {
        let cluster = Cluster::attach();
        let kubeconfig = prepare(&cluster).await;
        let (client, namespace) = (cluster.client().await.unwrap(), namespace(&cluster).await);
        let env = Self {
            objects: Objects::new(&client, &namespace),
            client,
            namespace,
            replicas: Vec::new(),
            kubeconfig,
            cluster,
        };
        env.grant().await;
        env
    }

    /// Starts an operator, registers it, and waits until it is asked.
    pub(super) async fn admit_with(&mut self, more: &[&str]) {
        self.start_replica(more);
        self.register(&self.replicas[0].address).await;
        self.wait_for_admission().await;
    }

    /// Starts one more replica.
    pub(super) fn start_replica(&mut self, more: &[&str]) {
        let name = self.namespace.as_str();
        let flags = [
            "--namespaces",
            name,
            "--leader-elect=false",
            "--webhook-bind-address=127.0.0.1:0",
            "--webhook-hosts=127.0.0.1",
            "--webhook-configuration",
            name,
            "--webhook-secret",
            name,
        ];
        let operator = Operator::start(&self.cluster, &self.kubeconfig, &[&flags, more].concat());
        let starting = operator.wait_for_log("\"starting\"");
        let address = starting["webhook"].as_str().unwrap().to_owned();
        self.replicas.push(Replica { operator, address });
    }

    /// The replica of tests that have one.
    pub(super) fn operator(&self) -> &Operator {
        &self.replicas[0].operator
    }

    /// Registers the shipped webhooks for this namespace, at this address.
    pub(super) async fn register(&self, address: &str) {
        self.register_for(address, &[&self.namespace]).await;
    }

    /// The same for several namespaces.
    pub(super) async fn register_for(&self, address: &str, namespaces: &[&str]) {
        self.register_validating(address, namespaces).await;
        self.register_mutating(address, namespaces).await;
    }

    pub(super) async fn register_validating(&self, address: &str, namespaces: &[&str]) {
        let [validating, _] = self.registrations(address, namespaces);
        let typed = serde_json::from_value(validating).unwrap();
        self.validating().create(&PostParams::default(), &typed).await.unwrap();
    }

    pub(super) async fn register_mutating(&self, address: &str, namespaces: &[&str]) {
        let [_, mutating] = self.registrations(address, namespaces);
        let typed = serde_json::from_value(mutating).unwrap();
        self.mutating().create(&PostParams::default(), &typed).await.unwrap();
    }

    fn registrations(&self, address: &str, namespaces: &[&str]) -> [Value; 2] {
        let mut registrations = self.cluster.webhooks_at(WEBHOOKS, address).unwrap();
        let here = json!({ "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces },
        ] });
        for registration in &mut registrations {
            registration["metadata"]["name"] = json!(self.namespace);
            for webhook in registration["webhooks"].as_array_mut().unwrap() {
                webhook["namespaceSelector"] = here.clone();
            }
        }
        registrations.sort_by_key(|registration| registration["kind"] == "MutatingWebhookConfiguration");
        registrations.try_into().unwrap()
    }

    /// Waits until the API server calls both webhooks and gets responses.
    pub(super) async fn wait_for_admission(&self) {
        let bad = engine_of(ENGINE, "missing");
        let refused = async || {
            let refusal = self.dry_run(&bad).await.err()?;
            (refusal.fields() == ["spec.engineClassRef"]).then_some(())
        };
        eventually("the API server asks about engines", refused).await;
        let filled_in = async || {
            let instance = self.dry_run(&instance("unheard-of")).await.ok()?;
            instance["spec"]["id"].is_string().then_some(())
        };
        eventually("the API server asks for ids", filled_in).await;
    }

    /// Creates what has to be accepted.
    pub(super) async fn has(&self, objects: &[Value]) {
        for object in objects {
            self.create(object).await.unwrap();
        }
    }

    /// Creates the instance that engines refer to.
    pub(super) async fn has_instance(&self) {
        self.has(&[instance(INSTANCE)]).await;
    }

    /// Runs kubectl here as an administrator, and returns what it printed or complained about.
    pub(super) fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let here = [&["--namespace", self.namespace.as_str()], arguments].concat();
        let printed = self.cluster.kubectl_with_input(&here, input);
        printed.map_err(|error| error.to_string())
    }

    pub(super) fn validating(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    pub(super) fn mutating(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE)
    }

    /// Whom the first webhook trusts.
    pub(super) async fn bundle(&self) -> Vec<u8> {
        let configuration = self.validating().get(&self.namespace).await.unwrap();
        let webhook = configuration.webhooks.unwrap_or_default().swap_remove(0);
        webhook
            .client_config
            .ca_bundle
            .map(|bundle| bundle.0)
            .unwrap_or_default()
    }

    /// The shipped permissions name the objects that are shipped; those of a test have a name of their own.
    async fn grant(&self) {
        let name = &self.namespace;
        let role = json!({ "metadata": { "name": name }, "rules": [
            {
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
                "resourceNames": [name], "verbs": ["get", "list", "watch", "patch"],
            },
            { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["patch"] },
        ] });
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": "firebolt-operator", "namespace": OPERATOR_NAMESPACE }],
        });
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        let parameters = PostParams::default();
        let role = serde_json::from_value(role).unwrap();
        roles.create(&parameters, &role).await.unwrap();
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&parameters, &binding).await.unwrap();
        let question = json!({ "metadata": {}, "spec": {
            "user": format!("system:serviceaccount:{OPERATOR_NAMESPACE}:firebolt-operator"),
            "resourceAttributes": { "verb": "patch", "resource": "secrets", "name": name, "namespace": OPERATOR_NAMESPACE },
        } });
        let question: SubjectAccessReview = serde_json::from_value(question).unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let granted = async || {
            let review = reviews.create(&parameters, &question).await.unwrap();
            review.status.is_some_and(|status| status.allowed).then_some(())
        };
        eventually("the API server knows what the operator may do", granted).await;
    }
}

impl Drop for AdmissionEnv {
    fn drop(&mut self) {
        let (name, now) = (self.namespace.clone(), DeleteParams::default());
        finish(async {
            let _best_effort = self.validating().delete(&name, &now).await;
            let _best_effort = self.mutating().delete(&name, &now).await;
        });
        self.replicas.clear();
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(self.client.clone()), Api::all(self.client.clone()));
        finish(async {
            let _best_effort = bindings.delete(&name, &now).await;
            let _best_effort = roles.delete(&name, &now).await;
            let _best_effort = self.secrets().delete(&name, &now).await;
        });
    }
}
