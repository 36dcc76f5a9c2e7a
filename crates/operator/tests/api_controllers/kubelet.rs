//! The work of the node: it follows the pods that are bound to it and makes each of them what was ordered.

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

use crate::metrics_server::{Answer, MetricsServer};
use crate::node::{NODE_LABEL, Orders};
use crate::pod_status::{self, Behaviour, HOST_ADDRESS, Life};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// As a kubelet has it. The node counts as lost after four missed ones.
const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// When a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

pub struct Kubelet {
    client: Client,
    name: String,
    orders: Arc<Orders>,
    /// By UID: a pod may come back under the same name.
    residents: BTreeMap<String, Resident>,
    due: BTreeSet<String>,
}

struct Resident {
    pod: Pod,
    life: Life,
    server: Option<MetricsServer>,
}

/// The name of the node of this process.
fn node_name() -> String {
    format!("played-{}", std::process::id())
}

/// Who the node of this process is to the API server.
pub fn user() -> String {
    format!("system:node:{}", node_name())
}

impl Kubelet {
    /// Registers the node, ready to take pods.
    pub async fn register(cluster: &Cluster, orders: Arc<Orders>) -> Self {
        let name = node_name();
        let kubeconfig = cluster.user_kubeconfig(&user(), Some("system:nodes"));
        let client = cluster.client_for(&kubeconfig.unwrap()).await.unwrap();
        let kubelet = Self {
            client,
            name,
            orders,
            residents: BTreeMap::new(),
            due: BTreeSet::new(),
        };
        kubelet.renew_lease().await.unwrap();
        let nodes: Api<Node> = Api::all(kubelet.client.clone());
        nodes.create(&PostParams::default(), &kubelet.node()).await.unwrap();
        kubelet
    }

    /// Runs for as long as the process does.
    pub async fn run(mut self) {
        let mine = watcher::Config::default().fields(&format!("spec.nodeName={}", self.name));
        let mut events = watcher(Api::all(self.client.clone()), mine).default_backoff().boxed();
        let mut renewal = tokio::time::interval(LEASE_RENEWAL);
        let orders = Arc::clone(&self.orders);
        loop {
            tokio::select! {
                event = events.next() => match event.expect("a watch goes on for ever") {
                    Ok(event) => self.note(event),
                    Err(error) => self.orders.report(format!("watch pods: {error}")),
                },
                () = orders.changed.notified() => self.due = self.residents.keys().cloned().collect(),
                _ = renewal.tick() => if let Err(error) = self.renew_lease().await {
                    self.orders.report(format!("renew the lease of the node: {error}"));
                },
                () = tokio::time::sleep(RETRY), if !self.due.is_empty() => {}
            }
            self.work().await;
        }
    }

    fn note(&mut self, event: Event<Pod>) {
        match event {
            // The API server tells of the end of a pod twice: its time is up, then it is gone.
            Event::Apply(pod) if pod.metadata.deletion_grace_period_seconds == Some(0) => {
                self.residents.remove(&pod.uid().expect("a stored pod has a UID"));
            }
            Event::Apply(pod) | Event::InitApply(pod) => {
                let uid = pod.uid().expect("a stored pod has a UID");
                self.due.insert(uid.clone());
                let orders = &self.orders;
                let settle = |pod: Pod| Resident {
                    life: Life {
                        address: orders.address(&pod),
                        started: now(),
                    },
                    pod,
                    server: None,
                };
                let pod = &pod;
                self.residents
                    .entry(uid)
                    .and_modify(|resident| resident.pod = pod.clone())
                    .or_insert_with(|| settle(pod.clone()));
            }
            Event::Delete(pod) => {
                self.residents.remove(&pod.uid().expect("a stored pod has a UID"));
            }
            // A pod that went while nobody watched is found out when its next write fails.
            Event::Init | Event::InitDone => {}
        }
    }

    async fn work(&mut self) {
        for uid in std::mem::take(&mut self.due) {
            let Some(resident) = self.residents.get_mut(&uid) else {
                continue;
            };
            let pods = Api::namespaced(self.client.clone(), &resident.pod.namespace().unwrap_or_default());
            let name = resident.pod.name_any();
            match settle(resident, &pods, &self.orders).await {
                Ok(Residence::Stays) => {}
                Ok(Residence::Ended) => {
                    self.residents.remove(&uid);
                }
                Err(Trouble::Cluster(kube::Error::Api(status))) if status.code == 404 => {
                    self.residents.remove(&uid);
                }
                Err(trouble) => {
                    self.orders.report(format!("pod {name}: {trouble:?}"));
                    self.due.insert(uid);
                }
            }
        }
    }

    fn node(&self) -> Node {
        let plenty = json!({ "cpu": "1000", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "10000" });
        let labels = json!({ NODE_LABEL: "true", "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux" });
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "The kubelet is played.",
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

    /// The sign of life by which the controller manager knows that the node is not lost.
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

/// What has become of a pod.
enum Residence {
    Stays,
    Ended,
}

#[derive(Debug)]
#[expect(dead_code, reason = "shown to whoever reads the failure of a test")]
enum Trouble {
    Cluster(kube::Error),
    Listen(std::io::Error),
}

/// Makes one pod what was ordered. Its server comes first: a pod that says it runs can be asked.
async fn settle(resident: &mut Resident, pods: &Api<Pod>, orders: &Arc<Orders>) -> Result<Residence, Trouble> {
    let behaviour = orders.behaviour(&resident.pod);
    let terminating = resident.pod.metadata.deletion_timestamp.is_some();
    if terminating && behaviour != Behaviour::HoldTermination {
        resident.server = None;
        end(&resident.pod, pods).await?;
        return Ok(Residence::Ended);
    }
    let open = behaviour.runs() && orders.answer(&resident.pod) != Answer::Refuse;
    if !open {
        resident.server = None;
    } else if resident.server.is_none() {
        let (orders, pod) = (Arc::clone(orders), resident.pod.clone());
        let ask = Arc::new(move || orders.answer_scrape(&pod));
        let server = MetricsServer::open(resident.life.address, ask).await;
        resident.server = Some(server.map_err(Trouble::Listen)?);
    }
    if !terminating {
        report(resident, behaviour, pods).await?;
    }
    Ok(Residence::Stays)
}

async fn report(resident: &mut Resident, behaviour: Behaviour, pods: &Api<Pod>) -> Result<(), Trouble> {
    let pod = &resident.pod;
    let wanted = pod_status::wanted(pod, behaviour, &resident.life, &now());
    if pod.status.as_ref().is_some_and(|live| pod_status::says(live, &wanted)) {
        return Ok(());
    }
    let mut status = json!(wanted);
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        // What is left out of a patch stays: a pod that is ready again would keep the reason why it was not.
        let fields = condition.as_object_mut().expect("a condition has fields");
        fields.entry("reason").or_insert(Value::Null);
    }
    let patch = Patch::Strategic(json!({ "metadata": { "uid": pod.uid() }, "status": status }));
    let patched = pods
        .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
        .await;
    resident.pod = patched.map_err(Trouble::Cluster)?;
    Ok(())
}

/// Takes the pod off the node, as a kubelet does once its containers have ended.
async fn end(pod: &Pod, pods: &Api<Pod>) -> Result<(), Trouble> {
    let this = Preconditions {
        uid: pod.uid(),
        resource_version: None,
    };
    let at_once = DeleteParams::default().grace_period(0).preconditions(this);
    let deleted = pods.delete(&pod.name_any(), &at_once).await;
    deleted.map(|_| ()).map_err(Trouble::Cluster)
}

/// Times in the status of a pod end at whole seconds.
fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
