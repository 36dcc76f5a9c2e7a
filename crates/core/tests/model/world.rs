//! The state of the model: the cluster as it is, what the caller of `plan` remembers, and what its caches still show.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firebolt_api::name::GENERATION_NAMES;
use firebolt_api::{AutoStopReason, EnginePhase};

/// The name of the engine.
pub(crate) const NAME: &str = "a";

/// The desired renders: two good ones, and one whose pods never become ready.
pub(crate) const GOOD: u8 = 0;
pub(crate) const OTHER: u8 = 1;
pub(crate) const BAD: u8 = 2;

/// How long gateways may be late to observe a switch.
pub(crate) const SWITCH_NOTICE: Duration = Duration::from_secs(10);

/// Time goes in steps of so many minutes: the time for which a wake is honoured.
pub(crate) const STEP: u8 = 5;
/// Ages in steps stop counting here; nothing in the model looks further back.
pub(crate) const OLD: u8 = 3;
/// The policy of the auto-stop model, in steps and replicas.
pub(crate) const IDLE_TIMEOUT: u8 = 2;
pub(crate) const WAKE_TTL: u8 = 1;
pub(crate) const ACTIVE_REPLICAS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub print: u8,
    pub replicas: u8,
    pub waits: bool,
    pub gate: Option<Closed>,
}

/// What prevents a generation from being rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Closed {
    /// The instance is not ready.
    Instance,
    /// The class is gone.
    Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Status {
    pub phase: EnginePhase,
    pub current: i8,
    pub active: Option<i8>,
    pub draining: Option<i8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Set {
    /// What it was created from.
    pub print: u8,
    pub replicas: u8,
    pub tampered: bool,
    pub terminating: bool,
    pub owned: bool,
    pub uid: u8,
    pub age: Age,
}

/// How long a StatefulSet has been there. It matters only for one without replicas; the others stay new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Age {
    New,
    /// For the notice of a stop.
    Noticed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub print: u8,
    pub tampered: bool,
    pub uid: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gen {
    pub set: Option<Set>,
    pub config: Option<Part>,
    pub headless: Option<Part>,
    pub ready: u8,
    /// Queries are running here.
    pub busy: bool,
    /// For the check only: a user moved the route here, or away from here, while the status did not call this
    /// generation active or draining. Nothing in the cluster records any more that it may have queries.
    pub excused: bool,
}

impl Gen {
    pub(crate) fn exists(&self) -> bool {
        self.set.is_some() || self.config.is_some() || self.headless.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub target: i8,
    pub intact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Count {
    Busy,
    None,
    Failed,
}

/// What the probe pool last found about the draining generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DrainCount {
    pub generation: i8,
    pub began: Began,
    pub found: Count,
}

/// When a count began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Began {
    /// Before the caller had seen the generation outside the routing Service.
    BeforeTheSwitch,
    /// After that, when gateways could still send queries to the generation.
    DuringTheNotice,
    AfterTheNotice,
}

/// What one watch cache still shows. At most one lags at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lag {
    pub kind: Lagging,
    pub gens: BTreeMap<i8, Gen>,
    pub route: Option<Route>,
    pub engine: Option<(Spec, Option<Status>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lagging {
    Sets,
    Configs,
    Headless,
    Pods,
    Route,
    Engine,
}

/// Auto-stop: the annotation, the times in the status and the caller's memory, as ages in steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Auto {
    pub window_open: bool,
    /// How long ago the window closed.
    pub window_closed: Option<u8>,
    pub wake: Option<u8>,
    pub last_activity: Option<u8>,
    pub reason: Option<Reason>,
    pub sample: Option<(u8, Count)>,
    pub quiet_since: Option<u8>,
    /// For the check only: steps since anything kept, or might have kept, the engine in use.
    pub unused: u8,
}

/// `AutoStopReason` in a form that can be part of a set of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reason(pub AutoStopReason);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub spec: Spec,
    pub status: Option<Status>,
    pub gens: BTreeMap<i8, Gen>,
    pub route: Option<Route>,
    /// The caller has seen the draining generation outside the routing Service.
    pub unrouted: bool,
    /// The generation that the route has left, until all gateways have observed that.
    pub late: Option<i8>,
    /// A policy rejects the deletion of headless Services.
    pub policy: bool,
    /// The generations of whose headless Services the caller remembers that.
    pub refused: BTreeSet<i8>,
    pub count: Option<DrainCount>,
    pub lag: Option<Lag>,
    pub auto: Option<Auto>,
    /// How many more disturbances there will be.
    pub budget: u8,
    /// The number that the model calls generation 0.
    pub first: i64,
}

impl World {
    pub(crate) fn new(replicas: u8, budget: u8) -> Self {
        Self {
            spec: Spec {
                print: GOOD,
                replicas,
                waits: true,
                gate: None,
            },
            status: None,
            gens: BTreeMap::new(),
            route: None,
            unrouted: false,
            late: None,
            policy: false,
            refused: BTreeSet::new(),
            count: None,
            lag: None,
            auto: None,
            budget,
            first: 0,
        }
    }

