//! The caller of `plan`, as the contract of its input and output wants it: observes, decides, confirms, writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use firebolt_api::key::{Annotation, Finalizer};
use firebolt_api::{AutoStop, FireboltEngine, FireboltEngineStatus, ScheduleWindow};
use firebolt_core::plan::engine::{
    Activity, ActivitySample, Desired, Drain, DrainSample, DrainSettings, Gate, GateCause, Generation, Input, Limits,
    Observed, Plan, Pods, RefusedDelete, Routing, StatefulSet, plan,
};
use firebolt_core::plan::{Meta, ObservedChild, Reads};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::known_bad::Bad;
use crate::world::{
    Age, Auto, Began, Closed, Count, Gen, IDLE_TIMEOUT, Lagging, NAME, OLD, Part, STEP, SWITCH_NOTICE, Spec, Status,
    World,
};

/// Times of the API server are whole seconds, and this one is not.
static NOW: LazyLock<Timestamp> = LazyLock::new(|| "2026-11-16T12:00:00.4Z".parse().expect("a time"));
/// When the last status was written: just now, as the API server stores it.
static JUST_NOW: LazyLock<Timestamp> = LazyLock::new(|| "2026-11-16T12:00:00Z".parse().expect("a time"));
/// When a StatefulSet was created whose notice is just not over, and one whose notice just is.
static NOTICE_BEGAN: LazyLock<Timestamp> = LazyLock::new(|| "2026-11-16T11:59:52Z".parse().expect("a time"));
static NOTICE_ENDED: LazyLock<Timestamp> = LazyLock::new(|| "2026-11-16T11:59:51Z".parse().expect("a time"));
/// When the caller saw the route leave the draining generation.
static UNROUTED: LazyLock<Timestamp> = LazyLock::new(|| minutes_ago(2));

fn minutes_ago(minutes: u8) -> Timestamp {
    *NOW - SignedDuration::from_mins(i64::from(minutes))
}

fn steps_ago(steps: u8) -> Timestamp {
    minutes_ago(steps * STEP)
}

fn age(time: &Time) -> u8 {
    u8::try_from(NOW.duration_since(time.0).as_mins()).map_or(OLD, |age| (age / STEP).min(OLD))
}

/// What the caller decided from, and what it decided.
pub(crate) struct Decision {
    pub plan: Plan,
    /// The engine as it was read.
    pub engine: (Spec, Option<Status>),
}

/// One decision, from the engine as it is or as it was before the caller slept. `status` replaces the bare counters of
/// the world with a full status, where one is at hand.
pub(crate) fn decide(
    world: &mut World,
    slept: Option<(Spec, Option<Status>)>,
    status: Option<&FireboltEngineStatus>,
    bad: Option<Bad>,
) -> Decision {
    remember_route(world, false);
    let read = slept.unwrap_or((world.spec, world.status));
    let engine = engine(world, read, status);
    let desired = desired(read.0);
    let cached = attempt(world, &engine, &desired, read.0, false, bad);
    let plan = match cached {
        (_, true) if bad != Some(Bad::TrustCaches) => {
            remember_route(world, true);
            attempt(world, &engine, &desired, read.0, true, bad).0
        }
        (plan, _) => plan,
    };
    Decision { plan, engine: read }
}

fn attempt(
    world: &World,
    engine: &FireboltEngine,
    desired: &Result<Desired, Gate>,
    spec: Spec,
    live: bool,
    bad: Option<Bad>,
) -> (Plan, bool) {
    let mut observed = observed(world, spec, live);
    let mut engine = engine.clone();
    if let Some(bad) = bad {
        bad.distort_input(&mut engine, &mut observed, *NOW);
    }
    let policy = world.auto.map(policy);
    let refused: Vec<RefusedDelete> = world
        .refused
        .iter()
        .filter_map(|number| refused(world, *number))
        .collect();
    let input = Input {
        engine: &engine,
        desired,
        auto_stop: policy.as_ref(),
        instance: match spec.gate {
            Some(Closed::Instance) => Err("The instance is not ready."),
            Some(Closed::Class) | None => Ok(()),
        },
        drain: DrainSettings {
            waits: spec.waits,
            interval: Duration::from_secs(5),
        },
        progress_deadline: Duration::from_mins(15),
        switch_notice: SWITCH_NOTICE,
        lost_pod_timeout: Duration::from_mins(10),
        observed: &observed,
        limits: Limits {
            refused_deletes: &refused,
            ..Limits::default()
        },
        now: *NOW,
    };
    let mut plan = plan(&input);
    let live_needed = plan.reads_needed(&input, Reads::Cached).is_some();
    if let Some(bad) = bad {
        bad.distort_plan(&input, &mut plan);
    }
    (plan, live_needed)
}

