//! An in-memory cluster that applies plans and logs what happens, line by line.

mod writes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use firebolt_api::key::Annotation;
use firebolt_api::{AutoStop, FireboltEngine, ScheduleWindow};
use firebolt_core::plan::Severity;
use firebolt_core::plan::engine::{
    Activity, ActivitySample, Desired, Drain, DrainSample, DrainSettings, Gate, GateCause, Input, Limits, Observed,
    Plan, plan,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use writes::describe;

/// A story: changes to an engine and its objects, and how the operator reacts.
pub(crate) struct Story {
    engine: FireboltEngine,
    image: String,
    /// The field that sets the image.
    image_field: &'static str,
    blocked: Option<Gate>,
    auto_stop: Option<AutoStop>,
    observed: Observed,
    /// What each ConfigMap was rendered from: the image and the replicas.
    configs: BTreeMap<i64, (String, i32)>,
    began: Timestamp,
    now: Timestamp,
    version: u64,
    ready: String,
    log: String,
}

/// The fields of an engine and of its class that set the image, as they are reported.
const IMAGE: &str = "`spec.template.spec.containers[engine].image`";
const IMAGE_OF_CLASS: &str = "`spec.template.spec.containers[engine].image` of class small";

/// How a reconcile ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Complete,
    /// The process crashes after its first write.
    CrashAfterOneWrite,
}

pub(crate) fn story(replicas: i32) -> Story {
    let began: Timestamp = "2026-11-16T08:00:00Z".parse().expect("a time");
    let mut engine = FireboltEngine::default();
    engine.metadata.name = Some("a".to_owned());
    engine.metadata.generation = Some(1);
    engine.metadata.resource_version = Some("1".to_owned());
    engine.spec.replicas = replicas;
    Story {
        engine,
        image: "v1".to_owned(),
        image_field: IMAGE,
        blocked: None,
        auto_stop: None,
        observed: Observed::default(),
        configs: BTreeMap::new(),
        began,
        now: began,
        version: 1,
        ready: String::new(),
        log: String::new(),
    }
}

impl Story {
    pub(crate) fn log(self) -> String {
        self.log
    }

    fn record(&mut self, who: &str, what: &str) {
        let at = self.now.duration_since(self.began);
        let _ = writeln!(self.log, "{:>5}s  {who:<9} {what}", at.as_secs());
    }

    /// Records a change and makes it.
    pub(crate) fn happens(&mut self, what: &str, change: impl FnOnce(&mut Self)) -> &mut Self {
        self.record("---", what);
        change(self);
        self
    }

    pub(crate) fn replicas(&mut self, replicas: i32) -> &mut Self {
        self.happens(&format!("a user sets replicas to {replicas}"), |story| {
            story.engine.spec.replicas = replicas;
            story.edited();
        })
    }

    pub(crate) fn image(&mut self, image: &str) -> &mut Self {
        self.happens(&format!("a user changes the image to {image}"), |story| {
            image.clone_into(&mut story.image);
            story.edited();
        })
    }

    pub(crate) fn class_image(&mut self, image: &str) -> &mut Self {
        self.happens(&format!("a user changes the image in the class to {image}"), |story| {
            image.clone_into(&mut story.image);
            story.image_field = IMAGE_OF_CLASS;
        })
    }

    fn edited(&mut self) {
        self.engine.metadata.generation = self.engine.metadata.generation.map(|generation| generation + 1);
        self.touched();
    }

    fn touched(&mut self) {
        self.version += 1;
        self.engine.metadata.resource_version = Some(self.version.to_string());
    }

    pub(crate) fn block(&mut self, cause: GateCause, message: &str) -> &mut Self {
        self.blocked = Some(Gate {
            cause,
            message: message.to_owned(),
        });
        self
    }

    pub(crate) fn unblock(&mut self) -> &mut Self {
        self.blocked = None;
        self
    }

    /// From 0 to 2 replicas, idle after 30 minutes, open from 12:00 to 13:00.
    pub(crate) fn auto_stop(&mut self) -> &mut Self {
        self.auto_stop = Some(AutoStop {
            enabled: true,
            active_replicas: 2,
            idle_replicas: 0,
            idle_timeout: "30m".parse().expect("a duration"),
            poll_interval: "1m".parse().expect("a duration"),
            schedule: vec![ScheduleWindow {
                start: "12:00".to_owned(),
                end: "13:00".to_owned(),
                days: Vec::new(),
            }],
        });
        self
    }

    pub(crate) fn wake(&mut self) -> &mut Self {
        let requested = self.now.to_string();
        self.happens("a query requests a wake", |story| {
            let annotations = story.engine.metadata.annotations.get_or_insert_default();
            annotations.insert(Annotation::WakeRequested.key().to_owned(), requested);
            story.touched();
        })
    }

    pub(crate) fn lose_status(&mut self) -> &mut Self {
        self.happens("the status is lost", |story| {
            story.engine.status = None;
            story.ready.clear();
            story.touched();
        })
    }

    pub(crate) fn delete(&mut self) {
        self.engine.metadata.deletion_timestamp = Some(Time(self.now));
        self.touched();
    }

    pub(crate) fn lose_route(&mut self) {
        self.observed.routing = None;
    }

    pub(crate) fn pods(&mut self, generation: i64, ready: i32) -> &mut Self {
        self.happens(&format!("g{generation} has {ready} ready pods"), |story| {
            story.seen(generation).pods.ready = ready;
        })
    }

