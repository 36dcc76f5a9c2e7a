//! The history of one engine, change by change, and what must hold after each of them.

use std::collections::BTreeMap;
use std::fmt;

use firebolt_api::EnginePhase;
use firebolt_api::key::Label;
use firebolt_api::name::EngineNames;
use serde_json::Value;
use testkit::invariant::Invariant;

/// One change of one object, reduced to what the invariants read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    kind: String,
    name: String,
    /// None if the object is gone.
    fact: Option<Fact>,
}

#[derive(Clone, Debug, PartialEq)]
enum Fact {
    Engine {
        uid: String,
        terminating: bool,
        status: Option<Status>,
    },
    Set {
        uid: String,
        generation: i64,
        replicas: i64,
        terminating: bool,
    },
    Pod {
        owner: String,
        generation: i64,
        ready: bool,
    },
    /// A ConfigMap or a headless Service.
    Part { generation: i64, terminating: bool },
    /// A Service that selects a generation and belongs to none.
    Route { target: Option<i64> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Status {
    phase: EnginePhase,
    current: i64,
    active: i64,
    draining: Option<i64>,
}

impl Change {
    /// Reads an object, or notes that it is gone.
    pub(super) fn new(kind: &str, name: &str, object: Option<&Value>) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            fact: object.map(|object| Fact::read(kind, object)),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.kind, self.name)?;
        match &self.fact {
            None => f.write_str("gone"),
            Some(fact) => write!(f, "{fact:?}"),
        }
    }
}

impl Fact {
    fn read(kind: &str, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let generation = number(&metadata["labels"][Label::Generation.key()]);
        let terminating = !metadata["deletionTimestamp"].is_null();
        match (kind, generation) {
            ("FireboltEngine", _) => Self::Engine {
                uid: text(&metadata["uid"]),
                terminating,
                status: Status::read(&object["status"]),
            },
            ("StatefulSet", Some(generation)) => Self::Set {
                uid: text(&metadata["uid"]),
                generation,
                replicas: object["spec"]["replicas"].as_i64().unwrap_or(1),
                terminating,
            },
            ("Pod", Some(generation)) => {
                let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let is_true = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
                Self::Pod {
                    owner: text(&metadata["ownerReferences"][0]["uid"]),
                    generation,
                    ready: !terminating && conditions.iter().any(is_true),
                }
            }
            (_, Some(generation)) => Self::Part {
                generation,
                terminating,
            },
            (_, None) => Self::Route {
                target: number(&object["spec"]["selector"][Label::Generation.key()]),
            },
        }
    }
}

impl Status {
    fn read(status: &Value) -> Option<Self> {
        Some(Self {
            phase: serde_json::from_value(status["phase"].clone()).ok()?,
            current: status["currentGeneration"].as_i64()?,
            active: status["activeGeneration"].as_i64()?,
            draining: status["drainingGeneration"].as_i64(),
        })
    }
}

/// An invariant was violated.
#[derive(Debug)]
pub(crate) struct Violation {
    pub invariant: Invariant,
    pub what: String,
    pub timeline: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} does not hold: {}", self.invariant, self.what)?;
        self.timeline.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

type Checked = Result<(), (Invariant, String)>;

fn violated(invariant: Invariant, what: String) -> Checked {
    Err((invariant, what))
}

/// The state of the cluster at one point of the history.
pub(super) struct History {
    engine: String,
    objects: BTreeMap<(String, String), Fact>,
}

impl History {
    pub(super) fn new(engine: &str) -> Self {
        Self {
            engine: engine.to_owned(),
            objects: BTreeMap::new(),
        }
    }

    /// Goes through all changes. Those that show nothing new, or another engine, are left out.
    pub(super) fn walk(mut self, changes: &BTreeMap<u64, Change>) -> Result<(), Violation> {
        let mut timeline = Vec::new();
        for (version, change) in changes {
            let key = (change.kind.clone(), change.name.clone());
            let is_other_engine = change.kind == "FireboltEngine" && change.name != self.engine;
            if is_other_engine || self.objects.get(&key) == change.fact.as_ref() {
                continue;
            }
            timeline.push(format!("{version} {change}"));
            self.step(key, change.fact.as_ref())
                .map_err(|(invariant, what)| Violation {
                    invariant,
                    what,
                    timeline: timeline.clone(),
                })?;
        }
        Ok(())
    }

    fn step(&mut self, key: (String, String), after: Option<&Fact>) -> Checked {
        let before = self.objects.get(&key).cloned();
        self.check_removal(&key.1, before.as_ref(), after)?;
        match after {
            Some(fact) => drop(self.objects.insert(key, fact.clone())),
            None => drop(self.objects.remove(&key)),
        }
        check_progress(before.as_ref(), after)?;
        if let Some(Fact::Engine {
            status: Some(status), ..
        }) = after
        {
            self.check_status(*status)?;
        }
        self.check_route()
    }

