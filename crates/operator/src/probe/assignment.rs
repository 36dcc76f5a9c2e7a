//! What is sampled of an engine, and which pods are scraped.

use std::sync::Arc;

use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::desired::engine::DesiredEngine;
use firebolt_core::{orphans, pods};
use firebolt_runtime::ObjectKey;
use firebolt_runtime::queue::{PendingSet, Priority};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};

use super::{Assignment, Hooks, Measure, Pool, ProbePod, Purpose, Scraper, Target};
use crate::caches::{Caches, by_engine};

/// A pool that reads its targets from the caches and triggers a reconcile of the engine after each sample.
#[must_use]
pub(crate) fn pool(
    client: Client,
    caches: &Arc<Caches>,
    pending: &Arc<PendingSet<ObjectKey>>,
    measure: Measure,
) -> Pool {
    let (caches, pending) = (Arc::clone(caches), Arc::clone(pending));
    Pool::new(Hooks {
        list_pods: Arc::new(move |key, assignment| pods_to_probe(&caches, key, assignment, Timestamp::now())),
        scrape: Scraper::new(client).into_hook(),
        notify: Arc::new(move |key| pending.add(key.clone(), Priority::Normal)),
        measure,
        now: Arc::new(Timestamp::now),
    })
}

/// The assignment for an engine in this state.
///
/// A draining generation is scraped once the routing Service does not select it any more: queries can arrive until then.
/// A stable engine is scraped if auto-stop is enabled.
pub(crate) fn assignment(engine: &FireboltEngine, desired: &DesiredEngine, unrouted: bool) -> Option<Assignment> {
    let status = engine.status.as_ref()?;
    let assignment = |purpose, generation, interval| Assignment {
        uid: engine.uid().unwrap_or_default(),
        purpose,
        generation,
        interval,
        transport: desired.scrape_mode,
    };
    if engine.metadata.deletion_timestamp.is_some() {
        return None;
    }
    match status.phase? {
        EnginePhase::Draining => {
            let old = status.draining_generation.filter(|_| unrouted && desired.drain.waits)?;
            Some(assignment(Purpose::Drain, old, desired.drain.interval))
        }
        EnginePhase::Stable => {
            let policy = desired.auto_stop.as_ref().filter(|policy| policy.enabled)?;
            Some(assignment(
                Purpose::Activity,
                status.active_generation,
                policy.poll_interval.get(),
            ))
        }
        EnginePhase::Stopped | EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Cleaning => None,
    }
}

/// The pods of one generation, by name.
fn pods_to_probe(caches: &Caches, key: &ObjectKey, assignment: &Assignment, now: Timestamp) -> Vec<ProbePod> {
    let name = EngineNames(&key.name).stateful_set(assignment.generation);
    let set = caches
        .of_engines
        .stateful_sets
        .get(&ObjectKey::new(&key.namespace, &name));
    let uid = set.and_then(|set| set.0.as_ref().ok()?.metadata.uid.clone());
    let pods = caches.of_engines.pods.by_index(by_engine(), key);
    if let Some(unreadable) = pods.iter().find_map(|pod| pod.0.as_ref().err()) {
        return vec![ProbePod::Unscrapable {
            pod: unreadable.metadata.name.clone().unwrap_or_default(),
            cause: format!("it cannot be parsed: {}", unreadable.error),
        }];
    }
    let is_own = |pod: &&Pod| {
        let is_orphan = || orphans::generation(pod, &key.name) == Some(assignment.generation);
        uid.as_ref().is_some_and(|uid| pods::is_of(pod, uid)) || is_orphan()
    };
    let mut own: Vec<&Pod> = pods
        .iter()
        .filter_map(|pod| pod.0.as_ref().ok())
        .filter(is_own)
        .collect();
    if uid.is_none() && own.is_empty() {
        // Its label may have been removed while its pods still run. If it was deleted, the assignment changes soon.
        return vec![ProbePod::Unscrapable {
            pod: name,
            cause: "its StatefulSet is not found".to_owned(),
        }];
    }
    // By ordinal: of several pods that fail, the same one is always named.
    own.sort_by_key(|pod| (pod.name_any().len(), pod.name_any()));
    own.into_iter()
        .filter_map(|pod| probe_pod(pod, assignment.purpose, now))
        .collect()
}

