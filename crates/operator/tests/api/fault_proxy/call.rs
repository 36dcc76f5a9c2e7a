//! The verb, resource and name of a request, from its method and URL.

use std::fmt;

use axum::http::{Method, Uri};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Create,
    Update,
    Patch,
    Delete,
    Get,
    List,
    Watch,
}

impl Verb {
    /// Whether it changes anything.
    pub(crate) fn writes(self) -> bool {
        match self {
            Self::Create | Self::Update | Self::Patch | Self::Delete => true,
            Self::Get | Self::List | Self::Watch => false,
        }
    }
}

/// One request, as far as tests tell them apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub verb: Verb,
    /// The plural, as in `statefulsets`.
    pub resource: String,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Whether it asks for the objects of one engine. A list that does is made for a decision, not to fill a cache.
    pub of_one_engine: bool,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.verb, self.resource)?;
        for part in [&self.subresource, &self.name].into_iter().flatten() {
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

impl Call {
    /// Reads a request; none for addresses that name no resource, such as `/version`. The name of an object that is
    /// created is in its body, which is JSON.
    pub(crate) fn of(method: &Method, uri: &Uri, body: &[u8]) -> Option<Self> {
        let mut path = uri.path().split('/').filter(|segment| !segment.is_empty());
        match path.next()? {
            "api" => path.nth(0)?,
            "apis" => path.nth(1)?,
            _ => return None,
        };
        let mut path: Vec<&str> = path.collect();
        let mut namespace = None;
        if path.len() > 2 && path[0] == "namespaces" {
            namespace = Some(path[1].to_owned());
            path.drain(..2);
        }
        let at = |index: usize| path.get(index).map(|&segment| segment.to_owned());
        let resource = at(0)?;
        let name = at(1);
        let verb = match (method.as_str(), &name) {
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", _) => Verb::Delete,
            _ if matches!(parameter(uri, "watch").as_deref(), Some("1" | "true")) => Verb::Watch,
            (_, Some(_)) => Verb::Get,
            (_, None) => Verb::List,
        };
        let selector = parameter(uri, "labelSelector");
        Some(Self {
            verb,
            resource,
            subresource: at(2),
            namespace,
            name: name.or_else(|| name_in(body)),
            of_one_engine: selector.is_some_and(|selector| selector.contains("firebolt.io/engine=")),
        })
    }

    /// Whether it writes anything but leases and events.
    pub(crate) fn is_write(&self) -> bool {
        self.verb.writes() && !["leases", "events"].contains(&self.resource.as_str())
    }
}

fn name_in(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(body["metadata"]["name"].as_str()?.to_owned())
}

/// The value of a parameter of the query.
pub(super) fn parameter(uri: &Uri, name: &str) -> Option<String> {
    uri.query()?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.replace("%2F", "/").replace("%3D", "=").replace("%2C", ","))
    })
}

/// The address of a list at an earlier resource version. A page after the first is of that version already.
pub(super) fn as_of(uri: &Uri, version: &str) -> Uri {
    if parameter(uri, "continue").is_some() {
        return uri.clone();
    }
    let kept = uri.query().unwrap_or_default().split('&');
    let kept = kept.filter(|pair| !pair.is_empty() && !pair.starts_with("resourceVersion"));
    let query: Vec<&str> = kept.collect();
    let version = format!("resourceVersion={version}&resourceVersionMatch=Exact");
    let query = [query, vec![version.as_str()]].concat().join("&");
    format!("{}?{query}", uri.path()).parse().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("GET", "/api/v1/namespaces/n/pods?labelSelector=a", "List pods")]
    #[case("GET", "/api/v1/pods?watch=true&resourceVersion=5", "Watch pods")]
    #[case("GET", "/apis/apps/v1/namespaces/n/statefulsets/a-g0", "Get statefulsets/a-g0")]
    #[case("GET", "/api/v1/namespaces/n", "Get namespaces/n")]
    #[case("POST", "/apis/apps/v1/namespaces/n/statefulsets", "Create statefulsets/from-body")]
    #[case("DELETE", "/api/v1/namespaces/n/services/s", "Delete services/s")]
    #[case(
        "PATCH",
        "/apis/compute.firebolt.io/v1alpha1/namespaces/n/fireboltengines/a/status",
        "Patch fireboltengines/status/a"
    )]
    fn a_request_is_known_by_method_and_address(#[case] method: &str, #[case] uri: &str, #[case] expected: &str) {
        let body: &[u8] = if method == "POST" {
            br#"{"metadata": {"name": "from-body"}}"#
        } else {
            b""
        };
        let call = Call::of(&method.parse().unwrap(), &uri.parse().unwrap(), body).unwrap();
        assert_eq!(call.to_string(), expected);
    }

    #[test]
    fn addresses_without_a_resource_are_no_calls() {
        for uri in ["/version", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz"] {
            assert_eq!(Call::of(&Method::GET, &uri.parse().unwrap(), b""), None, "{uri}");
        }
    }

    #[test]
    fn a_list_for_one_engine_is_reported_from_one_for_a_cache() {
        let list = |selector: &str| {
            let uri = format!("/api/v1/pods?labelSelector={selector}").parse().unwrap();
            Call::of(&Method::GET, &uri, b"").unwrap().of_one_engine
        };
        assert!(list("firebolt.io%2Fengine%3Da"));
        assert!(!list("firebolt.io%2Fengine"));
    }

    #[test]
    fn a_list_can_be_asked_as_of_a_version() {
        let ask = |uri: &str| as_of(&uri.parse().unwrap(), "7").to_string();
        assert_eq!(ask("/a"), "/a?resourceVersion=7&resourceVersionMatch=Exact");
        assert_eq!(
            ask("/a?limit=5&resourceVersion=0&resourceVersionMatch=NotOlderThan"),
            "/a?limit=5&resourceVersion=7&resourceVersionMatch=Exact"
        );
        assert_eq!(ask("/a?limit=5&continue=x"), "/a?limit=5&continue=x");
    }
}
