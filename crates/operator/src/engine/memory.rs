//! What the process remembers of an engine from one look to the next. All of it can be lost: a restart costs a look or
//! a sample more, and nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firebolt_api::{EnginePhase, FireboltEngine};
use firebolt_core::plan::engine::{Gate, Kind, Observed, StatefulSetWarning};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::observe::Objects;
use crate::events::Told;
use crate::key::ObjectKey;

/// How long the caches may take to show what was just written before the API server is asked instead.
pub const CATCH_UP: Duration = Duration::from_secs(1);

/// The memory of one engine.
#[derive(Debug, Default)]
pub struct Memory {
    /// Whose memory this is: a later engine of the same name starts from nothing.
    pub uid: String,
    /// The engine as our own last write left it. The cache follows a moment later.
    pub latest: Option<FireboltEngine>,
    /// What was written and the caches have not shown yet, with the version that they must reach.
    awaited: HashMap<(Kind, String), String>,
    /// Since when the caches lag behind that.
    behind_since: Option<Instant>,
    /// The next look must not trust the caches.
    pub distrust: bool,
    /// Since when the draining generation has been seen outside of the routing Service.
    pub unrouted_since: Option<Timestamp>,
    /// How often a pass has failed in a row.
    pub failures: u32,
    /// What was last logged as an error, so that each is logged once.
    pub error: Option<String>,
    /// What the API server refused, and until when it is not tried again.
    pub refused: Option<Refused>,
    /// Since when the engine has been in its phase, if this process saw the beginning.
    pub phase: Option<(EnginePhase, Instant)>,
    /// Since when, and how often, something was put right that somebody changed.
    pub repairs: Option<(Instant, u32)>,
    /// When a status was last written.
    pub told_at: Option<Instant>,
    /// The last look at the events of a StatefulSet: its UID, when, and what was found.
    pub warning: Option<(String, Instant, Option<StatefulSetWarning>)>,
    /// What people were told.
    pub told: Told,
}

/// A rendering that the API server does not take.
#[derive(Debug)]
pub struct Refused {
    /// The rendering.
    pub fingerprint: String,
    /// What is said about it.
    pub gate: Gate,
    /// How often it was refused before.
    pub attempts: u32,
    /// When it is tried again.
    pub retry_at: Instant,
}

/// How far the caches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// They show everything that was written.
    Up,
    /// Not yet; so long is left before it is time to ask the API server.
    Behind(Duration),
    /// Not in time.
    TooLate,
}

impl Memory {
    /// The engine to decide on: the cached one, or our own last write if the cache does not show it yet.
    pub fn newest(&mut self, cached: FireboltEngine) -> FireboltEngine {
        match &self.latest {
            Some(latest) if latest.uid() == cached.uid() && is_older(&cached, latest) => latest.clone(),
            Some(_) | None => {
                self.latest = None;
                cached
            }
        }
    }

    /// Remembers a write, so that a look which does not show it is not believed.
    pub fn wrote<K: Resource>(&mut self, kind: Kind, written: &K) {
        let version = written.resource_version().unwrap_or_default();
        self.awaited.insert((kind, written.name_any()), version);
    }

    /// Whether the caches show what was written.
    pub fn caught_up(&mut self, objects: &Objects, now: Instant) -> Caught {
        self.awaited
            .retain(|(kind, name), version| !shows(objects, *kind, name, version));
        if self.awaited.is_empty() {
            self.behind_since = None;
            return Caught::Up;
        }
        let waited = now - *self.behind_since.get_or_insert(now);
        match CATCH_UP.checked_sub(waited) {
            Some(left) if !left.is_zero() => Caught::Behind(left),
            Some(_) | None => Caught::TooLate,
        }
    }

    /// The API server was asked: nothing is awaited any more.
    pub fn looked_live(&mut self) {
        self.awaited.clear();
        self.behind_since = None;
        self.distrust = false;
    }

    /// Takes in where the routing Service was seen to point.
    pub fn saw_route(&mut self, draining: Option<i64>, observed: &Observed, now: Timestamp) {
        let target = observed
            .routing
            .as_ref()
            .filter(|routing| routing.meta.owned)
            .and_then(|routing| routing.target);
        let unrouted = draining.is_some() && target.is_some() && target != draining;
        self.unrouted_since = unrouted.then(|| self.unrouted_since.unwrap_or(now));
    }
}

fn shows(objects: &Objects, kind: Kind, name: &str, version: &str) -> bool {
    fn reached<K: Resource>(objects: &[K], name: &str, version: &str) -> bool {
        let found = objects.iter().find(|object| object.name_any() == name);
        found.is_some_and(|object| !precedes(object.resource_version().as_deref(), Some(version)))
    }
    match kind {
        Kind::StatefulSet => reached(&objects.stateful_sets, name, version),
        Kind::Service => reached(&objects.services, name, version),
        Kind::ConfigMap => reached(&objects.config_maps, name, version),
    }
}

fn is_older(one: &FireboltEngine, other: &FireboltEngine) -> bool {
    precedes(one.resource_version().as_deref(), other.resource_version().as_deref())
}

