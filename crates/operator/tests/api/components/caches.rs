//! The caches fill under the shipped permissions, and watch the Secrets that instances name.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Parser;
use firebolt_operator::caches::{CachedCredentials, Caches, KnownSecret};
use firebolt_operator::cli::{Cli, Command};
use firebolt_operator::informers;
use firebolt_operator::metrics::Metrics;
use firebolt_operator::pending::Pending;
use firebolt_operator::settings::Environment;
use firebolt_runtime::ObjectKey;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use localkube::Cluster;
use serde_json::{Value, json};
use testkit::wait::SOON;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::components::operator_client;
use crate::support::{OPERATOR_NAMESPACE, namespace, prepare, unique};

const SECRET: &str = "theirs";

/// The caches of an operator that watches one namespace, and an instance there that names a Secret.
struct CacheEnv {
    cluster: Cluster,
    admin: Client,
    namespace: String,
    caches: Caches,
    pending: Pending,
    _watches: JoinSet<()>,
}

impl CacheEnv {
    async fn new(cluster: Cluster, client: Client) -> Self {
        prepare(&cluster).await;
        let namespace = namespace(&cluster).await;
        let arguments = ["firebolt-operator", "run", "--namespaces", &namespace];
        let Command::Run(arguments) = Cli::parse_from(arguments).command else {
            panic!("parsed as another command");
        };
        let environment = Environment {
            namespace: OPERATOR_NAMESPACE.to_owned(),
            host_name: "test".to_owned(),
            nonce: 0,
        };
        let settings = arguments.into_settings(environment);
        let metrics = Metrics::new("test", SystemTime::UNIX_EPOCH);
        let (pending, mut watches) = (Pending::default(), JoinSet::new());
        pending.instances.open();
        let caches = informers::start(&client, &settings, &metrics, &mut watches, &pending);
        Self {
            admin: cluster.client().await.unwrap(),
            cluster,
            namespace,
            caches,
            pending,
            _watches: watches,
        }
    }

    fn instance(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, "main")
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    fn watch(&self, uid: &str) {
        self.caches.credentials.watch(&self.instance(), uid, Some(SECRET));
    }

    /// Waits until the cached Secret is as expected. Every change of it reconciles the instance.
    async fn known<T>(&self, what: &str, is: impl Fn(&CachedCredentials) -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = is(&self.caches.credentials.get(&self.instance())) {
                    return found;
                }
                while !self.pending.instances.take().await.contains_key(&self.instance()) {}
            }
        };
        let Ok(found) = timeout(SOON, found).await else {
            panic!("not {what}: {:?}", self.caches.credentials);
        };
        found
    }

    async fn missing(&self) {
        let is_missing = |known: &CachedCredentials| matches!(known, CachedCredentials::Missing).then_some(());
        self.known("missing", is_missing).await;
    }

    async fn found(&self, what: &str, is: impl Fn(&KnownSecret) -> bool) -> Arc<KnownSecret> {
        let found = |known: &CachedCredentials| match known {
            CachedCredentials::Found(secret) => is(secret).then(|| Arc::clone(secret)),
            CachedCredentials::Unknown(_) | CachedCredentials::Missing => None,
        };
        self.known(what, found).await
    }

    async fn unknown_because(&self, expected: &str) {
        let because = |known: &CachedCredentials| match known {
            CachedCredentials::Unknown(Some(reason)) => reason.contains(expected).then_some(()),
            CachedCredentials::Unknown(None) | CachedCredentials::Missing | CachedCredentials::Found(_) => None,
        };
        self.known(expected, because).await;
    }
}

impl Drop for CacheEnv {
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
    let env = CacheEnv::new(cluster, client).await;
    let missing = || -> Vec<String> {
        let caches = env.caches.all();
        caches.iter().flat_map(|cache| cache.missing()).collect()
    };
    let in_time = timeout(SOON, env.caches.synced()).await;
    assert!(in_time.is_ok(), "{:?}", missing());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_referenced_secret_is_watched_from_its_creation_to_its_deletion() {
    let cluster = Cluster::attach();
    let client = operator_client(&cluster).await;
    let env = CacheEnv::new(cluster, client).await;
    let known = || env.caches.credentials.get(&env.instance());
    assert!(matches!(known(), CachedCredentials::Unknown(None)));
    env.watch("u");
    env.missing().await;

    let created = secret(&json!({ "username": "them", "password": "" }));
    env.secrets().create(&PostParams::default(), &created).await.unwrap();
    let first = env.found("there", |_| true).await;
    assert_eq!(first.credentials_hash, None, "a password is missing");

    let filled = json!({ "stringData": { "password": "secret" } });
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(filled));
    env.secrets().patch(SECRET, &parameters, &patch).await.unwrap();
    let second = env.found("filled", |secret| secret.credentials_hash.is_some()).await;
    let shown = format!("{second:?}");
    assert!(!shown.contains("secret\"") && !shown.contains("c2VjcmV0"), "{shown}");

    // The same Secret, named by a later instance of the same name: another hash, and never the old one.
    env.watch("v");
    assert!(matches!(known(), CachedCredentials::Unknown(None)));
    let third = env
        .found("there again", |secret| secret.credentials_hash.is_some())
        .await;
    assert_ne!(second.credentials_hash, third.credentials_hash);

    env.secrets().delete(SECRET, &DeleteParams::default()).await.unwrap();
    env.missing().await;
    env.caches.credentials.watch(&env.instance(), "v", None);
    assert!(matches!(known(), CachedCredentials::Unknown(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_without_permission_to_read_is_unknown_not_missing() {
    let cluster = Cluster::attach();
    let account = unique("no-permissions");
    // Creates the namespace of the account.
    operator_client(&cluster).await;
    let kubeconfig = cluster
        .service_account_kubeconfig(OPERATOR_NAMESPACE, &account)
        .await
        .unwrap();
    let client = cluster.client_for(&kubeconfig).await.unwrap();
    let env = CacheEnv::new(cluster, client).await;
    env.watch("u");
    env.unknown_because("grant get, list and watch").await;

    let subject = format!("{OPERATOR_NAMESPACE}:{account}");
    let namespace = format!("--namespace={}", env.namespace);
    let rule = [
        "create",
        "role",
        "reader",
        "--verb=list,watch",
        "--resource=secrets",
        &namespace,
    ];
    env.cluster.kubectl(&rule).unwrap();
    let to = format!("--serviceaccount={subject}");
    let grant = ["create", "rolebinding", "reader", "--role=reader", &to, &namespace];
    env.cluster.kubectl(&grant).unwrap();
    timeout(Duration::from_mins(2), env.missing()).await.unwrap();
}
