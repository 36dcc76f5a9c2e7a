//! The label selector of `--watch-label-selector`, validated at start-up.
//!
//! The API server would reject a malformed one too, but only in the response to a watch, long after start-up and without
//! naming the flag.

use std::fmt;
use std::str::FromStr;

use super::names::is_dns_subdomain;

/// A valid label selector, as it is sent to the API server. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(String);

/// Why a text is not a label selector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A requirement has invalid syntax.
    #[error(
        "{0:?} is not a label requirement: write key=value, key!=value, key in (a,b), key notin (a,b), key or !key, \
         separated by commas"
    )]
    Requirement(String),
    /// An invalid label key.
    #[error(
        "{0:?} is not a label key: use name or prefix/name, where name has at most 63 letters, digits, '-', '_' or '.'"
    )]
    Key(String),
    /// An invalid label value.
    #[error(
        "{0:?} is not a label value: use at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit"
    )]
    Value(String),
}

impl LabelSelector {
    /// Whether it selects all objects.
    #[must_use]
    pub(crate) fn selects_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The query parameter for the API server; `None` if everything is selected.
    #[must_use]
    pub(crate) fn to_parameter(&self) -> Option<String> {
        (!self.selects_everything()).then(|| self.0.clone())
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.selects_everything() {
            "everything"
        } else {
            &self.0
        })
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let text = text.trim();
        for requirement in split_outside_parentheses(text) {
            check_requirement(requirement.trim())?;
        }
        Ok(Self(text.to_owned()))
    }
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn check_requirement(text: &str) -> Result<(), SelectorError> {
    let malformed = || SelectorError::Requirement(text.to_owned());
    if let Some((key, set)) = text.split_once('(') {
        let set = set.strip_suffix(')').ok_or_else(malformed)?;
        let (key, operator) = key.trim().rsplit_once(char::is_whitespace).ok_or_else(malformed)?;
        if !matches!(operator, "in" | "notin") || set.contains(['(', ')']) {
            return Err(malformed());
        }
        check_key(key.trim())?;
        return set.split(',').map(str::trim).try_for_each(check_value);
    }
    for operator in ["!=", "==", "="] {
        if let Some((key, value)) = text.split_once(operator) {
            check_key(key.trim())?;
            return check_value(value.trim());
        }
    }
    let key = text.strip_prefix('!').unwrap_or(text).trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(malformed());
    }
    check_key(key)
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(is_dns_subdomain) && is_qualified(name) {
        Ok(())
    } else {
        Err(SelectorError::Key(key.to_owned()))
    }
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_qualified(value) {
        Ok(())
    } else {
        Err(SelectorError::Value(value.to_owned()))
    }
}

fn is_qualified(text: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| is_edge(c) || matches!(c, '-' | '_' | '.'))
        && text.starts_with(is_edge)
        && text.ends_with(is_edge)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn an_empty_text_selects_everything() {
        assert_eq!(
            "".parse::<LabelSelector>().map(|selector| selector.to_parameter()),
            Ok(None)
        );
    }

    #[rstest]
    #[case("team=a")]
    #[case("team==a")]
    #[case("team!=a")]
    #[case("team=")]
    #[case(" example.com/team = a , tier in (x, y),!legacy,stage")]
    #[case("tier notin (x)")]
    fn selectors_are_parsed(#[case] text: &str) {
        assert_eq!(
            text.parse::<LabelSelector>().map(|selector| selector.0),
            Ok(text.trim().to_owned())
        );
    }

    #[rstest]
    #[case::blank(" ", "\"\" is not a label requirement")]
    #[case::trailing_comma("a=b,", "\"\" is not a label requirement")]
    #[case::open_set("a in (b", "\"a in (b\" is not a label requirement")]
    #[case::unknown_operator("a within (b)", "\"a within (b)\" is not a label requirement")]
    #[case::two_words("a b", "\"a b\" is not a label requirement")]
    #[case::no_key("=b", "\"\" is not a label key")]
    #[case::bad_key("-a=b", "\"-a\" is not a label key")]
    #[case::bad_prefix("Example_/a=b", "\"Example_/a\" is not a label key")]
    #[case::bad_value("a=b!", "\"b!\" is not a label value")]
    #[case::double_operator("a=b=c", "\"b=c\" is not a label value")]
    #[case::triple_equals("a===b", "\"=b\" is not a label value")]
    fn malformed_selectors_are_rejected(#[case] text: &str, #[case] expected: &str) {
        let error = text.parse::<LabelSelector>().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
