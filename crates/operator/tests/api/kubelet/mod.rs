//! A simulated kubelet: a node that runs every pod the scheduler binds to it, reports pod status, serves pod metrics and
//! terminates pods. Tests choose how pods behave and what their metrics say.
//!
//! It uses the identity of its node, so that the admission rules for kubelets apply to it too.
//!
//! # Caveats
//!
//! One test process per cluster at a time: a node that starts removes those of earlier processes. Pods get loopback
//! addresses, which the controller of endpoint slices and the proxy of the API server reject, unless a test assigns
//! other ones.

pub(crate) mod agent;
pub(crate) mod metrics_server;
pub(crate) mod pod_status;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use localkube::Cluster;
use tokio::sync::Notify;

use self::agent::Kubelet;
use crate::kubelet::metrics_server::{Answer, PORT};
use crate::kubelet::pod_status::Behaviour;

/// Marks the nodes of tests.
pub(crate) const NODE_LABEL: &str = "tests.firebolt.io/simulated";
/// A label of theirs with an empty value, as those that name the role of a node.
pub(crate) const EMPTY_LABEL: &str = "tests.firebolt.io/empty";

/// The settings by tests, and what the node recorded.
#[derive(Default)]
pub(crate) struct Instructions {
    behaviours: Mutex<PodSettings<Behaviour>>,
    answers: Mutex<PodSettings<Answer>>,
    addresses: Mutex<PodSettings<Ipv4Addr>>,
    scrapes: Mutex<Vec<(String, String)>>,
    errors: Mutex<Vec<String>>,
    /// The namespaces whose settings have changed.
    changed: Mutex<BTreeSet<String>>,
    /// The namespaces whose tests are over.
    abandoned: Mutex<BTreeSet<String>>,
    notify: Notify,
}

/// Settings by namespace and pod; the latest one that matches wins.
struct PodSettings<T>(Vec<PodSetting<T>>);

struct PodSetting<T> {
    namespace: String,
    pods: String,
    value: T,
}

/// The handle of the node.
pub(crate) struct Node {
    instructions: Arc<Instructions>,
    thread: thread::JoinHandle<()>,
}

impl Node {
    /// The node of this process, which is started on first use.
    pub(crate) fn get() -> &'static Self {
        static NODE: OnceLock<Node> = OnceLock::new();
        NODE.get_or_init(Self::start)
    }

    fn start() -> Self {
        let instructions = Arc::<Instructions>::default();
        let shared = Arc::clone(&instructions);
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
        Self { instructions, thread }
    }

    /// Sets the behaviour of pods of the namespace: the pod of that name, or all pods of the StatefulSet of that name, or all
    /// pods if the name is empty. Existing pods change at once.
    pub(crate) fn set_behaviour(&self, namespace: &str, pods: &str, behaviour: Behaviour) {
        self.set_behaviours(namespace, &[(pods, behaviour)]);
    }

    /// Like [`Node::set_behaviour`] for each of these in order, as one change: the node never sees only some of them.
    pub(crate) fn set_behaviours(&self, namespace: &str, behaviours: &[(&str, Behaviour)]) {
        let mut settings = self.instructions.behaviours.lock().unwrap();
        for (pods, behaviour) in behaviours {
            settings.set(namespace, pods, *behaviour);
        }
        drop(settings);
        self.instructions.change(namespace);
    }

    /// Sets the response of those pods to scrapes; named as in [`Node::set_behaviour`].
    pub(crate) fn metrics(&self, namespace: &str, pods: &str, answer: Answer) {
        self.instructions.answers.lock().unwrap().set(namespace, pods, answer);
        self.instructions.change(namespace);
    }

    /// Sets the address of those pods, for pods created from now on; named as in [`Node::set_behaviour`].
    pub(crate) fn set_address(&self, namespace: &str, pods: &str, address: Ipv4Addr) {
        self.instructions
            .addresses
            .lock()
            .unwrap()
            .set(namespace, pods, address);
    }

    /// How often the metrics of those pods were scraped; named as in [`Node::set_behaviour`].
    pub(crate) fn scrapes(&self, namespace: &str, pods: &str) -> usize {
        let scrapes = self.instructions.scrapes.lock().unwrap();
        let of_pods = |(of, pod): &&(String, String)| of == namespace && is_one_of(pod, pods);
        scrapes.iter().filter(of_pods).count()
    }

    /// Resets the pods of a namespace to the defaults.
    pub(crate) fn forget(&self, namespace: &str) {
        self.instructions.behaviours.lock().unwrap().forget(namespace);
        self.instructions.answers.lock().unwrap().forget(namespace);
        self.instructions.addresses.lock().unwrap().forget(namespace);
        self.instructions.change(namespace);
    }

    /// Stops managing the pods of a namespace: its test is over.
    pub(crate) fn abandon(&self, namespace: &str) {
        self.instructions.abandoned.lock().unwrap().insert(namespace.to_owned());
        self.forget(namespace);
    }

    /// The errors of the node so far, for the failure of a test.
    pub(crate) fn errors(&self) -> String {
        let end = if self.thread.is_finished() {
            "the thread of the node has ended\n"
        } else {
            ""
        };
        let errors = self.instructions.errors.lock().unwrap();
        format!("{end}{}", errors.join("\n"))
    }
}