fn probe_pod(pod: &Pod, purpose: Purpose, now: Timestamp) -> Option<ProbePod> {
    let address = pod
        .status
        .as_ref()
        .and_then(|status| status.pod_ip.as_ref())
        .and_then(|ip| ip.parse().ok());
    let target = Target {
        namespace: pod.namespace().unwrap_or_default(),
        pod: pod.name_any(),
        ip: address,
    };
    let runs = pods::may_run_queries(pod, now);
    match purpose {
        Purpose::Drain if runs => Some(ProbePod::Scrape(target)),
        Purpose::Drain => Some(ProbePod::Drained),
        // The queries of a terminating pod end with it; its successor is scraped.
        Purpose::Activity if pods::is_terminating(pod) => None,
        Purpose::Activity if runs => Some(ProbePod::Scrape(target)),
        Purpose::Activity if pods::never_started(pod) => Some(ProbePod::Drained),
        Purpose::Activity => Some(ProbePod::Unscrapable {
            pod: target.pod,
            cause: "it is not running".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firebolt_api::MetricScrapeMode;
    use firebolt_core::plan::engine::{Desired, DrainSettings};
    use firebolt_core::resolve::engine::resolve;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::fixture::{defaults, facts};

    fn engine(status: &Value) -> FireboltEngine {
        let mut engine = FireboltEngine::default();
        engine.metadata.uid = Some("u".to_owned());
        engine.status = Some(serde_json::from_value(status.clone()).unwrap());
        engine
    }

    fn desired(enabled: bool, waits: bool) -> DesiredEngine {
        let policy = json!({ "enabled": enabled, "activeReplicas": 1, "pollInterval": "7s" });
        let generation = Desired {
            template_hash: String::new(),
            rendering_hash: String::new(),
        };
        DesiredEngine {
            auto_stop: Some(serde_json::from_value(policy).unwrap()),
            instance: Ok(()),
            effective: resolve(&FireboltEngine::default(), None, &facts(), &defaults()),
            generation: Ok(generation),
            drain: DrainSettings {
                waits,
                interval: Duration::from_secs(3),
            },
            scrape_mode: MetricScrapeMode::PodIp,
        }
    }

    fn assigned(status: &Value, enabled: bool, waits: bool, unrouted: bool) -> Option<(Purpose, i64, u64)> {
        let found = assignment(&engine(status), &desired(enabled, waits), unrouted)?;
        assert_eq!(found.uid, "u");
        Some((found.purpose, found.generation, found.interval.as_secs()))
    }

    fn draining() -> Value {
        json!({ "phase": "draining", "currentGeneration": 5, "activeGeneration": 5, "drainingGeneration": 4 })
    }

    fn in_phase(phase: &str) -> Value {
        json!({ "phase": phase, "currentGeneration": 5, "activeGeneration": 5 })
    }

    #[test]
    fn a_draining_generation_is_scraped_once_it_is_unrouted() {
        assert_eq!(assigned(&draining(), true, true, true), Some((Purpose::Drain, 4, 3)));
        assert_eq!(assigned(&draining(), true, true, false), None);
        assert_eq!(assigned(&draining(), true, false, true), None, "it is not waited for");
    }

    #[test]
    fn a_stable_engine_is_scraped_only_with_auto_stop() {
        assert_eq!(
            assigned(&in_phase("stable"), true, true, false),
            Some((Purpose::Activity, 5, 7))
        );
        assert_eq!(assigned(&in_phase("stable"), false, true, false), None);
        for phase in ["stopped", "creating", "switching", "cleaning"] {
            assert_eq!(assigned(&in_phase(phase), true, true, true), None, "{phase}");
        }
    }

    #[test]
    fn a_terminating_engine_is_not_scraped() {
        let mut terminating = engine(&draining());
        terminating.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap());
        assert_eq!(assignment(&terminating, &desired(true, true), true), None);
    }

    fn pod(running: bool, terminating: bool) -> Pod {
        let state = if running {
            json!({ "running": {} })
        } else {
            json!({ "waiting": {} })
        };
        let status = json!({ "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [
            { "name": "engine", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": state }] });
        let mut pod: Pod =
            serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "n" }, "status": status })).unwrap();
        if terminating {
            pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-11-16T12:00:30Z")).unwrap());
        }
        pod
    }

    fn never_started() -> Pod {
        let status = json!({ "phase": "Pending" });
        serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "n" }, "status": status })).unwrap()
    }

    fn scraped() -> ProbePod {
        ProbePod::Scrape(Target {
            namespace: "n".to_owned(),
            pod: "p".to_owned(),
            ip: Some("10.0.0.7".parse().unwrap()),
        })
    }

    #[rstest]
    #[case::running(Purpose::Drain, pod(true, false), Some(scraped()))]
    #[case::finishing(Purpose::Drain, pod(true, true), Some(scraped()))]
    #[case::down(Purpose::Drain, pod(false, false), Some(ProbePod::Drained))]
    #[case::in_use(Purpose::Activity, pod(true, false), Some(scraped()))]
    #[case::leaving(Purpose::Activity, pod(true, true), None)]
    #[case::never_started(Purpose::Activity, never_started(), Some(ProbePod::Drained))]
    #[case::not_up(Purpose::Activity, pod(false, false), Some(ProbePod::Unscrapable { pod: "p".to_owned(), cause: "it is not running".to_owned() }))]
    fn the_pods_to_scrape_depend_on_the_purpose(
        #[case] purpose: Purpose,
        #[case] pod: Pod,
        #[case] expected: Option<ProbePod>,
    ) {
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        assert_eq!(probe_pod(&pod, purpose, now), expected);
    }
}
