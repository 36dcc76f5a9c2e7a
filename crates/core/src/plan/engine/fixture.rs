//! Chainable fixtures: an engine with its desired and its observed state.
//!
//! `engine("a")` has two desired replicas and the template hash `same`; every generation added to it is complete and
//! has that hash unless the chain changes it.

use std::time::Duration;

use firebolt_api::key::{Annotation, Finalizer};
use firebolt_api::{AutoStop, EnginePhase, FireboltEngine, FireboltEngineStatus, ScheduleWindow};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    Activity, ActivitySample, Adoption, Desired, Drain, DrainSample, DrainSettings, EngineWrite, Gate, GateCause,
    Generation, Input, Limits, Observed, OrphanedPod, Plan, Pods, RefusedDelete, Routing, StatefulSet, plan,
};
use crate::plan::{Meta, ObservedChild};

/// How long gateways may send queries to the old generation.
pub(crate) const SWITCH_NOTICE: Duration = Duration::from_secs(10);

/// A Monday.
pub(crate) const NOW: &str = "2026-11-16T12:00:00Z";

pub(crate) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

pub(crate) fn minutes_ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

pub(crate) fn route_to(generation: i64) -> EngineWrite {
    EngineWrite::ApplyRoutingService { generation }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub engine: FireboltEngine,
    pub desired: Result<Desired, Gate>,
    pub auto_stop: Option<AutoStop>,
    pub instance: Result<(), String>,
    pub refused_deletes: Vec<RefusedDelete>,
    pub adoption: Adoption,
    pub drain: DrainSettings,
    pub observed: Observed,
    pub now: Timestamp,
}

pub(crate) fn engine(name: &str) -> Case {
    let mut engine = FireboltEngine::default();
    engine.metadata.name = Some(name.to_owned());
    engine.metadata.uid = Some("engine-uid".to_owned());
    engine.metadata.generation = Some(1);
    engine.metadata.resource_version = Some("7".to_owned());
    engine.metadata.finalizers = Some(vec![Finalizer::Engine.key().to_owned()]);
    engine.spec.replicas = 2;
    Case {
        engine,
        desired: Ok(Desired {
            template_hash: "same".to_owned(),
            rendering_hash: "rendered".to_owned(),
        }),
        auto_stop: None,
        instance: Ok(()),
        refused_deletes: Vec::new(),
        adoption: Adoption::OnNextChange,
        drain: DrainSettings {
            waits: true,
            interval: Duration::from_secs(5),
        },
        observed: Observed::default(),
        now: now(),
    }
}

fn meta(uid: String) -> Meta {
    Meta {
        uid,
        owned: true,
        terminating: false,
        foreign_finalizers: Vec::new(),
    }
}