impl Instructions {
    pub(crate) fn behaviour(&self, pod: &Pod) -> Behaviour {
        let set = self.behaviours.lock().unwrap().of(pod);
        set.unwrap_or(Behaviour::Ready)
    }

    pub(crate) fn answer(&self, pod: &Pod) -> Answer {
        self.answers.lock().unwrap().of(pod).unwrap_or(Answer::IDLE)
    }

    /// The address of the pod: one of its own, unless a test has set one.
    pub(crate) fn address(&self, pod: &Pod) -> Ipv4Addr {
        let given = self.addresses.lock().unwrap().of(pod);
        given.unwrap_or_else(free_address)
    }

    /// The answer to a request, which is counted.
    pub(crate) fn answer_scrape(&self, pod: &Pod) -> Answer {
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        // Chosen before it is counted: once the count has grown, all earlier answers have been chosen.
        let answer = self.answer(pod);
        self.scrapes.lock().unwrap().push(key);
        answer
    }

    fn change(&self, namespace: &str) {
        self.changed.lock().unwrap().insert(namespace.to_owned());
        self.notify.notify_one();
    }

    /// Waits until the settings of some namespaces have changed, and returns their names.
    pub(crate) async fn changed(&self) -> BTreeSet<String> {
        self.notify.notified().await;
        std::mem::take(&mut *self.changed.lock().unwrap())
    }

    /// Whether the pod is not managed any more.
    pub(crate) fn is_abandoned(&self, pod: &Pod) -> bool {
        let abandoned = self.abandoned.lock().unwrap();
        pod.metadata
            .namespace
            .as_ref()
            .is_some_and(|namespace| abandoned.contains(namespace))
    }

    pub(crate) fn report(&self, error: String) {
        self.errors.lock().unwrap().push(error);
    }
}

impl<T> Default for PodSettings<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> PodSettings<T> {
    fn set(&mut self, namespace: &str, pods: &str, value: T) {
        self.0.push(PodSetting {
            namespace: namespace.to_owned(),
            pods: pods.to_owned(),
            value,
        });
    }

    fn forget(&mut self, namespace: &str) {
        self.0.retain(|setting| setting.namespace != namespace);
    }

    fn of(&self, pod: &Pod) -> Option<T> {
        let fits = |setting: &&PodSetting<T>| {
            pod.metadata.namespace.as_ref() == Some(&setting.namespace) && is_one_of(&pod.name_any(), &setting.pods)
        };
        self.0.iter().rev().find(fits).map(|setting| setting.value.clone())
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
    // Concurrent processes start at different addresses, and skip those in use.
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

/// Removes the nodes of earlier processes: the scheduler would bind pods to a node that is no longer simulated.
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
            // Its StatefulSet may be deleted at the same time.
            let gone = deleted.as_ref().is_err_and(is_not_found);
            assert!(deleted.is_ok() || gone, "delete pod {}: {deleted:?}", pod.name_any());
        }
    }
}

pub(crate) fn is_not_found(error: &kube::Error) -> bool {
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
