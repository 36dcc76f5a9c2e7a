//! One object of a watch, readable or not.
//!
//! The client parses a whole list, or a whole watch event, at once: one object that it cannot parse would make all others
//! fail. `DeserializeGuard` of kube-rs is not enough, because it still walks into each object and fails with the list where
//! the parser gives up, as on an object that is nested too deeply. Here an object is first taken as raw text, which cannot
//! fail, and then parsed by itself.
//!
//! This relies on the API server to write the type of a watch event before its object, which it always does: otherwise the
//! client would parse the object before it comes here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use firebolt_process::error::shortened;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The longest path of an error in a message, in characters.
const LONGEST_PATH: usize = 100;
/// The longest cause in a message, in characters: it may quote a value of any length.
const LONGEST_CAUSE: usize = 200;

/// An object as the watch delivered it.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Unreadable>);

/// An object that cannot be parsed as its kind.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The path of the error in the object, and its cause.
    pub error: String,
    /// Name, namespace, UID, resource version and labels. The rest may be what cannot be parsed: managed fields are nested as
    /// deeply as the object.
    pub metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let error = match parse(text.get()) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => explain(&error),
        };
        let Outline { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let metadata = metadata.into();
        Ok(Self(Err(Unreadable { error, metadata })))
    }
}

/// Parses an object.
fn parse<K: DeserializeOwned>(text: &str) -> Result<K, serde_path_to_error::Error<serde_json::Error>> {
    // Tracking the path is slow, so it is left to a second attempt.
    serde_json::from_str(text)
        .or_else(|_| serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text)))
}

fn explain(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, cause) = (error.path().to_string(), error.inner().to_string());
    // Without the position in a text that users do not see.
    let cause = cause
        .rsplit_once(" at line ")
        .map_or(&*cause, |(cause, _position)| cause);
    let cause = shortened(cause, LONGEST_CAUSE);
    match path.as_str() {
        "." => cause,
        path => format!("{}: {cause}", shortened(path, LONGEST_PATH)),
    }
}

/// What every object has, whatever else is wrong with it: the API server checks this part by itself.
#[derive(Deserialize)]
struct Outline {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        Self {
            name: identity.name,
            namespace: identity.namespace,
            uid: identity.uid,
            resource_version: identity.resource_version,
            labels: identity.labels,
            ..Self::default()
        }
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use crate::widget::Widget;
    use kube::ResourceExt;
    use kube::core::{DeserializeGuard, ObjectList, WatchEvent};
    use rstest::rstest;

    use super::*;

    /// An engine whose free-form part is nested this deeply, and with it the record of who set which field.
    fn nested(name: &str, levels: usize) -> String {
        let config = format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        format!(
            "{{\"apiVersion\": \"{}\", \"kind\": \"Widget\", \"metadata\": {{\"name\": \"{name}\", \"namespace\": \
             \"ns\", \"uid\": \"u\", \"resourceVersion\": \"7\", \"managedFields\": [{{\"fieldsV1\": {config}}}]}}, \"spec\": \
             {{\"ownerRef\": \"i\", \"replicas\": 1, \"customEngineConfig\": {config}}}}}",
            Widget::api_version(&())
        )
    }

    /// A list with one such engine in the middle.
    fn list_around(levels: usize) -> String {
        format!(
            "{{\"apiVersion\": \"{}\", \"kind\": \"WidgetList\", \"metadata\": {{\"resourceVersion\": \"9\"}}, \
             \"items\": [{}, {}, {}]}}",
            Widget::api_version(&()),
            nested("first", 3),
            nested("deep", levels),
            nested("last", 3)
        )
    }

    fn widget(spec: &str) -> Guarded<Widget> {
        serde_json::from_str(&format!("{{\"metadata\": {{\"name\": \"e\"}}, \"spec\": {spec}}}")).unwrap()
    }

    #[rstest]
    #[case(200)]
    #[case(2000)]
    #[case::the_most_that_the_api_server_takes(10_000)]
    fn an_object_of_any_depth_does_not_break_its_list(#[case] levels: usize) {
        let list: ObjectList<Guarded<Widget>> = serde_json::from_str(&list_around(levels)).unwrap();
        let readable: Vec<_> = list.items.iter().map(|object| object.0.is_ok()).collect();
        assert_eq!(readable, [true, false, true]);
        assert_eq!(list.items[1].name_any(), "deep");
        assert_eq!(list.items[1].resource_version().as_deref(), Some("7"));
        assert_eq!(list.items[1].uid().as_deref(), Some("u"));
    }

    #[test]
    fn the_guard_of_kube_fails_with_the_list() {
        type Theirs = ObjectList<DeserializeGuard<Widget>>;
        assert!(serde_json::from_str::<Theirs>(&list_around(3)).is_ok());
        assert!(serde_json::from_str::<Theirs>(&list_around(200)).is_err());
    }

    #[rstest]
    #[case(200)]
    #[case(2000)]
    fn an_object_of_any_depth_does_not_break_a_watch(#[case] levels: usize) {
        let line = format!("{{\"type\": \"ADDED\", \"object\": {}}}", nested("deep", levels));
        let WatchEvent::Added(object) = serde_json::from_str::<WatchEvent<Guarded<Widget>>>(&line).unwrap() else {
            panic!("another event");
        };
        assert_eq!(object.namespace().as_deref(), Some("ns"));
        let error = object.0.unwrap_err().error;
        assert!(error.ends_with("…: recursion limit exceeded"), "{error}");
        assert!(error.chars().count() < 150, "{error}");
    }

    #[rstest]
    #[case::wrong_type(
        r#"{"ownerRef": "i", "replicas": "many"}"#,
        "spec.replicas: invalid type: string \"many\", expected i32"
    )]
    #[case::missing(r#"{"replicas": 1}"#, "spec: missing field `ownerRef`")]
    fn an_error_names_its_path(#[case] spec: &str, #[case] expected: &str) {
        assert_eq!(widget(spec).0.unwrap_err().error, expected);
    }

    #[test]
    fn a_long_value_is_shortened() {
        let error = widget(&format!(
            "{{\"ownerRef\": \"i\", \"replicas\": \"{}\"}}",
            "x".repeat(10_000)
        ))
        .0
        .unwrap_err()
        .error;
        assert!(
            error.starts_with("spec.replicas: invalid type: string \"xxx"),
            "{error}"
        );
        assert!(error.chars().count() <= LONGEST_PATH + LONGEST_CAUSE + 2, "{error}");
    }

    #[test]
    fn an_object_without_metadata_is_an_error() {
        assert!(serde_json::from_str::<Guarded<Widget>>("{}").is_err());
    }
}