    /// No object of a generation that the status or the routing Service names is deleted.
    fn check_removal(&self, name: &str, before: Option<&Fact>, after: Option<&Fact>) -> Checked {
        let going = |fact: Option<&Fact>| match fact {
            Some(Fact::Set { terminating, .. } | Fact::Part { terminating, .. }) => *terminating,
            Some(Fact::Engine { .. } | Fact::Pod { .. } | Fact::Route { .. }) => false,
            None => true,
        };
        let generation = match before {
            Some(Fact::Set { generation, .. } | Fact::Part { generation, .. }) => *generation,
            Some(Fact::Engine { .. } | Fact::Pod { .. } | Fact::Route { .. }) | None => return Ok(()),
        };
        if going(before) || !going(after) {
            return Ok(());
        }
        let Some(status) = self.settled_engine() else {
            return Ok(());
        };
        let retired = (status.phase == EnginePhase::Cleaning)
            .then_some(status.draining)
            .flatten();
        let named = [Some(status.current), Some(status.active), status.draining, self.route()];
        if named.contains(&Some(generation)) && (retired != Some(generation) || self.route() == retired) {
            return violated(
                Invariant::NamedGenerationKept,
                format!("{name} is removed while {status:?} and the route {:?}", self.route()),
            );
        }
        Ok(())
    }

    /// The phase, the generations that the status names, and each StatefulSet are consistent.
    fn check_status(&self, status: Status) -> Checked {
        let Status {
            phase,
            current,
            active,
            draining,
        } = status;
        let retiring = match phase {
            EnginePhase::Draining | EnginePhase::Cleaning => true,
            EnginePhase::Stable | EnginePhase::Stopped | EnginePhase::Creating | EnginePhase::Switching => false,
        };
        if draining.is_some_and(|draining| !retiring || draining >= current) {
            return violated(Invariant::DrainingIsOlder, format!("drains in {status:?}"));
        }
        match phase {
            EnginePhase::Creating | EnginePhase::Switching | EnginePhase::Draining | EnginePhase::Cleaning => Ok(()),
            EnginePhase::Stable | EnginePhase::Stopped if active != current => {
                violated(Invariant::TerminalIsConsistent, format!("ends with {status:?}"))
            }
            EnginePhase::Stable | EnginePhase::Stopped if self.set(current).is_none() => violated(
                Invariant::TerminalIsConsistent,
                format!("ends with {status:?} and no StatefulSet"),
            ),
            EnginePhase::Stable | EnginePhase::Stopped => {
                let holding = self.sets().filter(|(_, _, replicas)| *replicas > 0).count();
                if holding > 2 {
                    return violated(
                        Invariant::GenerationsAdvance,
                        format!("{holding} generations hold pods in {status:?}"),
                    );
                }
                Ok(())
            }
        }
    }

    /// The route leads to ready pods as long as there is a generation that has all of its own ready.
    fn check_route(&self) -> Checked {
        let (Some(target), Some(_)) = (self.route(), self.settled_engine()) else {
            return Ok(());
        };
        let selected = self.set(target);
        let is_scaled_to_zero = selected.is_some_and(|(_, replicas)| replicas == 0);
        if is_scaled_to_zero || selected.is_some_and(|(uid, _)| self.ready(target, uid) > 0) {
            return Ok(());
        }
        let whole = |(generation, uid, replicas): &(i64, &str, i64)| {
            *generation != target && *replicas > 0 && self.ready(*generation, uid) == *replicas
        };
        match self.sets().find(whole) {
            Some((other, ..)) => violated(
                Invariant::RouteHasReadyPods,
                format!("the route leads to {target} without ready pods; {other} is whole"),
            ),
            None => Ok(()),
        }
    }

    /// The status of the engine, unless the engine is on its way out: then all of it goes.
    fn settled_engine(&self) -> Option<Status> {
        match self.objects.get(&("FireboltEngine".to_owned(), self.engine.clone()))? {
            Fact::Engine {
                terminating: false,
                status,
                ..
            } => *status,
            _ => None,
        }
    }

    fn route(&self) -> Option<i64> {
        let name = EngineNames(&self.engine).routing_service();
        match self.objects.get(&("Service".to_owned(), name))? {
            Fact::Route { target } => *target,
            _ => None,
        }
    }

    /// Generation, UID and replicas of each StatefulSet that is to stay.
    fn sets(&self) -> impl Iterator<Item = (i64, &str, i64)> {
        let prefix = format!("{}-g", self.engine);
        self.objects.iter().filter_map(move |((_, name), fact)| match fact {
            Fact::Set {
                uid,
                generation,
                replicas,
                terminating: false,
            } if name.starts_with(&prefix) => Some((*generation, uid.as_str(), *replicas)),
            _ => None,
        })
    }

    fn set(&self, generation: i64) -> Option<(&str, i64)> {
        let mut sets = self.sets();
        sets.find_map(|(number, uid, replicas)| (number == generation).then_some((uid, replicas)))
    }

    fn ready(&self, generation: i64, set: &str) -> i64 {
        let is_ready = |fact: &&Fact| match fact {
            Fact::Pod {
                owner,
                generation: of,
                ready,
            } => *ready && owner == set && *of == generation,
            _ => false,
        };
        i64::try_from(self.objects.values().filter(is_ready).count()).unwrap()
    }
}

/// `currentGeneration` never decreases, for as long as the engine is the same.
fn check_progress(before: Option<&Fact>, after: Option<&Fact>) -> Checked {
    let read = |fact: Option<&Fact>| match fact {
        Some(Fact::Engine { uid, status, .. }) => Some((uid.clone(), status.as_ref()?.current)),
        Some(Fact::Set { .. } | Fact::Pod { .. } | Fact::Part { .. } | Fact::Route { .. }) | None => None,
    };
    match (read(before), read(after)) {
        (Some((old, was)), Some((new, is))) if old == new && is < was => violated(
            Invariant::GenerationsAdvance,
            format!("currentGeneration went from {was} to {is}"),
        ),
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
