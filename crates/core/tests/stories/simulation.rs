//! An in-memory cluster that carries out plans and writes down what happened, line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use firebolt_api::key::{Annotation, Finalizer};
use firebolt_api::{AutoStop, FireboltEngine, ScheduleWindow};
use firebolt_core::plan::engine::{
    Activity, ActivitySample, Desired, Drain, DrainSample, DrainSettings, Gate, GateCause, Generation, Input, Kind,
    Object, Observed, Plan, Pods, Routing, StatefulSet, Write, plan,
};
use firebolt_core::plan::{Child, Meta, Severity};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A story: what is done to an engine, and what the operator does about it.
pub struct Story {
    engine: FireboltEngine,
    spec: String,
    blocked: Option<Gate>,
    auto_stop: Option<AutoStop>,
    observed: Observed,
    /// What each ConfigMap was rendered from.
    configs: BTreeMap<i64, String>,
    began: Timestamp,
    now: Timestamp,
    version: u64,
    ready: String,
    log: String,
}

/// How far a pass gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    /// The process dies after its first write.
    DiesAfterAWrite,
}

pub fn story(replicas: i32) -> Story {
    let began: Timestamp = "2026-11-16T08:00:00Z".parse().expect("a time");
    let mut engine = FireboltEngine::default();
    engine.metadata.name = Some("a".to_owned());
    engine.metadata.generation = Some(1);
    engine.metadata.resource_version = Some("1".to_owned());
    engine.spec.replicas = replicas;
    Story {
        engine,
        spec: "v1".to_owned(),
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
    pub fn log(self) -> String {
        self.log
    }

    fn say(&mut self, who: &str, what: &str) {
        let at = self.now.duration_since(self.began);
        let _ = writeln!(self.log, "{:>5}s  {who:<9} {what}", at.as_secs());
    }

    /// Something happens.
    pub fn happens(&mut self, what: &str, change: impl FnOnce(&mut Self)) -> &mut Self {
        self.say("---", what);
        change(self);
        self
    }

    pub fn replicas(&mut self, replicas: i32) -> &mut Self {
        self.happens(&format!("a person sets replicas to {replicas}"), |story| {
            story.engine.spec.replicas = replicas;
            story.edited();
        })
    }

    pub fn spec(&mut self, spec: &str) -> &mut Self {
        self.happens(&format!("a person changes the specification to {spec}"), |story| {
            spec.clone_into(&mut story.spec);
            story.edited();
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

    pub fn block(&mut self, cause: GateCause, message: &str) -> &mut Self {
        self.blocked = Some(Gate {
            cause,
            message: message.to_owned(),
        });
        self
    }

    pub fn unblock(&mut self) -> &mut Self {
        self.blocked = None;
        self
    }

    /// From 0 to 2 replicas, idle after 30 minutes, open from 12:00 to 13:00.
    pub fn auto_stop(&mut self) -> &mut Self {
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

    pub fn wake(&mut self) -> &mut Self {
        let stamp = self.now.to_string();
        self.happens("a query asks for the engine", |story| {
            let annotations = story.engine.metadata.annotations.get_or_insert_default();
            annotations.insert(Annotation::WakeRequested.key().to_owned(), stamp);
            story.touched();
        })
    }

    pub fn lose_status(&mut self) -> &mut Self {
        self.happens("the status is lost", |story| {
            story.engine.status = None;
            story.ready.clear();
            story.touched();
        })
    }

    /// Something besides the engine's own specification changed what is rendered.
    pub fn rendered_as(&mut self, spec: &str) {
        spec.clone_into(&mut self.spec);
    }

    pub fn delete(&mut self) {
        self.engine.metadata.deletion_timestamp = Some(Time(self.now));
        self.touched();
    }

    pub fn lose_route(&mut self) {
        self.observed.routing = None;
    }

    pub fn pods(&mut self, generation: i64, ready: i32) -> &mut Self {
        self.happens(&format!("g{generation} has {ready} ready pods"), |story| {
            story.seen(generation).pods.ready = ready;
        })
    }

    pub fn counted(&mut self, generation: i64, outcome: Drain) -> &mut Self {
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

    pub fn quiet(&mut self, since: Timestamp) -> &mut Self {
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

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn later(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    pub fn until(&mut self, time: &str) -> &mut Self {
        self.now = time.parse().expect("a time");
        self
    }

    /// Passes until one has nothing to do.
    pub fn run(&mut self) -> &mut Self {
        while self.pass(End::Done) {
            self.later(1);
        }
        self
    }

    /// As [`run`](Self::run), but the operator dies after every single write. Gives the number of deaths.
    pub fn run_dying(&mut self) -> usize {
        let mut deaths = 0;
        loop {
            while !self.decide().writes.is_empty() {
                self.pass(End::DiesAfterAWrite);
                self.later(1);
                deaths += 1;
            }
            if !self.pass(End::Done) {
                return deaths;
            }
            self.later(1);
        }
    }

    fn decide(&mut self) -> Plan {
        self.look();
        let desired = match &self.blocked {
            Some(gate) => Err(gate.clone()),
            None => Ok(Desired {
                fingerprint: self.fingerprint(),
                auto_stop: self.auto_stop.clone(),
            }),
        };
        plan(&Input {
            engine: &self.engine,
            desired: &desired,
            drain: DrainSettings {
                waits: true,
                interval: Duration::from_secs(5),
            },
            progress_deadline: Duration::from_mins(15),
            observed: &self.observed,
            now: self.now,
        })
    }

    /// One pass. Says whether there was anything to do.
    fn pass(&mut self, end: End) -> bool {
        let plan = self.decide();
        for write in &plan.writes {
            self.say("write", &describe(write));
            self.perform(write);
            if end == End::DiesAfterAWrite {
                self.say("---", "the operator dies and starts again");
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
                .look_again
                .map_or("when something changes".to_owned(), |wait| format!("in {wait:?}"));
            self.say("rest", &format!("looks again {next}"));
        }
        acted
    }

    fn report(&mut self, plan: &Plan) {
        for event in &plan.events {
            let severity = match event.severity {
                Severity::Normal => "event",
                Severity::Warning => "warning",
            };
            self.say(severity, &format!("{}: {}", event.reason, event.message));
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
        self.say("status", &counters.replace("g-1", "none"));
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .expect("a condition");
        let ready = format!("{} {}: {}", ready.status, ready.reason, ready.message);
        if self.ready != ready {
            self.say("ready", &ready);
            self.ready = ready;
        }
    }

    /// What the caller of `plan` sees and remembers.
    fn look(&mut self) {
        let fingerprint = self.fingerprint();
        for (number, generation) in &mut self.observed.generations {
            if let Some(config) = &mut generation.config_map {
                config.intact = self.configs.get(number) == Some(&fingerprint);
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

    fn fingerprint(&self) -> String {
        format!("{}x{}", self.spec, self.engine.spec.replicas)
    }

    fn perform(&mut self, write: &Write) {
        let meta = |uid: String| Meta {
            uid,
            owned: true,
            terminating: false,
            foreign_finalizers: Vec::new(),
        };
        let child = |uid: String| Child {
            meta: meta(uid),
            intact: true,
        };
        let fingerprint = self.fingerprint();
        let replicas = self.engine.spec.replicas;
        let now = self.now;
        match write {
            Write::AddFinalizer => {
                self.engine.metadata.finalizers = Some(vec![Finalizer::Engine.key().to_owned()]);
            }
            Write::RemoveFinalizer => self.engine.metadata.finalizers = None,
            Write::ApplyConfigMap { generation: number } => {
                self.seen(*number).config_map = Some(child(format!("config-{number}")));
                self.configs.insert(*number, fingerprint);
            }
            Write::ApplyHeadlessService { generation: number } => {
                self.seen(*number).headless_service = Some(child(format!("headless-{number}")));
            }
            Write::CreateStatefulSet { generation: number } => {
                let seen = self.seen(*number);
                assert!(seen.stateful_set.is_none(), "a StatefulSet is created once");
                seen.stateful_set = Some(StatefulSet {
                    meta: meta(format!("set-{number}")),
                    fingerprint: Some(fingerprint),
                    tampered: false,
                    replicas,
                    created: now,
                });
                seen.pods = Pods {
                    total: replicas,
                    ready: 0,
                };
            }
            Write::ApplyRoutingService { generation: number } => {
                self.observed.routing = Some(Routing {
                    meta: meta("routing".to_owned()),
                    target: Some(*number),
                    intact: true,
                });
            }
            Write::Delete(object) => self.remove(object),
            Write::SetReplicas { to, .. } => {
                self.engine.spec.replicas = *to;
                self.edited();
            }
        }
    }

    fn seen(&mut self, number: i64) -> &mut Generation {
        self.observed.generations.entry(number).or_default()
    }

    fn remove(&mut self, object: &Object) {
        if object.uid == "routing" {
            self.observed.routing = None;
            return;
        }
        let (_, number) = object.uid.split_once('-').expect("a generation in the identity");
        let number: i64 = number.parse().expect("a number");
        let seen = self.seen(number);
        match object.kind {
            Kind::StatefulSet => {
                seen.stateful_set = None;
                seen.pods = Pods::default();
            }
            Kind::Service => seen.headless_service = None,
            Kind::ConfigMap => seen.config_map = None,
        }
        if seen.stateful_set.is_none() && seen.headless_service.is_none() && seen.config_map.is_none() {
            self.observed.generations.remove(&number);
        }
    }
}

fn describe(write: &Write) -> String {
    match write {
        Write::AddFinalizer => "add the finalizer".to_owned(),
        Write::RemoveFinalizer => "remove the finalizer".to_owned(),
        Write::ApplyConfigMap { generation } => format!("apply ConfigMap a-g{generation}-config"),
        Write::ApplyHeadlessService { generation } => format!("apply Service a-g{generation}-hl"),
        Write::CreateStatefulSet { generation } => format!("create StatefulSet a-g{generation}"),
        Write::ApplyRoutingService { generation } => format!("apply Service a-service -> g{generation}"),
        Write::Delete(Object { kind, name, .. }) => format!("delete {kind:?} {name}"),
        Write::SetReplicas { from, to, .. } => format!("patch spec.replicas {from} -> {to}"),
    }
}
