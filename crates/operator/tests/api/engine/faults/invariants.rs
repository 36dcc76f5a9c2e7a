//! The invariants that can be seen from outside, checked on everything that ever happened to an engine.
//!
//! The objects are followed as an administrator sees them. Streams of different kinds reach us in no common order, but
//! every change has its place in the one history of the cluster, its resourceVersion. The check walks that history, so
//! it sees each state that the cluster was in, and none that it was not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use localkube::Cluster;
use testkit::wait::SOON;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::history::{Change, History, Violation};

/// Group, version, kind and plural of what is followed.
const FOLLOWED: [[&str; 4]; 5] = [
    ["compute.firebolt.io", "v1alpha1", "FireboltEngine", "fireboltengines"],
    ["apps", "v1", "StatefulSet", "statefulsets"],
    ["", "v1", "Service", "services"],
    ["", "v1", "ConfigMap", "configmaps"],
    ["", "v1", "Pod", "pods"],
];

/// Follows one engine and everything of its own.
pub(crate) struct Invariants {
    engine: String,
    apis: Vec<Api<DynamicObject>>,
    seen: Arc<Mutex<Observations>>,
    _watches: JoinSet<()>,
}

/// What has arrived so far.
#[derive(Default)]
struct Observations {
    history: BTreeMap<u64, Change>,
    /// The version of every object that exists, by kind and name.
    present: BTreeMap<(String, String), u64>,
}

impl Invariants {
    /// Begins to follow.
    pub(crate) async fn watch(cluster: &Cluster, namespace: &str, engine: &str) -> Self {
        let client = cluster.client().await.unwrap();
        let seen = Arc::new(Mutex::new(Observations::default()));
        let mut watches = JoinSet::new();
        let apis = FOLLOWED.map(|[group, version, kind, plural]| {
            let api_version = [group, version].join("/").trim_start_matches('/').to_owned();
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            watches.spawn(watch(api.clone(), kind, Arc::clone(&seen)));
            api
        });
        Self {
            engine: engine.to_owned(),
            apis: apis.into(),
            seen,
            _watches: watches,
        }
    }

    /// Waits until everything up to now has been seen, and fails with the timeline if an invariant did not hold.
    pub(crate) async fn hold(&self) {
        self.catch_up().await;
        if let Err(violation) = self.check() {
            panic!("{violation}");
        }
    }

    /// The first violation in what has been seen.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        History::new(&self.engine).walk(&self.seen.lock().unwrap().history)
    }

    /// Waits until what is there is what has been seen. Streams are in order, so nothing before it is missing.
    pub(crate) async fn catch_up(&self) {
        for (api, [_, _, kind, _]) in self.apis.iter().zip(FOLLOWED) {
            let start = Instant::now();
            loop {
                let list = api.list(&ListParams::default()).await.unwrap();
                let there = list.items.iter().map(|object| (object.name_any(), version(object)));
                let there: BTreeMap<String, u64> = there.collect();
                let seen = self.seen.lock().unwrap().of_kind(kind);
                if there == seen {
                    break;
                }
                assert!(start.elapsed() < SOON, "{kind}: there is {there:?}, seen was {seen:?}");
                sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

impl Drop for Invariants {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(seen) = self.seen.lock()
        {
            let mut text = String::new();
            for (version, change) in &seen.history {
                let _infallible = writeln!(text, "  {version} {change}");
            }
            eprintln!("what happened in the cluster:\n{text}");
        }
    }
}

async fn watch(api: Api<DynamicObject>, kind: &'static str, seen: Arc<Mutex<Observations>>) {
    let mut events = pin!(watcher(api, Config::default()).default_backoff());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let mut seen = seen.lock().unwrap();
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.push(object.name_any());
                seen.apply(kind, &object);
            }
            Ok(Event::InitDone) => seen.drop_others(kind, &listed),
            Ok(Event::Apply(object)) => seen.apply(kind, &object),
            Ok(Event::Delete(object)) => seen.delete(kind, &object.name_any(), version(&object)),
            // An outage that the test has caused; the watch resumes from the last resource version.
            Err(_outage) => {}
        }
    }
}