    /// A first generation is serving queries, and the desired state is a second one. The names of generations start again after
    /// that.
    pub(crate) fn rolling(budget: u8) -> Self {
        let mut world = Self::new(2, budget);
        world.first = GENERATION_NAMES - 2;
        let part = Part {
            print: GOOD,
            tampered: false,
            uid: 0,
        };
        let set = Set {
            print: GOOD,
            replicas: 2,
            tampered: false,
            terminating: false,
            owned: true,
            uid: 0,
            age: Age::New,
        };
        world.status = Some(Status {
            phase: EnginePhase::Stable,
            current: 0,
            active: Some(0),
            draining: None,
        });
        *world.generation(0) = Gen {
            set: Some(set),
            config: Some(part),
            headless: Some(part),
            ready: 2,
            ..Gen::default()
        };
        world.route = Some(Route {
            target: 0,
            intact: true,
        });
        world.spec.print = OTHER;
        world
    }

    pub(crate) fn with_auto_stop(replicas: u8, budget: u8) -> Self {
        Self {
            auto: Some(Auto::default()),
            ..Self::new(replicas, budget)
        }
    }

    /// The hash of what the specification says about pods.
    pub(crate) fn template_hash(print: u8) -> String {
        print.to_string()
    }

    pub(crate) fn real(&self, number: i8) -> i64 {
        self.first + i64::from(number)
    }

    pub(crate) fn number(&self, real: i64) -> i8 {
        i8::try_from(real - self.first).expect("a small number")
    }

    pub(crate) fn generation(&mut self, number: i8) -> &mut Gen {
        self.gens.entry(number).or_default()
    }

    pub(crate) fn named(&self) -> Vec<i8> {
        let status = self.status.as_ref();
        let named = status.map(|status| [Some(status.current), status.active, status.draining]);
        named.into_iter().flatten().flatten().collect()
    }

    /// So much time passes that every gateway that lists the engine periodically has observed that it stops.
    pub(crate) fn notice(&mut self) {
        let sets = self.gens.values_mut().filter_map(|generation| generation.set.as_mut());
        for set in sets.filter(|set| set.replicas == 0 && set.owned) {
            set.age = Age::Noticed;
        }
    }

    /// The caller dies: what it kept in memory is gone.
    pub(crate) fn forget(&mut self) {
        self.unrouted = false;
        self.refused.clear();
        self.count = None;
        if let Some(auto) = &mut self.auto {
            auto.sample = None;
            auto.quiet_since = None;
            auto.unused = 0;
        }
    }

    /// Histories that differ only in how far the numbers have gone are one state.
    pub(crate) fn canonical(mut self) -> Self {
        self.gens.retain(|_, generation| generation.exists());
        let gens = &self.gens;
        self.refused
            .retain(|number| gens.get(number).is_some_and(|generation| generation.headless.is_some()));
        let settled = |status: Status| matches!(status.phase, EnginePhase::Stable | EnginePhase::Stopped);
        if self.status.is_some_and(settled) {
            self.late = None;
        }
        if let Some(lag) = &mut self.lag {
            lag.gens.retain(|_, generation| *generation != Gen::default());
        }
        let Some(lowest) = self.numbers().min() else {
            return self;
        };
        if lowest != 0 {
            self.shift(-lowest);
        }
        self
    }

    fn numbers(&self) -> impl Iterator<Item = i8> {
        let lag = self.lag.as_ref();
        let lagging_status = lag.and_then(|lag| lag.engine).and_then(|(_, status)| status);
        let statuses = [self.status, lagging_status].into_iter().flatten();
        let named = statuses.flat_map(|status| [Some(status.current), status.active, status.draining]);
        let routes = [self.route, lag.and_then(|lag| lag.route)];
        let targets = routes.into_iter().map(|route| route.map(|route| route.target));
        let counted = [self.count.map(|count| count.generation), self.late];
        let existing = self.gens.keys().chain(lag.into_iter().flat_map(|lag| lag.gens.keys()));
        named.chain(targets).chain(counted).flatten().chain(existing.copied())
    }

    fn shift(&mut self, by: i8) {
        let move_status = |status: Status| Status {
            current: status.current + by,
            active: status.active.map(|active| active + by),
            draining: status.draining.map(|draining| draining + by),
            ..status
        };
        let move_route = |route: Route| Route {
            target: route.target + by,
            ..route
        };
        let move_gens = |gens: &mut BTreeMap<i8, Gen>| {
            *gens = std::mem::take(gens)
                .into_iter()
                .map(|(number, generation)| (number + by, generation))
                .collect();
        };
        self.status = self.status.map(move_status);
        self.route = self.route.map(move_route);
        move_gens(&mut self.gens);
        if let Some(count) = &mut self.count {
            count.generation += by;
        }
        self.late = self.late.map(|number| number + by);
        self.refused = self.refused.iter().map(|number| number + by).collect();
        if let Some(lag) = &mut self.lag {
            lag.route = lag.route.map(move_route);
            move_gens(&mut lag.gens);
            lag.engine = lag.engine.map(|(spec, status)| (spec, status.map(move_status)));
        }
    }
}