    /// The probe pool counts after the switch notice.
    pub(crate) fn counted(&mut self, generation: i64, outcome: Drain) -> &mut Self {
        self.later(10);
        let now = self.now;
        self.happens(
            &format!("the queries of g{generation} are counted: {outcome:?}"),
            |story| {
                story.observed.drain = Some(DrainSample {
                    generation,
                    began: now,
                    outcome,
                });
            },
        )
    }

    pub(crate) fn quiet(&mut self, since: Timestamp) -> &mut Self {
        let generation = self
            .engine
            .status
            .as_ref()
            .map_or(-1, |status| status.active_generation);
        self.observed.activity = Some(ActivitySample {
            generation,
            taken: self.now,
            outcome: Activity::Quiet { since },
        });
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn later(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    pub(crate) fn until(&mut self, time: &str) -> &mut Self {
        self.now = time.parse().expect("a time");
        self
    }

    /// Reconciles until there is nothing to do.
    pub(crate) fn run(&mut self) -> &mut Self {
        while self.reconcile(Ending::Complete) {
            self.later(1);
        }
        self
    }

    /// As [`run`](Self::run), but the operator crashes after every write. Returns the number of crashes.
    pub(crate) fn run_crashing(&mut self) -> usize {
        let mut crashes = 0;
        loop {
            while !self.decide().writes.is_empty() {
                self.reconcile(Ending::CrashAfterOneWrite);
                self.later(1);
                crashes += 1;
            }
            if !self.reconcile(Ending::Complete) {
                return crashes;
            }
            self.later(1);
        }
    }

    fn decide(&mut self) -> Plan {
        self.observe();
        let desired = match &self.blocked {
            Some(gate) => Err(gate.clone()),
            None => Ok(Desired {
                template_hash: self.image.clone(),
                rendering_hash: String::new(),
            }),
        };
        plan(&Input {
            engine: &self.engine,
            desired: &desired,
            auto_stop: self.auto_stop.as_ref(),
            instance: match &self.blocked {
                Some(gate) if gate.cause == GateCause::InstanceNotReady => Err(&gate.message),
                Some(_) | None => Ok(()),
            },
            drain: DrainSettings {
                waits: true,
                interval: Duration::from_secs(5),
            },
            progress_deadline: Duration::from_mins(15),
            switch_notice: Duration::from_secs(10),
            lost_pod_timeout: Duration::from_mins(10),
            observed: &self.observed,
            limits: Limits::default(),
            now: self.now,
        })
    }

    /// Reconciles once. Returns whether there was anything to do.
    fn reconcile(&mut self, ending: Ending) -> bool {
        let plan = self.decide();
        for write in &plan.writes {
            self.record("write", &describe(write));
            self.perform(write);
            if ending == Ending::CrashAfterOneWrite {
                self.record("---", "the operator crashes and restarts");
                self.observed.unrouted_since = None;
                self.observed.drain = None;
                return true;
            }
        }
        self.report(&plan);
        let acted = !plan.writes.is_empty() || plan.status.is_some();
        if let Some(status) = plan.status {
            self.engine.status = Some(status);
            self.touched();
        }
        if !acted {
            let next = plan
                .requeue_after
                .map_or("on the next change".to_owned(), |wait| format!("after {wait:?}"));
            self.record("requeue", &next);
        }
        acted
    }

    fn report(&mut self, plan: &Plan) {
        for event in &plan.events {
            let severity = match event.severity {
                Severity::Normal => "event",
                Severity::Warning => "warning",
            };
            self.record(severity, &format!("{}: {}", event.reason, event.message));
        }
        let Some(status) = &plan.status else { return };
        let active = status.active_generation;
        let draining = status
            .draining_generation
            .map_or(String::new(), |old| format!(", draining g{old}"));
        let phase = status.phase.expect("a phase");
        let counters = format!(
            "{phase}: current g{}, active g{active}{draining}",
            status.current_generation
        );
        self.record("status", &counters.replace("g-1", "none"));
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .expect("a condition");
        let ready = format!("{} {}: {}", ready.status, ready.reason, ready.message);
        if self.ready != ready {
            self.record("ready", &ready);
            self.ready = ready;
        }
    }

    /// The observed state that the caller of `plan` reads, and what it keeps in memory.
    fn observe(&mut self) {
        let rendered = (self.image.clone(), self.engine.spec.replicas);
        for (number, generation) in &mut self.observed.generations {
            if let Some(config) = &mut generation.config_map {
                config.intact = self.blocked.is_some() || self.configs.get(number) == Some(&rendered);
            }
            if let Some(set) = &mut generation.stateful_set {
                let image = set.template_hash.as_deref().unwrap_or_default();
                let changed = image != self.image;
                let change = || format!("{} changed from {image} to {}", self.image_field, self.image);
                set.changes = changed.then(change).into_iter().collect();
            }
        }
        let old = self
            .engine
            .status
            .as_ref()
            .and_then(|status| status.draining_generation);
        let target = self.observed.routing.as_ref().and_then(|routing| routing.target);
        let unrouted = old.is_some() && target.is_some() && target != old;
        self.observed.unrouted_since = self
            .observed
            .unrouted_since
            .filter(|_| unrouted)
            .or(unrouted.then_some(self.now));
    }
}
