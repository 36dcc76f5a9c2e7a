//! Our own writes that the caches may not show yet.

use std::collections::HashMap;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use tokio::time::Instant;

/// How long to wait for the caches before the API server is read instead.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The writes on behalf of one owner of kind `K` that the next reconcile must see.
#[derive(Debug)]
pub struct Expectations<K> {
    /// The next reconcile must not trust the caches.
    invalidated: bool,
    /// The owner as our own last write returned it. The cache follows later.
    latest: Option<K>,
    /// By kind and name, the version that the caches must reach.
    expected: HashMap<(String, String), String>,
    /// Since when the caches are known to be behind.
    behind_since: Option<Instant>,
}

impl<K> Default for Expectations<K> {
    fn default() -> Self {
        Self {
            invalidated: false,
            latest: None,
            expected: HashMap::new(),
            behind_since: None,
        }
    }
}

/// Whether the caches show what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Satisfied {
    /// They do.
    Yes,
    /// Not yet. After this time, read from the API server instead.
    NotYet(Duration),
    /// Not in time, or they must not be trusted: read from the API server.
    ReadLive,
}

impl<K: Resource + Clone> Expectations<K> {
    /// The newest version of the owner: the cached one, or our own last write if the cache does not show it yet.
    pub(crate) fn newest(&mut self, cached: K) -> K {
        match &self.latest {
            Some(latest) if latest.uid() == cached.uid() && is_older(&cached, latest) => latest.clone(),
            Some(_) | None => {
                self.latest = None;
                cached
            }
        }
    }

    /// The API server returned the owner.
    pub(super) fn saw_owner(&mut self, owner: K) {
        self.latest = Some(owner);
    }

    /// Expects the caches to show an object that was written.
    pub(super) fn expect<C: Resource<DynamicType = ()>>(&mut self, written: &C) {
        let version = written.resource_version().unwrap_or_default();
        let object = (C::kind(&()).into_owned(), written.name_any());
        self.expected.insert(object, version);
    }

    /// Whether the caches show what was written. `cached` returns the version in which they have the object of a kind and
    /// name.
    pub fn satisfied(&mut self, cached: impl Fn(&str, &str) -> Option<String>, now: Instant) -> Satisfied {
        if self.invalidated {
            return Satisfied::ReadLive;
        }
        self.expected.retain(|(kind, name), version| {
            let cached = cached(kind, name);
            cached.is_none_or(|cached| precedes(Some(&cached), Some(version)))
        });
        if self.expected.is_empty() {
            self.behind_since = None;
            return Satisfied::Yes;
        }
        let waited = now - *self.behind_since.get_or_insert(now);
        match TIMEOUT.checked_sub(waited) {
            Some(left) if !left.is_zero() => Satisfied::NotYet(left),
            Some(_) | None => Satisfied::ReadLive,
        }
    }

    /// The next reconcile must read from the API server.
    pub fn invalidate(&mut self) {
        self.invalidated = true;
    }

    /// Whether the caches must not be trusted.
    #[must_use]
    pub fn is_invalidated(&self) -> bool {
        self.invalidated
    }

    /// Everything was read from the API server: nothing is expected any more.
    pub fn reset(&mut self) {
        self.expected.clear();
        self.behind_since = None;
        self.invalidated = false;
    }
}

/// The version of the object of a kind and name, if it is among `objects`.
#[must_use]
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

/// Whether one version of an object is older than another. Kubernetes guarantees that versions of one kind can be compared
/// as numbers; if they are not numbers, one that differs counts as older, which costs a live read.
fn precedes(one: Option<&str>, other: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|version| version.parse::<u128>().ok());
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one < other,
        (_, _) => one != other,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::widget::Widget;

    fn config_map(version: &str) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": "c", "resourceVersion": version } })).unwrap()
    }

    /// The caches have the ConfigMap in this version.
    fn cached(version: Option<&str>) -> impl Fn(&str, &str) -> Option<String> {
        move |kind, name| {
            version
                .filter(|_| (kind, name) == ("ConfigMap", "c"))
                .map(str::to_owned)
        }
    }

    fn version(widget: &Widget) -> &str {
        widget.metadata.resource_version.as_deref().unwrap()
    }

    #[test]
    fn expectations_are_satisfied_once_the_caches_show_what_was_written() {
        let (mut expectations, start) = (Expectations::<Widget>::default(), Instant::now());
        assert_eq!(expectations.satisfied(cached(None), start), Satisfied::Yes);
        expectations.expect(&config_map("10"));
        assert_eq!(expectations.satisfied(cached(None), start), Satisfied::NotYet(TIMEOUT));
        assert_eq!(
            expectations.satisfied(cached(Some("9")), start + TIMEOUT),
            Satisfied::ReadLive
        );
        assert_eq!(
            expectations.satisfied(cached(Some("10")), start + TIMEOUT),
            Satisfied::Yes
        );
        expectations.expect(&config_map("10"));
        assert_eq!(expectations.satisfied(cached(Some("11")), start), Satisfied::Yes);
        expectations.expect(&config_map("12"));
        expectations.reset();
        assert_eq!(expectations.satisfied(cached(None), start), Satisfied::Yes);
    }

    #[test]
    fn versions_that_are_not_numbers_must_be_equal() {
        let (mut expectations, now) = (Expectations::<Widget>::default(), Instant::now());
        expectations.expect(&config_map("x"));
        assert_ne!(expectations.satisfied(cached(Some("y")), now), Satisfied::Yes);
        assert_eq!(expectations.satisfied(cached(Some("x")), now), Satisfied::Yes);
    }

    #[test]
    fn our_own_write_is_newer_than_a_cache_that_is_behind() {
        let mut expectations = Expectations::default();
        expectations.saw_owner(Widget::new("u", "10"));
        assert_eq!(version(&expectations.newest(Widget::new("u", "9"))), "10");
        assert_eq!(version(&expectations.newest(Widget::new("u", "11"))), "11");
        assert_eq!(version(&expectations.newest(Widget::new("u", "9"))), "9", "forgotten");
    }

    #[test]
    fn another_object_of_the_same_name_replaces_our_own_write() {
        let mut expectations = Expectations::default();
        expectations.saw_owner(Widget::new("u", "10"));
        assert_eq!(expectations.newest(Widget::new("v", "9")).uid().as_deref(), Some("v"));
    }

    #[test]
    fn invalidated_expectations_are_not_satisfied_until_a_live_read() {
        let (mut expectations, now) = (Expectations::<Widget>::default(), Instant::now());
        expectations.invalidate();
        assert_eq!(expectations.satisfied(cached(None), now), Satisfied::ReadLive);
        assert!(expectations.is_invalidated());
        expectations.reset();
        assert_eq!(expectations.satisfied(cached(None), now), Satisfied::Yes);
    }
}