/// The caller's own memory: since when the draining generation has been outside the routing Service.
fn remember_route(world: &mut World, live: bool) {
    let draining = world.status.and_then(|status| status.draining);
    let route = match &world.lag {
        Some(lag) if lag.kind == Lagging::Route && !live => lag.route,
        Some(_) | None => world.route,
    };
    let unrouted = draining.is_some() && route.is_some_and(|route| Some(route.target) != draining);
    if !unrouted {
        world.count = None;
    }
    world.unrouted = unrouted;
}

fn engine(
    world: &World,
    (spec, counters): (Spec, Option<Status>),
    full: Option<&FireboltEngineStatus>,
) -> FireboltEngine {
    let mut engine = FireboltEngine::default();
    engine.metadata.name = Some(NAME.to_owned());
    engine.metadata.generation = Some(1);
    engine.metadata.resource_version = Some(String::new());
    engine.metadata.finalizers = Some(vec![Finalizer::Engine.key().to_owned()]);
    engine.spec.replicas = i32::from(spec.replicas);
    engine.status = full
        .cloned()
        .or_else(|| counters.map(|counters| bare_status(world, counters)));
    if let Some(age) = world.auto.and_then(|auto| auto.wake) {
        let wake_requested = steps_ago(age).to_string();
        engine.metadata.annotations = Some([(Annotation::WakeRequested.key().to_owned(), wake_requested)].into());
    }
    engine
}

fn bare_status(world: &World, counters: Status) -> FireboltEngineStatus {
    let auto = world.auto;
    FireboltEngineStatus {
        observed_generation: None,
        current_generation: world.real(counters.current),
        active_generation: counters.active.map_or(-1, |active| world.real(active)),
        draining_generation: counters.draining.map(|draining| world.real(draining)),
        phase: Some(counters.phase),
        rollout_cause: None,
        replicas: None,
        ready_replicas: None,
        selector: None,
        last_reconciled: Some(Time(*JUST_NOW)),
        last_activity_time: auto.and_then(|auto| auto.last_activity).map(|age| Time(steps_ago(age))),
        last_scaled_at: None,
        auto_stop_reason: auto.and_then(|auto| auto.reason).map(|reason| reason.0),
        conditions: Vec::new(),
    }
}

/// Takes a written status back into the world.
pub(crate) fn persist(world: &mut World, status: &FireboltEngineStatus) {
    let active_before = world.status.and_then(|status| status.active);
    world.status = Some(Status {
        phase: status.phase.expect("a phase"),
        current: world.number(status.current_generation),
        active: Some(status.active_generation)
            .filter(|&active| active >= 0)
            .map(|active| world.number(active)),
        draining: status.draining_generation.map(|draining| world.number(draining)),
    });
    let active_now = world.status.and_then(|status| status.active);
    if let Some(auto) = &mut world.auto {
        if active_before != active_now {
            // The pool counts the queries of one generation; with another one it starts anew.
            auto.sample = None;
            auto.quiet_since = None;
            auto.unused = 0;
        }
        auto.last_activity = status.last_activity_time.as_ref().map(age);
        auto.reason = status.auto_stop_reason.map(crate::world::Reason);
    }
}

fn desired(spec: Spec) -> Result<Desired, Gate> {
    if let Some(gate) = spec.gate {
        return Err(Gate {
            cause: match gate {
                Closed::Instance => GateCause::InstanceNotReady,
                Closed::Class => GateCause::ClassUnready,
            },
            message: format!("{gate:?} is not ready."),
        });
    }
    Ok(Desired {
        template_hash: World::template_hash(spec.print),
        rendering_hash: String::new(),
    })
}

fn policy(auto: Auto) -> AutoStop {
    let until = |end: String| ScheduleWindow {
        start: "00:00".to_owned(),
        end,
        days: Vec::new(),
    };
    let schedule = match (auto.window_open, auto.window_closed) {
        (true, _) => Some(until("24:00".to_owned())),
        (false, Some(0)) => Some(until("12:00".to_owned())),
        (false, Some(age)) => Some(until(format!("11:{}", 60 - age * STEP))),
        (false, None) => None,
    };
    AutoStop {
        enabled: true,
        active_replicas: i32::from(crate::world::ACTIVE_REPLICAS),
        idle_replicas: 0,
        idle_timeout: firebolt_api::Duration::from_secs(u64::from(IDLE_TIMEOUT) * u64::from(STEP) * 60),
        poll_interval: firebolt_api::Duration::from_secs(u64::from(STEP) * 60),
        schedule: schedule.into_iter().collect(),
    }
}

