//! What was written and the caches may not show yet.

use std::collections::HashMap;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use tokio::time::Instant;

/// How long the caches may take to show what was just written before the API server is asked instead.
const CATCH_UP: Duration = Duration::from_secs(1);

/// The writes on behalf of one root object of type `R`, as far as they matter to the next look.
#[derive(Debug)]
pub struct Written<R> {
    /// The next look must not trust the caches.
    pub distrust: bool,
    /// The root as our own last write left it. The cache follows a moment later.
    latest: Option<R>,
    /// By kind and name, the version that the caches must reach.
    awaited: HashMap<(String, String), String>,
    /// Since when the caches lag behind that.
    behind_since: Option<Instant>,
}

impl<R> Default for Written<R> {
    fn default() -> Self {
        Self {
            distrust: false,
            latest: None,
            awaited: HashMap::new(),
            behind_since: None,
        }
    }
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

impl<R: Resource + Clone> Written<R> {
    /// The root to decide on: the cached one, or our own last write if the cache does not show it yet.
    pub fn newest(&mut self, cached: R) -> R {
        match &self.latest {
            Some(latest) if latest.uid() == cached.uid() && is_older(&cached, latest) => latest.clone(),
            Some(_) | None => {
                self.latest = None;
                cached
            }
        }
    }

    /// The root is known to be this by now.
    pub(super) fn took(&mut self, root: R) {
        self.latest = Some(root);
    }

    /// Remembers a write, so that a look which does not show it is not believed.
    pub(super) fn wrote<K: Resource<DynamicType = ()>>(&mut self, written: &K) {
        let version = written.resource_version().unwrap_or_default();
        let object = (K::kind(&()).into_owned(), written.name_any());
        self.awaited.insert(object, version);
    }

    /// Whether the caches show what was written. `shown` says in which version they have the object of a kind and name.
    pub fn caught_up(&mut self, shown: impl Fn(&str, &str) -> Option<String>, now: Instant) -> Caught {
        self.awaited.retain(|(kind, name), version| {
            let shown = shown(kind, name);
            shown.is_none_or(|shown| precedes(Some(&shown), Some(version)))
        });
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
}

/// The version of the object of a kind and name, if it is among `objects`.
pub fn version_in<'a, K: Resource<DynamicType = ()> + 'a>(
    objects: impl IntoIterator<Item = &'a K>,
    kind: &str,
    name: &str,
) -> Option<String> {
    let mut objects = objects.into_iter().filter(|_| K::kind(&()) == kind);
    objects.find(|object| object.name_any() == name)?.resource_version()
}

fn is_older<R: Resource>(one: &R, other: &R) -> bool {
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

#[cfg(test)]
mod tests {
    use firebolt_api::FireboltEngine;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn config_map(version: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": "c", "resourceVersion": version } })).unwrap()
    }

    /// The caches have the ConfigMap in this version.
    fn shown(version: Option<&str>) -> impl Fn(&str, &str) -> Option<String> {
        move |kind, name| {
            version
                .filter(|_| (kind, name) == ("ConfigMap", "c"))
                .map(str::to_owned)
        }
    }

    fn engine(uid: &str, version: &str) -> FireboltEngine {
        let mut engine = FireboltEngine::default();
        engine.metadata.uid = Some(uid.to_owned());
        engine.metadata.resource_version = Some(version.to_owned());
        engine
    }

    fn version(engine: &FireboltEngine) -> &str {
        engine.metadata.resource_version.as_deref().unwrap()
    }

    #[test]
    fn caches_are_believed_once_they_show_what_was_written() {
        let (mut written, start) = (Written::<FireboltEngine>::default(), Instant::now());
        assert_eq!(written.caught_up(shown(None), start), Caught::Up);
        written.wrote(&config_map("10"));
        assert_eq!(written.caught_up(shown(None), start), Caught::Behind(CATCH_UP));
        assert_eq!(written.caught_up(shown(Some("9")), start + CATCH_UP), Caught::TooLate);
        assert_eq!(written.caught_up(shown(Some("10")), start + CATCH_UP), Caught::Up);
        written.wrote(&config_map("10"));
        assert_eq!(written.caught_up(shown(Some("11")), start), Caught::Up);
        written.wrote(&config_map("12"));
        written.looked_live();
        assert_eq!(written.caught_up(shown(None), start), Caught::Up);
    }

    #[test]
    fn versions_that_are_no_numbers_must_be_the_same() {
        let (mut written, now) = (Written::<FireboltEngine>::default(), Instant::now());
        written.wrote(&config_map("x"));
        assert_ne!(written.caught_up(shown(Some("y")), now), Caught::Up);
        assert_eq!(written.caught_up(shown(Some("x")), now), Caught::Up);
    }

    #[test]
    fn our_own_write_is_newer_than_a_cache_that_lags() {
        let mut written = Written::default();
        written.took(engine("u", "10"));
        assert_eq!(version(&written.newest(engine("u", "9"))), "10");
        assert_eq!(version(&written.newest(engine("u", "11"))), "11");
        assert_eq!(version(&written.newest(engine("u", "9"))), "9", "forgotten");
    }

    #[test]
    fn another_object_of_the_same_name_is_not_confused() {
        let mut written = Written::default();
        written.took(engine("u", "10"));
        assert_eq!(written.newest(engine("v", "9")).uid().as_deref(), Some("v"));
    }
}
