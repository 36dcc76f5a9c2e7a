//! Which namespaces the operator watches.

use std::fmt;
use std::str::FromStr;

use firebolt_api::name::is_dns_label;

/// The namespaces that are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    #[default]
    Cluster,
    /// These namespaces, sorted, without duplicates. Never empty.
    Namespaces(Vec<String>),
}

impl Scope {
    /// One entry per watch stream: a namespace, or `None` for the whole cluster.
    pub(crate) fn streams(&self) -> impl Iterator<Item = Option<&str>> {
        let (cluster, namespaces) = match self {
            Self::Cluster => (Some(None), [].as_slice()),
            Self::Namespaces(namespaces) => (None, namespaces.as_slice()),
        };
        cluster
            .into_iter()
            .chain(namespaces.iter().map(|namespace| Some(namespace.as_str())))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster-wide"),
            Self::Namespaces(namespaces) => write!(f, "namespaces {}", namespaces.join(",")),
        }
    }
}

/// Why a list of namespaces is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// A list with separators but no names: most likely a template with an empty value.
    #[error("the list names no namespace; to watch the whole cluster, leave the flag out or give it an empty value")]
    NoNames,
    /// Not a valid name of a namespace.
    #[error(
        "{0:?} is not a namespace name: use lower-case letters, digits and '-', at most 63 characters, and start and end with a letter or digit"
    )]
    BadName(String),
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        if text.is_empty() {
            return Ok(Self::Cluster);
        }
        let mut namespaces: Vec<String> = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        // To read this as "all namespaces" would silently widen the scope of the operator.
        if namespaces.is_empty() {
            return Err(ScopeError::NoNames);
        }
        if let Some(bad) = namespaces.iter().find(|name| !is_dns_label(name)) {
            return Err(ScopeError::BadName(bad.clone()));
        }
        namespaces.sort();
        namespaces.dedup();
        Ok(Self::Namespaces(namespaces))
    }
}

/// The value parser of one namespace.
pub(crate) fn parse_namespace(text: &str) -> Result<String, ScopeError> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(ScopeError::BadName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::empty_is_cluster_wide("", Scope::Cluster)]
    #[case::one("a", Scope::Namespaces(vec!["a".into()]))]
    #[case::trimmed_sorted_and_once(" b , a,,b,", Scope::Namespaces(vec!["a".into(), "b".into()]))]
    fn namespaces_are_parsed(#[case] text: &str, #[case] expected: Scope) {
        assert_eq!(text.parse(), Ok(expected));
    }

    #[rstest]
    #[case::only_commas(",,,", "the list names no namespace; to watch the whole cluster, leave the flag out")]
    #[case::only_blanks("  ", "the list names no namespace")]
    #[case::upper_case("a,B", "\"B\" is not a namespace name")]
    #[case::with_a_dot("a.b", "\"a.b\" is not a namespace name")]
    #[case::inner_blank("a b", "\"a b\" is not a namespace name")]
    #[case::leading_dash("-a", "\"-a\" is not a namespace name")]
    fn invalid_lists_are_rejected_with_the_bad_name(#[case] text: &str, #[case] expected: &str) {
        let error = text.parse::<Scope>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_namespace_has_at_most_63_characters() {
        assert!("a".repeat(63).parse::<Scope>().is_ok());
        assert!("a".repeat(64).parse::<Scope>().is_err());
    }

    #[test]
    fn there_is_one_stream_per_namespace() {
        assert_eq!(Scope::Cluster.streams().collect::<Vec<_>>(), [None]);
        let two = Scope::Namespaces(vec!["a".into(), "b".into()]);
        assert_eq!(two.streams().collect::<Vec<_>>(), [Some("a"), Some("b")]);
    }
}
