//! The simulated kubelet: watches the pods that are bound to the node and gives each the behaviour that is set for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use localkube::Cluster;
use serde_json::{Value, json};

use crate::kubelet::metrics_server::{Answer, MetricsServer};
use crate::kubelet::pod_status::{self, Behaviour, HOST_ADDRESS, Life};
use crate::kubelet::{EMPTY_LABEL, Instructions, NODE_LABEL};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// As in a real kubelet. The node counts as lost after four missed renewals.
const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// The delay before a failed write is retried.
const RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Kubelet {
    client: Client,
    name: String,
    instructions: Arc<Instructions>,
    /// By UID: a pod can be recreated under the same name.
    node_pods: BTreeMap<String, NodePod>,
    due: BTreeSet<String>,
}

struct NodePod {
    pod: Pod,
    life: Life,
    server: Option<MetricsServer>,
}

/// The name of the node of this process.
fn node_name() -> String {
    format!("simulated-{}", std::process::id())
}

/// The user name of the node of this process.
pub(crate) fn user() -> String {
    format!("system:node:{}", node_name())
}

impl Kubelet {
    /// Registers the node, ready to take pods.
    pub(crate) async fn register(cluster: &Cluster, instructions: Arc<Instructions>) -> Self {
        let name = node_name();
        let kubeconfig = cluster.user_kubeconfig(&user(), Some("system:nodes"));
        let client = cluster.client_for(&kubeconfig.unwrap()).await.unwrap();
        let kubelet = Self {
            client,
            name,
            instructions,
            node_pods: BTreeMap::new(),
            due: BTreeSet::new(),
        };
        kubelet.renew_lease().await.unwrap();
        let nodes: Api<Node> = Api::all(kubelet.client.clone());
        nodes.create(&PostParams::default(), &kubelet.node()).await.unwrap();
        kubelet
    }

    /// Runs for as long as the process does.
    pub(crate) async fn run(mut self) {
        let mine = watcher::Config::default().fields(&format!("spec.nodeName={}", self.name));
        let mut events = watcher(Api::all(self.client.clone()), mine).default_backoff().boxed();
        let mut renewal = tokio::time::interval(LEASE_RENEWAL);
        let instructions = Arc::clone(&self.instructions);
        loop {
            tokio::select! {
                event = events.next() => match event.expect("a watch never ends") {
                    Ok(event) => self.handle(event),
                    Err(error) => self.instructions.report(format!("watch pods: {error}")),
                },
                changed = instructions.changed() => self.queue_changed(&changed),
                _ = renewal.tick() => if let Err(error) = self.renew_lease().await {
                    self.instructions.report(format!("renew the lease of the node: {error}"));
                },
                () = tokio::time::sleep(RETRY), if !self.due.is_empty() => {}
            }
            self.reconcile_due().await;
        }
    }

    fn handle(&mut self, event: Event<Pod>) {
        match event {
            // The API server reports the end of a pod twice: the grace period has ended, then it is deleted.
            Event::Apply(pod) if pod.metadata.deletion_grace_period_seconds == Some(0) => {
                self.node_pods.remove(&pod.uid().expect("a stored pod has a UID"));
            }
            Event::Apply(pod) | Event::InitApply(pod) if self.instructions.is_abandoned(&pod) => {}
            Event::Apply(pod) | Event::InitApply(pod) => {
                let uid = pod.uid().expect("a stored pod has a UID");
                self.due.insert(uid.clone());
                let instructions = &self.instructions;
                let new_node_pod = |pod: Pod| NodePod {
                    life: Life {
                        address: instructions.address(&pod),
                        started: now(),
                    },
                    pod,
                    server: None,
                };
                let pod = &pod;
                self.node_pods
                    .entry(uid)
                    .and_modify(|node_pod| node_pod.pod = pod.clone())
                    .or_insert_with(|| new_node_pod(pod.clone()));
            }
            Event::Delete(pod) => {
                self.node_pods.remove(&pod.uid().expect("a stored pod has a UID"));
            }
            // A pod that was deleted while there was no watch is noticed when its next write fails.
            Event::Init | Event::InitDone => {}
        }
    }

    /// Queues the pods of these namespaces, and drops those whose test is over.
    fn queue_changed(&mut self, namespaces: &BTreeSet<String>) {
        self.node_pods
            .retain(|_, node_pod| !self.instructions.is_abandoned(&node_pod.pod));
        let changed = |node_pod: &NodePod| {
            let namespace = node_pod.pod.metadata.namespace.as_ref();
            namespace.is_some_and(|namespace| namespaces.contains(namespace))
        };
        let due = self.node_pods.iter().filter(|(_, node_pod)| changed(node_pod));
        self.due.extend(due.map(|(uid, _)| uid.clone()));
    }