impl Case {
    pub(super) fn input(&self) -> Input<'_> {
        Input {
            engine: &self.engine,
            desired: &self.desired,
            auto_stop: self.auto_stop.as_ref(),
            instance: self.instance.as_ref().copied().map_err(String::as_str),
            drain: self.drain,
            progress_deadline: Duration::from_mins(15),
            switch_notice: SWITCH_NOTICE,
            lost_pod_timeout: Duration::from_mins(10),
            observed: &self.observed,
            limits: Limits {
                adoption: self.adoption,
                refused_deletes: &self.refused_deletes,
                ..Limits::default()
            },
            now: self.now,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&self.input())
    }

    pub(super) fn needs_live_reads(&self) -> bool {
        self.plan().needs_live_reads(&self.input())
    }

    pub(super) fn status(&self) -> FireboltEngineStatus {
        self.plan().status.expect("the status changes")
    }

    pub(super) fn ready(&self) -> Condition {
        let conditions = self.status().conditions;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready")
            .expect("a Ready condition")
    }

    pub(super) fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn replicas(self, replicas: i32) -> Self {
        self.but(|case| case.engine.spec.replicas = replicas)
    }

    pub(super) fn desired_hash(self, template_hash: &str) -> Self {
        self.but(|case| {
            if let Ok(desired) = &mut case.desired {
                template_hash.clone_into(&mut desired.template_hash);
            }
        })
    }

    pub(super) fn gate(self, cause: GateCause) -> Self {
        self.but(|case| {
            let message = format!("{cause:?}: correct it.");
            if cause == GateCause::InstanceNotReady {
                case.instance = Err(message.clone());
            }
            case.desired = Err(Gate { cause, message });
        })
    }

    /// A complete generation with this number of ready pods.
    pub(super) fn generation(self, number: i64, ready: i32) -> Self {
        self.but(|case| {
            let child = |what: &str| ObservedChild {
                meta: meta(format!("{what}-{number}")),
                intact: true,
            };
            let replicas = case.engine.spec.replicas;
            let generation = Generation {
                stateful_set: Some(StatefulSet {
                    meta: meta(format!("set-{number}")),
                    template_hash: Some("same".to_owned()),
                    tampered: false,
                    outdated: Vec::new(),
                    changes: Vec::new(),
                    replicas,
                    created: minutes_ago(5),
                }),
                config_map: Some(child("config")),
                headless_service: Some(child("headless")),
                pods: Pods { total: replicas, ready },
                orphans: Vec::new(),
                terminating: None,
            };
            case.observed.generations.insert(number, generation);
        })
    }

    /// A generation with all pods ready.
    pub(super) fn complete(self, number: i64) -> Self {
        let replicas = self.engine.spec.replicas;
        self.generation(number, replicas)
    }

    /// A generation with all pods ready that the routing Service selects.
    pub(super) fn serving(self, number: i64) -> Self {
        self.complete(number).routed(number)
    }

    pub(super) fn routed(self, number: i64) -> Self {
        self.but(|case| {
            case.observed.routing = Some(Routing {
                meta: meta("routing".to_owned()),
                target: Some(number),
                intact: true,
            });
        })
    }

    pub(super) fn unrouted(self) -> Self {
        self.but(|case| case.observed.routing = None)
    }

    pub(super) fn routing(self, change: impl FnOnce(&mut Routing)) -> Self {
        self.but(|case| change(case.observed.routing.as_mut().unwrap()))
    }

    pub(super) fn set(self, number: i64, change: impl FnOnce(&mut StatefulSet)) -> Self {
        self.but(|case| change(case.seen(number).stateful_set.as_mut().unwrap()))
    }

    pub(super) fn config(self, number: i64, change: impl FnOnce(&mut ObservedChild)) -> Self {
        self.but(|case| change(case.seen(number).config_map.as_mut().unwrap()))
    }

    pub(super) fn broken_headless(self, number: i64) -> Self {
        self.but(|case| case.seen(number).headless_service.as_mut().unwrap().intact = false)
    }

    /// Another client scales a generation to zero.
    pub(super) fn emptied(self, number: i64) -> Self {
        let scaled = self.set(number, |set| {
            set.tampered = true;
            set.replicas = 0;
        });
        scaled.but(|case| case.observed.generations.get_mut(&number).unwrap().pods = Pods::default())
    }

    pub(super) fn lost_set(self, number: i64) -> Self {
        self.but(|case| {
            case.seen(number).stateful_set = None;
            case.seen(number).pods = Pods::default();
        })
    }

    /// Another client deletes the StatefulSet of a generation without its pods.
    pub(super) fn orphaned(self, number: i64) -> Self {
        let pods = self.observed.generations[&number].pods.total;
        let orphans = (0..pods).map(|ordinal| OrphanedPod {
            name: format!("a-g{number}-{ordinal}"),
            meta: meta(format!("pod-{number}-{ordinal}")),
            ready: true,
        });
        let orphans = orphans.collect();
        self.lost_set(number).but(|case| case.seen(number).orphans = orphans)
    }

    pub(super) fn lost_config(self, number: i64) -> Self {
        self.but(|case| case.seen(number).config_map = None)
    }

    fn seen(&mut self, number: i64) -> &mut Generation {
        self.observed.generations.get_mut(&number).unwrap()
    }

    /// A status in this phase: the newest generation is the current one, the routed one is active, and in draining and
    /// cleaning the one before it is being drained.
    pub(super) fn at(self, phase: EnginePhase) -> Self {
        let newest = self.observed.generations.keys().max().copied().unwrap_or(0);
        let routed = self.observed.routing.as_ref().and_then(|routing| routing.target);
        let draining = match phase {
            EnginePhase::Draining | EnginePhase::Cleaning => Some(newest - 1),
            EnginePhase::Stable | EnginePhase::Stopped | EnginePhase::Creating | EnginePhase::Switching => None,
        };
        let active = match phase {
            EnginePhase::Creating | EnginePhase::Switching => routed.unwrap_or(-1),
            EnginePhase::Stable | EnginePhase::Stopped | EnginePhase::Draining | EnginePhase::Cleaning => newest,
        };
        self.counting(phase, newest, active, draining)
    }

    pub(super) fn counting(self, phase: EnginePhase, current: i64, active: i64, draining: Option<i64>) -> Self {
        self.but(|case| {
            case.engine.status = Some(FireboltEngineStatus {
                observed_generation: None,
                current_generation: current,
                active_generation: active,
                draining_generation: draining,
                phase: Some(phase),
                rollout_cause: None,
                replicas: None,
                ready_replicas: None,
                selector: None,
                last_reconciled: None,
                last_activity_time: None,
                last_scaled_at: None,
                auto_stop_reason: None,
                conditions: Vec::new(),
            });
        })
    }

    /// Takes over the status that a reconcile would write.
    pub(super) fn reported(self) -> Self {
        let status = self.status();
        self.but(|case| case.engine.status = Some(status))
    }

    /// The old generation was counted after the switch.
    pub(super) fn counted(self, generation: i64, outcome: Drain) -> Self {
        self.but(|case| {
            case.observed.unrouted_since = Some(minutes_ago(2));
            case.observed.drain = Some(DrainSample {
                generation,
                began: minutes_ago(1),
                outcome,
            });
        })
    }

    /// From 1 to 3 replicas, idle after 30 minutes, counted every minute.
    pub(super) fn auto_stop(self, schedule: &[(&str, &str)]) -> Self {
        self.but(|case| {
            let windows = schedule.iter().map(|(start, end)| ScheduleWindow {
                start: (*start).to_owned(),
                end: (*end).to_owned(),
                days: Vec::new(),
            });
            let policy = AutoStop {
                enabled: true,
                active_replicas: 3,
                idle_replicas: 0,
                idle_timeout: "30m".parse().unwrap(),
                poll_interval: "1m".parse().unwrap(),
                schedule: windows.collect(),
            };
            case.auto_stop = Some(policy);
        })
    }

    pub(super) fn idle_replicas(self, replicas: i32) -> Self {
        self.but(|case| case.auto_stop.as_mut().unwrap().idle_replicas = replicas)
    }

    pub(super) fn woken(self, requested: &str) -> Self {
        self.but(|case| {
            let key = Annotation::WakeRequested.key().to_owned();
            case.engine.metadata.annotations = Some([(key, requested.to_owned())].into());
        })
    }

    pub(super) fn last_used(self, time: Timestamp) -> Self {
        self.but(|case| case.engine.status.as_mut().unwrap().last_activity_time = Some(Time(time)))
    }

    pub(super) fn sampled(self, outcome: Activity) -> Self {
        self.but(|case| {
            let generation = case.engine.status.as_ref().unwrap().active_generation;
            case.observed.activity = Some(ActivitySample {
                generation,
                taken: case.now,
                outcome,
            });
        })
    }
}