/// What the caches show, or what is there.
fn observed(world: &World, spec: Spec, live: bool) -> Observed {
    let lag = world.lag.as_ref().filter(|_| !live);
    let shows = |kind| lag.filter(|lag| lag.kind == kind);
    let route = shows(Lagging::Route).map_or(world.route, |lag| lag.route);
    Observed {
        generations: generations(world, spec, live),
        routing: route.map(|route| Routing {
            meta: meta("r".to_owned(), true, false),
            target: Some(world.real(route.target)),
            intact: route.intact,
        }),
        drain: world.count.map(|count| DrainSample {
            generation: world.real(count.generation),
            began: match count.began {
                Began::BeforeTheSwitch => minutes_ago(3),
                Began::DuringTheNotice => *UNROUTED + SWITCH_NOTICE / 2,
                Began::AfterTheNotice => *UNROUTED + SWITCH_NOTICE,
            },
            outcome: match count.found {
                Count::Busy => Drain::Busy(1),
                Count::None => Drain::Drained,
                Count::Failed => Drain::Failed {
                    pod: "p".to_owned(),
                    cause: "refused".to_owned(),
                },
            },
        }),
        unrouted_since: world.unrouted.then_some(*UNROUTED),
        activity: activity(world),
        warning: None,
        pod_causes: Vec::new(),
        deletions: Vec::new(),
    }
}

fn activity(world: &World) -> Option<ActivitySample> {
    let auto = world.auto?;
    let (taken, found) = auto.sample?;
    Some(ActivitySample {
        generation: world.real(world.status?.active?),
        taken: steps_ago(taken),
        outcome: match found {
            Count::Busy => Activity::Busy(1),
            Count::None => Activity::Quiet {
                since: steps_ago(auto.quiet_since.unwrap_or(taken)),
            },
            Count::Failed => Activity::Failed {
                cause: "refused".to_owned(),
            },
        },
    })
}

fn generations(world: &World, spec: Spec, live: bool) -> BTreeMap<i64, Generation> {
    let lag = world.lag.as_ref().filter(|_| !live);
    let numbers = world.gens.keys().chain(lag.into_iter().flat_map(|lag| lag.gens.keys()));
    let mut seen = BTreeMap::new();
    for &number in numbers {
        let truth = world.gens.get(&number).copied().unwrap_or_default();
        let shown = lag.map(|lag| (lag.kind, lag.gens.get(&number).copied().unwrap_or_default()));
        seen.insert(world.real(number), generation(number, spec, overlaid(truth, shown)));
    }
    seen
}

/// The truth, except for the kind that lags.
fn overlaid(truth: Gen, shown: Option<(Lagging, Gen)>) -> Gen {
    let Some((kind, shown)) = shown else { return truth };
    let mut seen = truth;
    match kind {
        Lagging::Sets => seen.set = shown.set,
        Lagging::Configs => seen.config = shown.config,
        Lagging::Headless => seen.headless = shown.headless,
        Lagging::Pods => seen.ready = shown.ready,
        Lagging::Route | Lagging::Engine => {}
    }
    // Pods are counted by the UID of their StatefulSet.
    let same_set = seen.set.map(|set| set.uid) == truth.set.map(|set| set.uid);
    let limit = seen.set.map_or(0, |set| set.replicas);
    seen.ready = if same_set { seen.ready.min(limit) } else { 0 };
    seen
}

/// The delete of a headless Service that the caller remembers as rejected.
fn refused(world: &World, number: i8) -> Option<RefusedDelete> {
    let headless = world.gens.get(&number)?.headless?;
    Some(RefusedDelete {
        object: format!("Service {number}"),
        uid: format!("h{number}/{}", headless.uid),
        cause: "forbidden".to_owned(),
        retry_after: Duration::from_mins(1),
    })
}

fn generation(number: i8, spec: Spec, seen: Gen) -> Generation {
    let child = |what: &str, part: Part| ObservedChild {
        meta: meta(format!("{what}{number}/{}", part.uid), true, false),
        // Behind a gate, nothing is compared.
        intact: spec.gate.is_some() || (part.print == spec.print && !part.tampered),
    };
    let total = seen.set.map_or(0, |set| if set.terminating { 0 } else { set.replicas });
    Generation {
        stateful_set: seen.set.map(|set| StatefulSet {
            meta: meta(format!("s{number}/{}", set.uid), set.owned, set.terminating),
            template_hash: Some(World::template_hash(set.print)),
            tampered: set.tampered && spec.gate.is_none(),
            outdated: Vec::new(),
            changes: Vec::new(),
            replicas: set.replicas.into(),
            // Only the notice of a stop depends on it.
            created: match set.age {
                Age::New if set.replicas == 0 => *NOTICE_BEGAN,
                Age::New | Age::Noticed => *NOTICE_ENDED,
            },
        }),
        config_map: seen.config.map(|part| child("c", part)),
        headless_service: seen.headless.map(|part| child("h", part)),
        pods: Pods {
            total: total.into(),
            ready: seen.ready.min(total).into(),
        },
        ..Generation::default()
    }
}

fn meta(uid: String, owned: bool, terminating: bool) -> Meta {
    Meta {
        uid,
        owned,
        terminating,
        foreign_finalizers: Vec::new(),
    }
}
