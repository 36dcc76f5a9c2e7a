//! Latency of the query that wakes an engine, on a whole cluster, compared with the time that its pod takes to start.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use firebolt_api::key::Annotation;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use localkube::Cluster;
use serde_json::json;

use super::sample::Samples;
use super::table::Line;
use super::{Extent, Result};
use crate::demo::query;
use crate::test;

const MANIFEST: &str = include_str!("../demo/demo.yaml");
/// What the manifest calls its objects.
const NAMESPACE: &str = "demo";
const ENGINE: &str = "fireng/analytics";
const LIMIT: &str = "--timeout=240s";
/// It stops when a user scales it to zero, and starts when a wake is requested.
const AUTO_STOP: &str = r#"{"spec":{"autoStop":{"enabled":true,"activeReplicas":1,"idleTimeout":"1h"}}}"#;

pub(super) async fn measure(extent: Extent) -> Result<Vec<Line>> {
    super::report("starting a whole cluster");
    let cluster = test::whole_cluster().await?;
    cluster.kubectl_with_input(&["apply", "--server-side", "-f", "-"], MANIFEST)?;
    wait(&cluster, "fireboltinstance/main", "Ready")?;
    wait(&cluster, ENGINE, "stable")?;
    let client = cluster.client().await?;
    let gateway = query::gateway(&client).await?;
    patch(&cluster, AUTO_STOP)?;
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);

    super::report("waking an engine by a query");
    let (mut answers, mut starts) = (Samples::default(), Samples::default());
    for _ in 0..extent.starts {
        // Otherwise the last wake request would start it again at once.
        let forgotten = json!({ "annotations": { Annotation::WakeRequested.key(): null } });
        let stop = json!({ "metadata": forgotten, "spec": { "replicas": 0 } });
        patch(&cluster, &stop.to_string())?;
        wait(&cluster, ENGINE, "stopped")?;
        let watching = tokio::spawn(start_of_a_pod(pods.clone()));
        let began = Instant::now();
        let asked = tokio::task::block_in_place(|| query::ask(&cluster, gateway, "analytics", "SELECT 42"));
        asked?;
        answers.add(began.elapsed());
        starts.add(watching.await??);
        wait(&cluster, ENGINE, "stable")?;
    }
    let [answer, start] = [answers.median(), starts.median()].map(|median| median.as_secs_f64());
    Ok(vec![Line::shown(
        "first answer of a query that wakes its engine, over the start of the pod",
        format!("{:.2} times ({answer:.2} s over {start:.2} s)", answer / start),
    )])
}

/// How long the next pod of an engine takes from its creation to being ready, as a client that watches observes it.
async fn start_of_a_pod(pods: Api<Pod>) -> std::result::Result<Duration, String> {
    let mut since: HashMap<String, Instant> = HashMap::new();
    let selected = WatchParams::default().labels(&format!("{}=analytics", firebolt_api::key::Label::Engine));
    let events = pods.watch(&selected, "0").await.map_err(|error| error.to_string())?;
    let mut events = Box::pin(events);
    while let Some(event) = events.next().await {
        match event.map_err(|error| error.to_string())? {
            WatchEvent::Added(pod) if !is_ready(&pod) => {
                since.insert(pod.name_any(), Instant::now());
            }
            WatchEvent::Modified(pod) if is_ready(&pod) => {
                if let Some(since) = since.get(&pod.name_any()) {
                    return Ok(since.elapsed());
                }
            }
            WatchEvent::Added(_)
            | WatchEvent::Modified(_)
            | WatchEvent::Deleted(_)
            | WatchEvent::Bookmark(_)
            | WatchEvent::Error(_) => {}
        }
    }
    Err("wait for the pod of the engine".to_owned())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True") && pod.metadata.deletion_timestamp.is_none()
}

fn wait(cluster: &Cluster, object: &str, phase: &str) -> Result<()> {
    let phase = format!("--for=jsonpath={{.status.phase}}={phase}");
    cluster.kubectl(&["wait", object, "-n", NAMESPACE, &phase, LIMIT])?;
    Ok(())
}

fn patch(cluster: &Cluster, patch: &str) -> Result<()> {
    cluster.kubectl(&["patch", ENGINE, "-n", NAMESPACE, "--type=merge", "-p", patch])?;
    Ok(())
}
