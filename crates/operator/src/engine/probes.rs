//! What the probe pool is to find out about an engine, and whom it asks.

use std::sync::Arc;

use firebolt_api::name::EngineNames;
use firebolt_api::{EnginePhase, FireboltEngine, MetricScrapeMode};
use firebolt_core::plan::engine::{Desired, DrainSettings, Gate};
use firebolt_core::pods;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};

use super::metrics::EngineMetrics;
use crate::key::ObjectKey;
use crate::probe::{Assignment, Hooks, Pool, Purpose, Scraper, Subject, Target};
use crate::queue::{Inbox, Lane};
use crate::watches::Caches;

/// A pool that reads its targets from the caches and has engines looked at again.
#[must_use]
pub fn pool(
    client: Client,
    caches: &Arc<Caches>,
    inbox: &Arc<Inbox<ObjectKey>>,
    metrics: &Arc<crate::metrics::Metrics>,
) -> Pool {
    let (caches, inbox, metrics) = (Arc::clone(caches), Arc::clone(inbox), Arc::clone(metrics));
    Pool::new(Hooks {
        subjects: Arc::new(move |key, assignment| subjects(&caches, key, assignment, Timestamp::now())),
        scrape: Scraper::new(client).into_hook(),
        notify: Arc::new(move |key| inbox.add(key.clone(), Lane::Ordinary)),
        measure: Arc::new(move |took, answered| EngineMetrics::probed(metrics.engines(), took, answered)),
        now: Arc::new(Timestamp::now),
    })
}

