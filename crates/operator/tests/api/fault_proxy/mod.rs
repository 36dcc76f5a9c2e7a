//! A proxy in front of the API server that injects faults.
//!
//! An operator that is started with [`Proxy::kubeconfig`] reaches the API server only through the proxy, which
//! authenticates with the kubeconfig that it was given. What no rule matches passes unchanged, watches as a stream.
//!
//! The proxy has threads of its own, so that a test may block.

mod call;
mod rule;
mod serve;
#[cfg(test)]
mod tests;
mod watches;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use localkube::Cluster;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub(crate) use self::call::{Call, Verb};
pub(crate) use self::rule::{Fault, Match, Rule, answer, every, writes};
pub(crate) use self::watches::Disturbance;
use self::watches::Watches;
use testkit::wait::SOON;

/// The connection ends without a response, or in the middle of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut the connection")
    }
}

impl std::error::Error for Cut {}

/// A write request of the operator.
#[derive(Clone, Debug)]
pub(crate) struct ProxiedWrite {
    pub call: Call,
    /// When it was received.
    pub at: Instant,
    pub outcome: Outcome,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not known yet.
    Pending,
    /// The API server responded with this status, whether or not the operator received it.
    Answered(u16),
    /// The proxy responded with this status instead.
    Refused(u16),
    /// It never reached the API server.
    Cut,
}

impl ProxiedWrite {
    /// Whether it was carried out.
    pub(crate) fn is_stored(&self) -> bool {
        match self.outcome {
            Outcome::Answered(code) => (200..300).contains(&code),
            Outcome::Pending | Outcome::Refused(_) | Outcome::Cut => false,
        }
    }
}

/// A running proxy. It ends when it is dropped, and with it every connection.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    /// Speaks as the administrator, for what the operator may not ask.
    admin: Client,
    runtime: Option<Runtime>,
    folder: TempDir,
}

struct Shared {
    upstream: Client,
    rules: Mutex<Vec<Rule>>,
    watches: Watches,
    journal: Mutex<Vec<ProxiedWrite>>,
    grown: Condvar,
}

impl Proxy {
    /// Starts one that speaks as the bearer of `kubeconfig`.
    pub(crate) fn start(cluster: &Cluster, kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (bearer, admin) = (kubeconfig.to_owned(), cluster.kubeconfig_admin());
        let clients = async move { (client(&bearer).await, client(&admin).await) };
        let (upstream, admin) = run(&runtime, clients);
        let shared = Arc::new(Shared {
            upstream,
            rules: Mutex::default(),
            watches: Watches::new(),
            journal: Mutex::default(),
            grown: Condvar::new(),
        });
        let listener = run(&runtime, async { TcpListener::bind("127.0.0.1:0").await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig_for(&url)).unwrap();
        runtime.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            shared,
            admin,
            runtime: Some(runtime),
            folder,
        }
    }

    /// The kubeconfig of a client of the proxy.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Injects the fault into the requests that match. If several rules match, the oldest one applies; all of them
    /// count the request.
    pub(crate) fn on(&self, matcher: Match, fault: Fault) -> Rule {
        let rule = Rule::new(matcher, fault);
        self.shared.rules.lock().unwrap().push(rule.clone());
        rule
    }

    /// Holds up the caches of one kind, by its plural: no watch delivers anything, and what fills a cache anew is the
    /// state of now. Single objects and lists for one engine are answered as ever.
    pub(crate) fn freeze(&self, resource: &str) {
        let admin = self.admin.clone();
        let newest = async move {
            let request = axum::http::Request::get("/api/v1/namespaces?limit=1").body(Vec::new());
            let list: serde_json::Value = admin.request(request.unwrap()).await.unwrap();
            list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
        };
        let version = run(self.runtime.as_ref().expect("it runs"), newest);
        self.shared.watches.freeze(resource, version);
    }

    /// Delivers what was held up, in order, and everything after it.
    pub(crate) fn thaw(&self, resource: &str) {
        self.shared.watches.thaw(resource);
    }

    /// Disturbs every running watch of a kind, and returns their number.
    pub(crate) fn disturb(&self, resource: &str, disturbance: Disturbance) -> usize {
        self.shared.watches.disturb(resource, disturbance)
    }

    /// The writes so far, in the order of their requests, without leases and events.
    pub(crate) fn writes(&self) -> Vec<ProxiedWrite> {
        self.shared.journal.lock().unwrap().clone()
    }

    /// Waits until the writes are as described. The description is for the failure.
    pub(crate) fn wait_for_writes(&self, what: &str, are: impl Fn(&[ProxiedWrite]) -> bool) -> Vec<ProxiedWrite> {
        self.wait_for_writes_within(SOON, what, are)
    }

    /// Like [`Proxy::wait_for_writes`], for slow writes.
    pub(crate) fn wait_for_writes_within(
        &self,
        within: Duration,
        what: &str,
        are: impl Fn(&[ProxiedWrite]) -> bool,
    ) -> Vec<ProxiedWrite> {
        let journal = self.shared.journal.lock().unwrap();
        let (journal, _) = self
            .shared
            .grown
            .wait_timeout_while(journal, within, |journal| !are(journal))
            .unwrap();
        assert!(are(&journal), "timed out after {within:?}: {what}: {journal:#?}");
        journal.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self
                .writes()
                .into_iter()
                .map(|write| format!("{} {:?}", write.call, write.outcome));
            eprintln!("writes through the proxy: {:#?}", lines.collect::<Vec<_>>());
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a future on a runtime, wherever the caller is.
fn run<T: Send + 'static>(runtime: &Runtime, future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move { sender.send(future.await) });
    receiver.recv().expect("the future does not panic")
}

/// A client without retries and without a read timeout: failures are left to the operator.
async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.default_retry = false;
    config.read_timeout = None;
    Client::try_from(config).unwrap()
}

fn kubeconfig_for(url: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "proxy", "cluster": { "server": url } }],
        "users": [{ "name": "operator", "user": {} }],
        "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "operator" } }],
        "current-context": "proxy",
    });
    format!("{config:#}\n")
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| serve::serve(Arc::clone(&shared), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}
