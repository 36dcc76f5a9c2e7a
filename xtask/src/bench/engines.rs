//! Many engines, as a client of the API server observes them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use firebolt_api::{EnginePhase, FireboltEngine};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use localkube::Cluster;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Result, apply};

const NAMESPACE: &str = "bench";
/// An instance of which there is nothing but its id: engines that never run need no more.
const INSTANCE: &str = r"
apiVersion: v1
kind: Namespace
metadata: { name: bench }
---
apiVersion: compute.firebolt.io/v1alpha1
kind: FireboltInstance
metadata: { name: main, namespace: bench }
spec:
  id: 01J00000000000000000000000
  gateway: {}
  metadata:
    postgres: { host: database.example, database: metadata, credentialsSecretRef: { name: never-there } }
";
/// Requests at the same time.
const PARALLEL: usize = 32;
/// How long anything may take.
const LIMIT: Duration = Duration::from_mins(10);
/// Where engines report how many queries they run.
const METRICS_PORT: u16 = 9090;

/// What was last seen of an engine.
#[derive(Clone, Copy, Debug)]
struct EngineProgress {
    phase: Option<EnginePhase>,
    /// The status is about the specification as it is.
    settled: bool,
    /// When it was first seen with replicas, since it last had none.
    grew: Option<Instant>,
}

#[derive(Default)]
struct Observed {
    engines: Mutex<HashMap<String, EngineProgress>>,
    changed: Notify,
}

/// The engines of one namespace, watched.
pub(super) struct Fleet {
    pub(super) engines: Api<FireboltEngine>,
    pods: Api<Pod>,
    observed: Arc<Observed>,
    watch: JoinHandle<()>,
    /// Pods that take connections and never answer live here.
    holes: Vec<TcpListener>,
}

impl Fleet {
    /// An empty one, with the instance that its engines belong to.
    pub(super) async fn begin(cluster: &Cluster) -> Result<Self> {
        cluster.kubectl_with_input(&["apply", "--server-side", "-f", "-"], INSTANCE)?;
        let client: Client = cluster.client().await?;
        let engines: Api<FireboltEngine> = Api::namespaced(client.clone(), NAMESPACE);
        let observed = Arc::<Observed>::default();
        let watch = tokio::spawn(watch(engines.clone(), Arc::clone(&observed)));
        Ok(Self {
            engines,
            pods: Api::namespaced(client, NAMESPACE),
            observed,
            watch,
            holes: Vec::new(),
        })
    }

    /// Adds stopped engines, and waits until the operator is done with them.
    pub(super) async fn add(&self, names: &[String]) -> Result<()> {
        each(names, async |name| apply::create(&self.engines, &engine(name, 0)).await).await?;
        self.wait_for(names, EnginePhase::Stopped).await
    }

    /// Adds running engines whose pods are scraped all the time and never respond.
    pub(super) async fn add_black_holes(&mut self, names: &[String]) -> Result<()> {
        each(names, async |name| apply::create(&self.engines, &engine(name, 1)).await).await?;
        let mut waiting: Vec<&String> = names.iter().collect();
        let deadline = Instant::now() + LIMIT;
        while !waiting.is_empty() {
            let pods = self.pods.list(&ListParams::default()).await?;
            let there: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
            for name in waiting.extract_if(.., |name| there.contains(&format!("{name}-g0-0"))) {
                let address = self.dig()?;
                apply::run_at(&self.pods, &format!("{name}-g0-0"), address).await?;
            }
            if Instant::now() > deadline {
                return Err("wait for the pods of engines".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.wait_for(names, EnginePhase::Stable).await
    }

    /// An address that accepts connections and never responds.
    fn dig(&mut self) -> Result<IpAddr> {
        let number = u8::try_from(self.holes.len() + 1)?;
        let address = Ipv4Addr::new(127, 99, 0, number);
        self.holes.push(TcpListener::bind((address, METRICS_PORT))?);
        Ok(address.into())
    }

    /// Stops engines, and waits until they have stopped.
    pub(super) async fn stop(&self, names: &[String]) -> Result<()> {
        each(names, async |name| apply::stop(&self.engines, name).await).await?;
        self.wait_for(names, EnginePhase::Stopped).await
    }

    /// Asks for all of these engines at once.
    pub(super) async fn wake(&self, names: &[String]) -> Result<()> {
        each(names, async |name| apply::wake(&self.engines, name).await).await
    }

    /// Waits until the engine has replicas, and says when that was seen.
    pub(super) async fn grown(&self, name: &str) -> Result<Instant> {
        self.until(&format!("engine {name} is woken"), |engines| {
            engines.get(name).and_then(|seen| seen.grew)
        })
        .await
    }

    /// Waits until the operator has begun to start the engine, so that it is idle again soon.
    pub(super) async fn started(&self, name: &str) -> Result<()> {
        let creates = |seen: &&EngineProgress| seen.phase == Some(EnginePhase::Creating);
        self.until(&format!("engine {name} starts"), |engines| {
            engines.get(name).filter(creates).map(|_| ())
        })
        .await
    }

    async fn wait_for(&self, names: &[String], phase: EnginePhase) -> Result<()> {
        let there = |seen: &EngineProgress| seen.settled && seen.phase == Some(phase);
        self.until(&format!("all engines are {phase}"), |engines| {
            let all = names.iter().all(|name| engines.get(name).is_some_and(there));
            all.then_some(())
        })
        .await
    }

    async fn until<T>(
        &self,
        what: &str,
        mut check: impl FnMut(&HashMap<String, EngineProgress>) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let changed = self.observed.changed.notified();
            let found = check(&self.observed.engines.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(found) = found {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, changed).await.is_err() {
                return Err(format!("wait until {what}").into());
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Does something for each name, for many at the same time.
async fn each(names: &[String], act: impl AsyncFn(&str) -> Result<()>) -> Result<()> {
    let acts = names.iter().map(|name| act(name));
    stream::iter(acts).buffer_unordered(PARALLEL).try_collect().await
}

/// An engine that is started on request and never stops by itself; its queries are counted every second.
fn engine(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "compute.firebolt.io/v1alpha1", "kind": "FireboltEngine", "metadata": { "name": name },
        "spec": {
            "instanceRef": "main", "replicas": replicas, "metadataEndpointOverride": "metadata.example:7000",
            "autoStop": { "enabled": true, "activeReplicas": 1, "idleTimeout": "1h", "pollInterval": "1s" },
        },
    })
}

/// Records the states of engines. A watch that ends is restarted.
async fn watch(engines: Api<FireboltEngine>, observed: Arc<Observed>) {
    loop {
        let Ok(events) = engines.watch(&WatchParams::default(), "0").await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let mut events = Box::pin(events);
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(engine) | WatchEvent::Modified(engine) = event {
                note(&observed, &engine);
            }
        }
    }
}

fn note(observed: &Observed, engine: &FireboltEngine) {
    let now = Instant::now();
    let status = engine.status.as_ref();
    let mut engines = observed.engines.lock().unwrap_or_else(PoisonError::into_inner);
    let before = engines.get(&engine.name_any()).and_then(|seen| seen.grew);
    let seen = EngineProgress {
        phase: status.and_then(|status| status.phase),
        settled: status.and_then(|status| status.observed_generation) == engine.metadata.generation,
        grew: (engine.spec.replicas > 0).then(|| before.unwrap_or(now)),
    };
    engines.insert(engine.name_any(), seen);
    drop(engines);
    observed.changed.notify_waiters();
}