/// What is to be known of an engine in this state.
///
/// A draining generation is asked once it is out of the routing Service, and no sooner: an earlier count says nothing. An
/// engine at rest is asked if it is to stop by itself and has not.
pub fn assignment(
    engine: &FireboltEngine,
    desired: &Result<Desired, Gate>,
    drain: DrainSettings,
    unrouted: bool,
    transport: MetricScrapeMode,
) -> Option<Assignment> {
    let status = engine.status.as_ref()?;
    let assignment = |purpose, generation, interval| Assignment {
        uid: engine.uid().unwrap_or_default(),
        purpose,
        generation,
        interval,
        transport,
    };
    if engine.metadata.deletion_timestamp.is_some() {
        return None;
    }
    match status.phase? {
        EnginePhase::Draining => {
            let old = status.draining_generation.filter(|_| unrouted && drain.waits)?;
            Some(assignment(Purpose::Drain, old, drain.interval))
        }
        EnginePhase::Stable => {
            let policy = desired
                .as_ref()
                .ok()?
                .auto_stop
                .as_ref()
                .filter(|policy| policy.enabled)?;
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
fn subjects(caches: &Caches, key: &ObjectKey, assignment: &Assignment, now: Timestamp) -> Vec<Subject> {
    let name = EngineNames(&key.name).stateful_set(assignment.generation);
    let set = caches
        .of_engines
        .stateful_sets
        .get(&ObjectKey::new(&key.namespace, &name));
    let Some(uid) = set.and_then(|set| set.0.as_ref().ok()?.metadata.uid.clone()) else {
        // Its label may be gone and its pods may run on. If it is gone itself, nobody asks here for long.
        return vec![Subject::Unaskable {
            pod: name,
            cause: "its StatefulSet is not in sight".to_owned(),
        }];
    };
    let pods = caches.of_engines.pods.belonging_to(key);
    if let Some(unreadable) = pods.iter().find_map(|pod| pod.0.as_ref().err()) {
        return vec![Subject::Unaskable {
            pod: unreadable.metadata.name.clone().unwrap_or_default(),
            cause: format!("it cannot be read: {}", unreadable.error),
        }];
    }
    let mut own: Vec<&Pod> = pods
        .iter()
        .filter_map(|pod| pod.0.as_ref().ok())
        .filter(|pod| pods::is_of(pod, &uid))
        .collect();
    // By ordinal: of several pods that fail, it is always the same one that is named.
    own.sort_by_key(|pod| (pod.name_any().len(), pod.name_any()));
    own.into_iter()
        .filter_map(|pod| subject(pod, assignment.purpose, now))
        .collect()
}

fn subject(pod: &Pod, purpose: Purpose, now: Timestamp) -> Option<Subject> {
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
        Purpose::Drain if runs => Some(Subject::Ask(target)),
        Purpose::Drain => Some(Subject::Drained),
        // One that is going takes its queries with it; its successor is asked.
        Purpose::Activity if pods::is_terminating(pod) => None,
        Purpose::Activity if runs => Some(Subject::Ask(target)),
        Purpose::Activity => Some(Subject::Unaskable {
            pod: target.pod,
            cause: "it is not running".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn engine(status: &Value) -> FireboltEngine {
        let mut engine = FireboltEngine::default();
        engine.metadata.uid = Some("u".to_owned());
        engine.status = Some(serde_json::from_value(status.clone()).unwrap());
        engine
    }

    fn desired(enabled: bool) -> Desired {
        let policy = json!({ "enabled": enabled, "activeReplicas": 1, "pollInterval": "7s" });
        Desired {
            fingerprint: String::new(),
            auto_stop: Some(serde_json::from_value(policy).unwrap()),
        }
    }

    fn assigned(status: &Value, enabled: bool, waits: bool, unrouted: bool) -> Option<(Purpose, i64, u64)> {
        let drain = DrainSettings {
            waits,
            interval: Duration::from_secs(3),
        };
        let found = assignment(
            &engine(status),
            &Ok(desired(enabled)),
            drain,
            unrouted,
            MetricScrapeMode::PodIp,
        )?;
        assert_eq!(found.uid, "u");
        Some((found.purpose, found.generation, found.interval.as_secs()))
    }

    fn draining() -> Value {
        json!({ "phase": "draining", "currentGeneration": 5, "activeGeneration": 5, "drainingGeneration": 4 })
    }

    fn resting(phase: &str) -> Value {
        json!({ "phase": phase, "currentGeneration": 5, "activeGeneration": 5 })
    }

    #[test]
    fn a_draining_generation_is_asked_once_it_is_out_of_the_route() {
        assert_eq!(assigned(&draining(), true, true, true), Some((Purpose::Drain, 4, 3)));
        assert_eq!(assigned(&draining(), true, true, false), None);
        assert_eq!(assigned(&draining(), true, false, true), None, "it is not waited for");
    }

    #[test]
    fn an_engine_at_rest_is_asked_only_if_it_is_to_stop_by_itself() {
        assert_eq!(
            assigned(&resting("stable"), true, true, false),
            Some((Purpose::Activity, 5, 7))
        );
        assert_eq!(assigned(&resting("stable"), false, true, false), None);
        for phase in ["stopped", "creating", "switching", "cleaning"] {
            assert_eq!(assigned(&resting(phase), true, true, true), None, "{phase}");
        }
    }

    #[test]
    fn an_engine_that_is_going_is_not_asked() {
        let mut going = engine(&draining());
        going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap());
        let drain = DrainSettings {
            waits: true,
            interval: Duration::from_secs(3),
        };
        assert_eq!(
            assignment(&going, &Ok(desired(true)), drain, true, MetricScrapeMode::PodIp),
            None
        );
    }

    fn pod(running: bool, going: bool) -> Pod {
        let state = if running {
            json!({ "running": {} })
        } else {
            json!({ "waiting": {} })
        };
        let status = json!({ "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [
            { "name": "engine", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": state }] });
        let mut pod: Pod =
            serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "n" }, "status": status })).unwrap();
        if going {
            pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-11-16T12:00:30Z")).unwrap());
        }
        pod
    }

    fn ask() -> Subject {
        Subject::Ask(Target {
            namespace: "n".to_owned(),
            pod: "p".to_owned(),
            ip: Some("10.0.0.7".parse().unwrap()),
        })
    }

    #[rstest]
    #[case::running(Purpose::Drain, pod(true, false), Some(ask()))]
    #[case::finishing(Purpose::Drain, pod(true, true), Some(ask()))]
    #[case::down(Purpose::Drain, pod(false, false), Some(Subject::Drained))]
    #[case::in_use(Purpose::Activity, pod(true, false), Some(ask()))]
    #[case::leaving(Purpose::Activity, pod(true, true), None)]
    #[case::not_up(Purpose::Activity, pod(false, false), Some(Subject::Unaskable { pod: "p".to_owned(), cause: "it is not running".to_owned() }))]
    fn what_is_asked_depends_on_what_it_is_for(
        #[case] purpose: Purpose,
        #[case] pod: Pod,
        #[case] expected: Option<Subject>,
    ) {
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        assert_eq!(subject(&pod, purpose, now), expected);
    }
}
