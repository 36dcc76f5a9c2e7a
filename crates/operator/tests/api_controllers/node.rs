//! The part of a kubelet that the operator can see: a node that takes every pod the scheduler gives it, reports how the
//! pod fares, serves its metrics and ends it. Tests decide how pods fare and what their metrics say.
//!
//! It speaks as a kubelet does, under the identity of its node, so that the rules for kubelets hold for it too.
//!
//! # Caveats
//!
//! One test process per cluster at a time: a node that starts removes those of earlier processes. Pods get loopback
//! addresses, which the controller of endpoint slices and the proxy of the API server refuse, unless a test houses them
//! elsewhere.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use localkube::Cluster;
use tokio::sync::Notify;

use crate::kubelet::Kubelet;
use crate::metrics_server::{Answer, PORT};
use crate::pod_status::Behaviour;

/// What tells the nodes of tests from others.
pub const NODE_LABEL: &str = "tests.firebolt.io/played";

/// What tests tell the node, and what it has to tell.
#[derive(Default)]
pub struct Orders {
    behaviours: Mutex<Rules<Behaviour>>,
    answers: Mutex<Rules<Answer>>,
    addresses: Mutex<Rules<Ipv4Addr>>,
    scrapes: Mutex<Vec<(String, String)>>,
    trouble: Mutex<Vec<String>>,
    pub changed: Notify,
}

/// Settings by namespace and pod, of which the latest that fits counts.
struct Rules<T>(Vec<Rule<T>>);

struct Rule<T> {
    namespace: String,
    pods: String,
    setting: T,
}

/// The handle of the node.
pub struct Node {
    orders: Arc<Orders>,
    thread: thread::JoinHandle<()>,
}

impl Node {
    /// The node of this process, which is started when it is first asked for.
    pub fn get() -> &'static Self {
        static NODE: OnceLock<Node> = OnceLock::new();
        NODE.get_or_init(Self::start)
    }

    fn start() -> Self {
        let orders = Arc::<Orders>::default();
        let shared = Arc::clone(&orders);
        let (ready, wait) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let cluster = Cluster::attach();
                clear_earlier_nodes(cluster.client().await.unwrap()).await;
                let kubelet = Kubelet::register(&cluster, shared).await;
                ready.send(()).unwrap();
                kubelet.run().await;
            });
        });
        wait.recv().expect("the node registers; see the panic of its thread");
        Self { orders, thread }
    }

    /// From now on, those pods of the namespace fare like this: the pod of that name, or all pods of the StatefulSet of
    /// that name, or all pods if the name is empty. Pods that exist already change at once.
    pub fn plan(&self, namespace: &str, pods: &str, behaviour: Behaviour) {
        self.orders.behaviours.lock().unwrap().set(namespace, pods, behaviour);
        self.orders.changed.notify_one();
    }

    /// From now on, those pods answer like this; named as in [`Node::plan`].
    pub fn metrics(&self, namespace: &str, pods: &str, answer: Answer) {
        self.orders.answers.lock().unwrap().set(namespace, pods, answer);
        self.orders.changed.notify_one();
    }

    /// Those pods, once they are created, live at this address; named as in [`Node::plan`].
    pub fn house(&self, namespace: &str, pods: &str, address: Ipv4Addr) {
        self.orders.addresses.lock().unwrap().set(namespace, pods, address);
    }

    /// How often the metrics of those pods were asked for; named as in [`Node::plan`].
    pub fn scrapes(&self, namespace: &str, pods: &str) -> usize {
        let scrapes = self.orders.scrapes.lock().unwrap();
        let of_pods = |(of, pod): &&(String, String)| of == namespace && is_one_of(pod, pods);
        scrapes.iter().filter(of_pods).count()
    }

    /// Lets the pods of a namespace fare as usual again.
    pub fn forget(&self, namespace: &str) {
        self.orders.behaviours.lock().unwrap().forget(namespace);
        self.orders.answers.lock().unwrap().forget(namespace);
        self.orders.addresses.lock().unwrap().forget(namespace);
        self.orders.changed.notify_one();
    }

    /// What went wrong on the node so far, for the failure of a test.
    pub fn trouble(&self) -> String {
        let end = if self.thread.is_finished() {
            "the node has died\n"
        } else {
            ""
        };
        let trouble = self.orders.trouble.lock().unwrap();
        format!("{end}{}", trouble.join("\n"))
    }
}

