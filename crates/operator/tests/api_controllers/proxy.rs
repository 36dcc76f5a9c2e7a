//! A way to the API server on which things go wrong as a test says.
//!
//! An operator that is started with [`Proxy::kubeconfig`] reaches the API server only through the proxy, which speaks
//! as the bearer of the kubeconfig that it was given. What no rule describes passes unchanged, watches as a stream.
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

pub use self::call::{Call, Verb};
pub use self::rule::{Fault, Match, Rule, answer, every, writes};
pub use self::watches::Disturbance;
use self::watches::Watches;
use crate::support::SOON;

/// The connection ends without an answer, or in the middle of one.
#[derive(Clone, Copy, Debug)]
pub struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut the connection")
    }
}

impl std::error::Error for Cut {}

/// A write that the operator asked for.
#[derive(Clone, Debug)]
pub struct Write {
    pub call: Call,
    /// When it was asked for.
    pub at: Instant,
    pub outcome: Outcome,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not known yet.
    Pending,
    /// The API server answered so, whether the operator was told or not.
    Answered(u16),
    /// The proxy answered so in its place.
    Refused(u16),
    /// It never reached the API server.
    Cut,
}

impl Write {
    /// Whether it was carried out.
    pub fn is_stored(&self) -> bool {
        match self.outcome {
            Outcome::Answered(code) => (200..300).contains(&code),
            Outcome::Pending | Outcome::Refused(_) | Outcome::Cut => false,
        }
    }
}

/// A running proxy. It ends when it is dropped, and with it every connection.
pub struct Proxy {
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
    journal: Mutex<Vec<Write>>,
    grown: Condvar,
}

impl Proxy {
    /// Starts one that speaks as the bearer of `kubeconfig`.
    pub fn start(cluster: &Cluster, kubeconfig: &Path) -> Self {
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

    /// The kubeconfig of whoever is to go through the proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Has the fault happen to the requests that are described. Of several rules the oldest that means a request wins;
    /// all of them count it.
    pub fn on(&self, matcher: Match, fault: Fault) -> Rule {
        let rule = Rule::new(matcher, fault);
        self.shared.rules.lock().unwrap().push(rule.clone());
        rule
    }

    /// Holds up the caches of one kind, by its plural: no watch delivers anything, and what fills a cache anew is the
    /// state of now. Single objects and lists for one engine are answered as ever.
    pub fn freeze(&self, resource: &str) {
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
    pub fn thaw(&self, resource: &str) {
        self.shared.watches.thaw(resource);
    }

    /// Does this to every watch of a kind that runs now, and says how many there were.
    pub fn disturb(&self, resource: &str, disturbance: Disturbance) -> usize {
        self.shared.watches.disturb(resource, disturbance)
    }

    /// What was written so far, in the order in which it was asked for. Leases and events are left out.
    pub fn writes(&self) -> Vec<Write> {
        self.shared.journal.lock().unwrap().clone()
    }

    /// Waits until the writes are as described. The description is for the failure.
    pub fn wait_for_writes(&self, what: &str, are: impl Fn(&[Write]) -> bool) -> Vec<Write> {
        self.wait_for_writes_within(SOON, what, are)
    }

    /// Like [`Proxy::wait_for_writes`], for what takes its time.
    pub fn wait_for_writes_within(&self, within: Duration, what: &str, are: impl Fn(&[Write]) -> bool) -> Vec<Write> {
        let journal = self.shared.journal.lock().unwrap();
        let (journal, _) = self
            .shared
            .grown
            .wait_timeout_while(journal, within, |journal| !are(journal))
            .unwrap();
        assert!(are(&journal), "not within {within:?}: {what}: {journal:#?}");
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

/// A client that does exactly what it is told: what goes wrong is for the operator to deal with.
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