/// Whether one version of an object comes before another. Kubernetes promises that versions of one kind can be compared
/// as numbers; should they not look like numbers, one that differs counts as older, which costs a live read.
fn precedes(one: Option<&str>, other: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|version| version.parse::<u128>().ok());
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one < other,
        (_, _) => one != other,
    }
}

/// The memories of all engines. A look takes the one of its engine out and puts it back.
#[derive(Debug, Default)]
pub struct Memories {
    by_engine: Mutex<HashMap<ObjectKey, Memory>>,
}

impl Memories {
    /// Takes the memory of an engine; that of a predecessor of the same name is forgotten.
    pub fn take(&self, key: &ObjectKey, uid: &str) -> Memory {
        let known = self.lock(|memories| memories.remove(key));
        known.filter(|memory| memory.uid == uid).unwrap_or_else(|| Memory {
            uid: uid.to_owned(),
            ..Memory::default()
        })
    }

    /// Puts it back.
    pub fn put(&self, key: &ObjectKey, memory: Memory) {
        self.lock(|memories| memories.insert(key.clone(), memory));
    }

    /// The engine is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock(|memories| memories.remove(key));
    }

    fn lock<T>(&self, action: impl FnOnce(&mut HashMap<ObjectKey, Memory>) -> T) -> T {
        action(&mut self.by_engine.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use firebolt_core::plan::Meta;
    use firebolt_core::plan::engine::Routing;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn config_map(version: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": "c", "resourceVersion": version } })).unwrap()
    }

    fn shown(version: Option<&str>) -> Objects {
        Objects {
            config_maps: version.map(config_map).into_iter().collect(),
            ..Objects::default()
        }
    }

    fn engine(uid: &str, version: &str) -> FireboltEngine {
        let mut engine = FireboltEngine::default();
        engine.metadata.uid = Some(uid.to_owned());
        engine.metadata.resource_version = Some(version.to_owned());
        engine
    }

    #[test]
    fn caches_are_believed_once_they_show_what_was_written() {
        let (mut memory, start) = (Memory::default(), Instant::now());
        assert_eq!(memory.caught_up(&shown(None), start), Caught::Up);
        memory.wrote(Kind::ConfigMap, &config_map("10"));
        assert_eq!(memory.caught_up(&shown(None), start), Caught::Behind(CATCH_UP));
        assert_eq!(memory.caught_up(&shown(Some("9")), start + CATCH_UP), Caught::TooLate);
        assert_eq!(memory.caught_up(&shown(Some("10")), start + CATCH_UP), Caught::Up);
        memory.wrote(Kind::ConfigMap, &config_map("10"));
        assert_eq!(memory.caught_up(&shown(Some("11")), start), Caught::Up);
        memory.wrote(Kind::ConfigMap, &config_map("12"));
        memory.looked_live();
        assert_eq!(memory.caught_up(&shown(None), start), Caught::Up);
    }

    #[test]
    fn our_own_write_is_newer_than_a_cache_that_lags() {
        let mut memory = Memory {
            latest: Some(engine("u", "10")),
            ..Memory::default()
        };
        assert_eq!(
            memory.newest(engine("u", "9")).resource_version().as_deref(),
            Some("10")
        );
        assert_eq!(
            memory.newest(engine("u", "11")).resource_version().as_deref(),
            Some("11")
        );
        assert_eq!(
            memory.newest(engine("u", "9")).resource_version().as_deref(),
            Some("9"),
            "forgotten"
        );
    }

    #[test]
    fn another_engine_of_the_same_name_is_not_confused() {
        let (memories, key) = (Memories::default(), ObjectKey::new("n", "a"));
        let mut memory = memories.take(&key, "u");
        memory.failures = 3;
        memory.latest = Some(engine("u", "10"));
        assert_eq!(memory.newest(engine("v", "9")).uid().as_deref(), Some("v"));
        memories.put(&key, memory);
        assert_eq!(memories.take(&key, "v").failures, 0);
    }

    #[test]
    fn the_time_without_route_counts_from_the_first_look_and_breaks_with_every_other() {
        let to = |target: i64, owned| Observed {
            routing: Some(Routing {
                meta: Meta {
                    uid: String::new(),
                    owned,
                    terminating: false,
                    foreign_finalizers: Vec::new(),
                },
                target: Some(target),
                intact: true,
            }),
            ..Observed::default()
        };
        let time = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let mut memory = Memory::default();
        memory.saw_route(Some(0), &to(1, true), time(1));
        memory.saw_route(Some(0), &to(1, true), time(2));
        assert_eq!(memory.unrouted_since, Some(time(1)));
        memory.saw_route(Some(0), &to(0, true), time(3));
        assert_eq!(memory.unrouted_since, None);
        memory.saw_route(Some(0), &to(1, false), time(4));
        assert_eq!(memory.unrouted_since, None, "not our Service");
        memory.saw_route(Some(0), &Observed::default(), time(4));
        assert_eq!(memory.unrouted_since, None, "no Service");
        memory.saw_route(None, &to(1, true), time(5));
        assert_eq!(memory.unrouted_since, None, "nothing drains");
    }
}