    async fn reconcile_due(&mut self) {
        for uid in std::mem::take(&mut self.due) {
            let Some(node_pod) = self.node_pods.get_mut(&uid) else {
                continue;
            };
            let pods = Api::namespaced(self.client.clone(), &node_pod.pod.namespace().unwrap_or_default());
            let name = node_pod.pod.name_any();
            match reconcile(node_pod, &pods, &self.instructions).await {
                Ok(Presence::Running) => {}
                Ok(Presence::Deleted) => {
                    self.node_pods.remove(&uid);
                }
                Err(KubeletError::Cluster(kube::Error::Api(status))) if status.code == 404 => {
                    self.node_pods.remove(&uid);
                }
                Err(error) => {
                    self.instructions.report(format!("pod {name}: {error:?}"));
                    self.due.insert(uid);
                }
            }
        }
    }

    fn node(&self) -> Node {
        let plenty = json!({ "cpu": "1000", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "10000" });
        let labels = json!({
            NODE_LABEL: "true", EMPTY_LABEL: "", "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux",
        });
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "The kubelet is simulated.",
            "lastHeartbeatTime": now(), "lastTransitionTime": now(),
        });
        let node = json!({
            "metadata": { "name": self.name, "labels": labels },
            "status": {
                "capacity": plenty, "allocatable": plenty, "conditions": [ready],
                "addresses": [{ "type": "InternalIP", "address": HOST_ADDRESS }],
            },
        });
        serde_json::from_value(node).expect("a node")
    }

    /// Renews the heartbeat Lease, by which the controller manager knows that the node is alive.
    async fn renew_lease(&self) -> kube::Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASE_NAMESPACE);
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(40),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        };
        let apply = PatchParams::apply("kubelet").force();
        leases.patch(&self.name, &apply, &Patch::Apply(lease)).await.map(|_| ())
    }
}

/// Whether a pod is still on the node.
enum Presence {
    Running,
    Deleted,
}

#[derive(Debug)]
#[expect(dead_code, reason = "shown in the failure of a test")]
enum KubeletError {
    Cluster(kube::Error),
    Listen(std::io::Error),
}

/// Reconciles one pod. Its server starts first: a pod that is reported as running can be scraped.
async fn reconcile(
    node_pod: &mut NodePod,
    pods: &Api<Pod>,
    instructions: &Arc<Instructions>,
) -> Result<Presence, KubeletError> {
    let behaviour = instructions.behaviour(&node_pod.pod);
    let terminating = node_pod.pod.metadata.deletion_timestamp.is_some();
    if terminating && behaviour != Behaviour::HoldTermination {
        node_pod.server = None;
        end(&node_pod.pod, pods).await?;
        return Ok(Presence::Deleted);
    }
    let open = behaviour.runs() && instructions.answer(&node_pod.pod) != Answer::Refuse;
    if !open {
        node_pod.server = None;
    } else if node_pod.server.is_none() {
        let (instructions, pod) = (Arc::clone(instructions), node_pod.pod.clone());
        let ask = Arc::new(move || instructions.answer_scrape(&pod));
        let server = MetricsServer::open(node_pod.life.address, ask).await;
        node_pod.server = Some(server.map_err(KubeletError::Listen)?);
    }
    if !terminating {
        report_status(node_pod, behaviour, pods).await?;
    }
    Ok(Presence::Running)
}

async fn report_status(node_pod: &mut NodePod, behaviour: Behaviour, pods: &Api<Pod>) -> Result<(), KubeletError> {
    let pod = &node_pod.pod;
    let desired = pod_status::desired(pod, behaviour, &node_pod.life, &now());
    if pod
        .status
        .as_ref()
        .is_some_and(|live| pod_status::matches(live, &desired))
    {
        return Ok(());
    }
    let mut status = json!(desired);
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        // A field that is not in the patch stays: a pod that is ready again would keep the reason why it was not.
        let fields = condition.as_object_mut().expect("a condition has fields");
        fields.entry("reason").or_insert(Value::Null);
    }
    let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid() }, "status": status }));
    let patched = pods
        .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
        .await;
    node_pod.pod = patched.map_err(KubeletError::Cluster)?;
    Ok(())
}

/// Takes the pod off the node, as a kubelet does once its containers have ended.
async fn end(pod: &Pod, pods: &Api<Pod>) -> Result<(), KubeletError> {
    let this = Preconditions {
        uid: pod.uid(),
        resource_version: None,
    };
    let at_once = DeleteParams::default().grace_period(0).preconditions(this);
    let deleted = pods.delete(&pod.name_any(), &at_once).await;
    deleted.map(|_| ()).map_err(KubeletError::Cluster)
}

/// Times in the status of a pod end at whole seconds.
fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