fn version(object: &DynamicObject) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

impl Observations {
    fn apply(&mut self, kind: &str, object: &DynamicObject) {
        let (name, version) = (object.name_any(), version(object));
        self.present.insert((kind.to_owned(), name.clone()), version);
        let value = serde_json::to_value(object).unwrap();
        self.history.insert(version, Change::new(kind, &name, Some(&value)));
    }

    fn delete(&mut self, kind: &str, name: &str, version: u64) {
        self.present.remove(&(kind.to_owned(), name.to_owned()));
        self.history.insert(version, Change::new(kind, name, None));
    }

    /// Objects that a list no longer contains were deleted unobserved: their deletion goes to the end of the history.
    fn drop_others(&mut self, kind: &str, listed: &[String]) {
        let gone = self.of_kind(kind).into_keys().filter(|name| !listed.contains(name));
        for name in gone.collect::<Vec<_>>() {
            let mut from_the_end = (0..=u64::MAX).rev();
            let free = from_the_end.find(|version| !self.history.contains_key(version));
            self.delete(kind, &name, free.expect("the history is not that long"));
        }
    }

    fn of_kind(&self, kind: &str) -> BTreeMap<String, u64> {
        let of_kind = self.present.iter().filter(|((present, _), _)| present == kind);
        of_kind.map(|((_, name), &version)| (name.clone(), version)).collect()
    }
}

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltEngine;
    use k8s_openapi::api::apps::v1::StatefulSet;
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;
    use testkit::invariant::Invariant;

    use super::*;
    use crate::engine::faults::testenv::ENGINE;
    use crate::fixtures::{engine, stateful_set};
    use crate::testenv::TestEnv;

    /// A service that selects a generation.
    fn route(generation: &str) -> serde_json::Value {
        json!({ "spec": { "ports": [{ "port": 80 }], "selector": { "firebolt.io/generation": generation } } })
    }

    /// The administrator plays an operator: at first a good one, then one that routes to pods that are not there.
    #[tokio::test(flavor = "multi_thread")]
    async fn invariants_are_checked_against_live_changes() {
        let env = TestEnv::without_operator().await;
        let invariants = Invariants::watch(&env.cluster, &env.namespace, ENGINE).await;
        env.create(&engine(ENGINE).0).await;
        let mut set = serde_json::to_value(stateful_set("a-g0", 1)).unwrap();
        for path in ["/metadata", "/spec/template/metadata"] {
            let metadata = set.pointer_mut(path).unwrap();
            metadata["labels"]["firebolt.io/generation"] = "0".into();
        }
        let set: StatefulSet = serde_json::from_value(set).unwrap();
        env.create(&set).await;
        let ready = async || {
            let set = env.the::<StatefulSet>("a-g0").await;
            (set.status?.ready_replicas == Some(1)).then_some(())
        };
        env.eventually("the pod is ready", ready).await;
        let mut service = route("0");
        service["metadata"] = json!({ "name": "a-service" });
        env.create(&serde_json::from_value::<Service>(service).unwrap()).await;
        let status = json!({ "phase": "stable", "currentGeneration": 0, "activeGeneration": 0 });
        env.set_status::<FireboltEngine>(ENGINE, status).await;
        invariants.hold().await;

        env.edit::<Service>("a-service", route("1")).await;
        invariants.catch_up().await;
        let violation = invariants.check().unwrap_err();
        assert_eq!(violation.invariant, Invariant::RouteHasReadyPods, "{violation}");
        let last = violation.timeline.last().unwrap();
        assert!(last.ends_with("Service a-service: Route { target: Some(1) }"), "{last}");
    }
}