impl Orders {
    pub fn behaviour(&self, pod: &Pod) -> Behaviour {
        let planned = self.behaviours.lock().unwrap().of(pod);
        planned.unwrap_or(Behaviour::Ready)
    }

    pub fn answer(&self, pod: &Pod) -> Answer {
        self.answers.lock().unwrap().of(pod).unwrap_or(Answer::IDLE)
    }

    /// Where the pod lives: a place of its own, unless it was given one.
    pub fn address(&self, pod: &Pod) -> Ipv4Addr {
        let given = self.addresses.lock().unwrap().of(pod);
        given.unwrap_or_else(free_address)
    }

    /// The answer to a request, which is counted.
    pub fn answer_scrape(&self, pod: &Pod) -> Answer {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        // Chosen before it is counted: whoever sees the count grow knows that older answers are all given.
        let answer = self.answer(pod);
        self.scrapes.lock().unwrap().push(key);
        answer
    }

    pub fn report(&self, trouble: String) {
        self.trouble.lock().unwrap().push(trouble);
    }
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Rules<T> {
    fn set(&mut self, namespace: &str, pods: &str, setting: T) {
        self.0.push(Rule {
            namespace: namespace.to_owned(),
            pods: pods.to_owned(),
            setting,
        });
    }

    fn forget(&mut self, namespace: &str) {
        self.0.retain(|rule| rule.namespace != namespace);
    }

    fn of(&self, pod: &Pod) -> Option<T> {
        let fits = |rule: &&Rule<T>| {
            pod.metadata.namespace.as_ref() == Some(&rule.namespace) && is_one_of(&pod.name_any(), &rule.pods)
        };
        self.0.iter().rev().find(fits).map(|rule| rule.setting.clone())
    }
}

/// `a-g1` names the pod `a-g1` and the pods `a-g1-0`, `a-g1-1` and so on, but not `a-g10-0`.
fn is_one_of(pod: &str, pods: &str) -> bool {
    let rest = pod.strip_prefix(pods);
    pods.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// An address that no other pod has, on this machine too.
fn free_address() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    // Processes that run side by side start in different places, and step aside where they meet all the same.
    let network = u8::try_from(1 + std::process::id() % 254).expect("below 255");
    loop {
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let address = Ipv4Addr::new(127, network, high, low);
        match TcpListener::bind((address, PORT)) {
            Ok(_) => return address,
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && high < u8::MAX => {}
            Err(error) => panic!("listen on {address}:{PORT}: {error}"),
        }
    }
}

/// Removes what earlier processes left: the scheduler would go on to fill a node that nobody plays any more.
async fn clear_earlier_nodes(client: Client) {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let earlier = nodes.list(&ListParams::default().labels(NODE_LABEL)).await.unwrap();
    for node in earlier {
        nodes.delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
        let on_it = ListParams::default().fields(&format!("spec.nodeName={}", node.name_any()));
        for pod in Api::<Pod>::all(client.clone()).list(&on_it).await.unwrap() {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
            let at_once = DeleteParams::default().grace_period(0);
            let deleted = pods.delete(&pod.name_any(), &at_once).await;
            // Its StatefulSet may be going at the same time.
            let gone = deleted.as_ref().is_err_and(is_not_found);
            assert!(deleted.is_ok() || gone, "delete pod {}: {deleted:?}", pod.name_any());
        }
    }
}

pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_pod_or_for_the_pods_of_a_stateful_set() {
        assert!(is_one_of("a-g1-0", "a-g1") && is_one_of("a-g1-0", "a-g1-0") && is_one_of("a-g1-0", ""));
        assert!(!is_one_of("a-g10-0", "a-g1") && !is_one_of("b-g1-0", "a-g1"));
    }
}
