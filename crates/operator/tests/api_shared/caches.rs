//! The caches fill under the shipped permissions, and follow the Secrets that instances name.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Parser;
use firebolt_operator::cli::{Cli, Command};
use firebolt_operator::key::ObjectKey;
use firebolt_operator::metrics::Metrics;
use firebolt_operator::queue::Inboxes;
use firebolt_operator::settings::{Settings, Surroundings};
use firebolt_operator::watches::{Caches, Credentials, KnownSecret};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use localkube::Cluster;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::operator_client;
use crate::support::{OPERATOR_NAMESPACE, SOON, install_definitions, namespace, unique};

const SECRET: &str = "theirs";

/// The caches of an operator that looks at one namespace, and an instance there that names a Secret.
struct Scene {
    cluster: Cluster,
    admin: Client,
    namespace: String,
    caches: Caches,
    inboxes: Inboxes,
    _watches: JoinSet<()>,
}

impl Scene {
    async fn new(cluster: Cluster, client: Client) -> Self {
        install_definitions(&cluster);
        let namespace = namespace(&cluster);
        let arguments = ["firebolt-operator", "run", "--namespaces", &namespace];
        let Command::Run(arguments) = Cli::parse_from(arguments).command else {
            panic!("parsed as another command");
        };
        let surroundings = Surroundings {
            namespace: OPERATOR_NAMESPACE.to_owned(),
            host_name: "test".to_owned(),
            nonce: 0,
        };
        let settings = Settings::resolve(*arguments, surroundings);
        let metrics = Metrics::new("test", SystemTime::UNIX_EPOCH);
        let (inboxes, mut watches) = (Inboxes::default(), JoinSet::new());
        inboxes.instances.open();
        let caches = Caches::start(&client, &settings, &metrics, &mut watches, &inboxes);
        Self {
            admin: cluster.client().await.unwrap(),
            cluster,
            namespace,
            caches,
            inboxes,
            _watches: watches,
        }
    }

    fn instance(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, "main")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    fn follow(&self, uid: &str) {
        self.caches.credentials.follow(&self.instance(), uid, Some(SECRET));
    }

    /// Waits until what is known of the Secret is as expected. The instance is woken for every change of that.
    async fn known<T>(&self, what: &str, is: impl Fn(&Credentials) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = is(&self.caches.credentials.get(&self.instance())) {
                    return found;
                }
                while !self.inboxes.instances.take().await.contains_key(&self.instance()) {}
            }
        };
        let Ok(found) = timeout(SOON, found).await else {
            panic!("not {what}: {:?}", self.caches.credentials);
        };
        found
    }

    async fn missing(&self) {
        let is_missing = |known: &Credentials| matches!(known, Credentials::Missing).then_some(());
        self.known("missing", is_missing).await;
    }

    async fn found(&self, what: &str, is: impl Fn(&KnownSecret) -> bool) -> Arc<KnownSecret> {
        let found = |known: &Credentials| match known {
            Credentials::Found(secret) => is(secret).then(|| Arc::clone(secret)),
            Credentials::Unknown(_) | Credentials::Missing => None,
        };
        self.known(what, found).await
    }

    async fn unknown_because(&self, expected: &str) {
        let because = |known: &Credentials| match known {
            Credentials::Unknown(Some(reason)) => reason.contains(expected).then_some(()),
            Credentials::Unknown(None) | Credentials::Missing | Credentials::Found(_) => None,
        };
        self.known(expected, because).await;
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _best_effort = self
            .cluster
            .kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]);
    }
}

fn secret(data: &Value) -> Secret {
    serde_json::from_value(json!({ "metadata": { "name": SECRET }, "stringData": data })).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cache_fills_under_the_shipped_permissions() {
    let cluster = Cluster::attach();
    let client = operator_client(&cluster).await;
    let scene = Scene::new(cluster, client).await;
    let missing = || -> Vec<String> {
        let caches = scene.caches.all();
        caches.iter().flat_map(|cache| cache.missing()).collect()
    };
    let in_time = timeout(SOON, scene.caches.synced()).await;
    assert!(in_time.is_ok(), "{:?}", missing());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_that_an_instance_names_is_followed_through_its_life() {
    let cluster = Cluster::attach();
    let client = operator_client(&cluster).await;
    let scene = Scene::new(cluster, client).await;
    let known = || scene.caches.credentials.get(&scene.instance());
    assert!(matches!(known(), Credentials::Unknown(None)));
    scene.follow("u");
    scene.missing().await;

    let created = secret(&json!({ "username": "them", "password": "" }));
    scene.secrets().create(&PostParams::default(), &created).await.unwrap();
    let first = scene.found("there", |_| true).await;
    assert_eq!(first.credentials_hash, None, "a password is missing");

    let filled = json!({ "stringData": { "password": "secret" } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(filled));
    scene.secrets().patch(SECRET, &parameters, &patch).await.unwrap();
    let second = scene.found("filled", |secret| secret.credentials_hash.is_some()).await;
    let shown = format!("{second:?}");
    assert!(!shown.contains("secret\"") && !shown.contains("c2VjcmV0"), "{shown}");

    // The same Secret, named by a later instance of the same name: another hash, and never the old one.
    scene.follow("v");
    assert!(matches!(known(), Credentials::Unknown(None)));
    let third = scene
        .found("there again", |secret| secret.credentials_hash.is_some())
        .await;
    assert_ne!(second.credentials_hash, third.credentials_hash);

    scene.secrets().delete(SECRET, &DeleteParams::default()).await.unwrap();
    scene.missing().await;
    scene.caches.credentials.follow(&scene.instance(), "v", None);
    assert!(matches!(known(), Credentials::Unknown(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_may_not_be_read_is_not_taken_for_missing() {
    let cluster = Cluster::attach();
    let account = unique("stranger");
    // Makes the namespace of the account.
    operator_client(&cluster).await;
    let kubeconfig = cluster
        .service_account_kubeconfig(OPERATOR_NAMESPACE, &account)
        .await
        .unwrap();
    let client = cluster.client_for(&kubeconfig).await.unwrap();
    let scene = Scene::new(cluster, client).await;
    scene.follow("u");
    scene.unknown_because("grant get, list and watch").await;

    let subject = format!("{OPERATOR_NAMESPACE}:{account}");
    let namespace = format!("--namespace={}", scene.namespace);
    let rule = [
        "create",
        "role",
        "reader",
        "--verb=list,watch",
        "--resource=secrets",
        &namespace,
    ];
    scene.cluster.kubectl(&rule).unwrap();
    let to = format!("--serviceaccount={subject}");
    let grant = ["create", "rolebinding", "reader", "--role=reader", &to, &namespace];
    scene.cluster.kubectl(&grant).unwrap();
    timeout(Duration::from_mins(2), scene.missing()).await.unwrap();
}
