//! Edits of an engine that has not been ready yet.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use firebolt_api::EnginePhase::Stable;
use firebolt_api::name::EngineNames;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::runtime::watcher::Config;
use kube::runtime::{WatchStreamExt, watcher};
use rstest::rstest;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::engine::faults::invariants::Invariants;
use crate::fixtures::{engine, new_replicas};
use crate::kubelet::pod_status::Behaviour;
use crate::testenv::TestEnv;

/// The replicas change while the first pods start. Whichever generation serves in the end, its pods are as many as the
/// last edit asks for, and the configuration that they have read names exactly these: it never changes.
#[rstest]
#[case::lowered(3, 1)]
#[case::raised(1, 3)]
#[tokio::test(flavor = "multi_thread")]
async fn the_configured_nodes_are_the_pods_that_run_if_replicas_change_before_the_first_readiness(
    #[case] from: i32,
    #[case] to: i32,
) {
    let env = TestEnv::start().await;
    let invariants = Invariants::watch(&env.cluster, &env.namespace, "a").await;
    let configurations = Configurations::watch(&env);
    env.node.set_behaviour(&env.namespace, "a-g0", Behaviour::Unready);
    env.create(&engine("a").replicas(from).0).await;
    let started = async || (running(&env).await == names(0, from)).then_some(());
    env.eventually("all pods of generation 0 are there", started).await;
    env.edit_engine("a", new_replicas(to)).await;
    env.node.forget(&env.namespace);

    let generation = env.wait_for_phase("a", Stable).await.active_generation;
    env.wait_for_reason("a", "EngineReady").await;
    let set: StatefulSet = env.the(&EngineNames("a").stateful_set(generation)).await;
    assert_eq!(set.spec.and_then(|spec| spec.replicas), Some(to));
    let pods = names(generation, to);
    let alone = async || (running(&env).await == pods).then_some(());
    env.eventually("the pods of that generation are the only ones", alone)
        .await;
    for pod in env.list::<Pod>().await {
        assert_eq!(configurations.nodes(&mounted_by(&pod)), pods);
    }
    assert_eq!(configurations.nodes(&EngineNames("a").config_map(0)), names(0, from));
    invariants.hold().await;
}

/// The names of the pods of a generation.
fn names(generation: i64, replicas: i32) -> BTreeSet<String> {
    (0..replicas)
        .map(|ordinal| EngineNames("a").pod(generation, ordinal))
        .collect()
}

/// The names of all pods, those that terminate included.
async fn running(env: &TestEnv) -> BTreeSet<String> {
    env.list::<Pod>().await.iter().map(ResourceExt::name_any).collect()
}

/// The name of the ConfigMap that a pod has mounted.
fn mounted_by(pod: &Pod) -> String {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut maps = volumes.filter_map(|volume| volume.config_map.as_ref());
    maps.next().expect("a pod has a configuration").name.clone()
}

/// Every text that the configuration of a generation has ever had. Pods read it when they start, whenever that is.
struct Configurations {
    texts: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    _watch: JoinSet<()>,
}

impl Configurations {
    fn watch(env: &TestEnv) -> Self {
        let texts = Arc::<Mutex<BTreeMap<String, BTreeSet<String>>>>::default();
        let (api, seen) = (env.api::<ConfigMap>(), Arc::clone(&texts));
        let mut watch = JoinSet::new();
        watch.spawn(async move {
            let mut maps = pin!(watcher(api, Config::default()).default_backoff().applied_objects());
            while let Some(map) = maps.next().await {
                // A watch that fails is taken up again.
                let Ok(map) = map else { continue };
                let text = map.data.as_ref().and_then(|data| data.get("config.yaml"));
                let mut seen = seen.lock().unwrap();
                seen.entry(map.name_any()).or_default().extend(text.cloned());
            }
        });
        Self { texts, _watch: watch }
    }

    /// The nodes in a configuration, which has never changed, by the names of their pods.
    fn nodes(&self, name: &str) -> BTreeSet<String> {
        let texts = self.texts.lock().unwrap();
        let texts: Vec<&String> = texts.get(name).into_iter().flatten().collect();
        let [text] = texts[..] else {
            panic!("{name} has one text for as long as it exists: {texts:?}");
        };
        let config: Value = serde_saphyr::from_str(text).expect("YAML");
        let nodes = config["engine"]["nodes"].as_array().expect("a list of nodes");
        let hosts = nodes.iter().filter_map(|node| node["host"].as_str());
        hosts
            .filter_map(|host| host.split('.').next())
            .map(str::to_owned)
            .collect()
    }
}
