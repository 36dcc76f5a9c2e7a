//! Violations of an object: field, kind and message.

use std::fmt::{Display, Formatter, Result};

/// Maximum length of a [`summary`] in bytes. The note of an Event is limited to 1024; this leaves room for a prefix.
const SUMMARY: usize = 900;
/// Space for the last line of a summary that is shortened.
const REST: usize = 40;

/// One violation of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, for example `spec.template.spec.containers[engine].command`. Containers are identified by their name,
    /// or by their index if an earlier one has the same name; entries of other lists by their index, of maps by their
    /// key.
    pub path: String,
    /// Kind of the violation.
    pub kind: ViolationKind,
    /// What is wrong and how to correct it, in sentences.
    pub message: String,
}

/// Kind of a violation. The names are those of Kubernetes field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// The field, or this value, is managed by the operator.
    Forbidden,
    /// The value must be unique.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// A value is missing.
    Required,
    /// The referenced object does not exist.
    NotFound,
}

impl Violation {
    pub(super) fn new(path: impl Into<String>, kind: ViolationKind, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            message: message.into(),
        }
    }

    /// The violation with a path that starts at the parent.
    pub(super) fn below(self, parent: &str) -> Self {
        Self {
            path: format!("{parent}.{}", self.path),
            ..self
        }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}: {}", self.path, self.kind, self.message)
    }
}

impl Display for ViolationKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::Invalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotFound => "Not found",
        })
    }
}

/// All violations in one message for a condition, one per line; empty if there are none. Its length is limited, because
/// users choose the keys in paths. Violations that do not fit are counted.
#[must_use]
pub fn summary(violations: &[Violation]) -> String {
    let mut text = String::new();
    for (index, violation) in violations.iter().enumerate() {
        let line = violation.to_string();
        if index == 0 {
            text.push_str(&cut(line, SUMMARY - REST));
        } else if text.len() + line.len() < SUMMARY - REST {
            text.push('\n');
            text.push_str(&line);
        } else {
            let left = violations.len() - index;
            return format!("{text}\n… and {left} more");
        }
    }
    text
}

/// The text, truncated to the maximum length.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn forbidden(path: &str) -> Violation {
        Violation::new(path, ViolationKind::Forbidden, "Remove it.")
    }

    #[rstest]
    #[case(ViolationKind::Forbidden, "spec.a: Forbidden: Remove it.")]
    #[case(ViolationKind::Duplicate, "spec.a: Duplicate value: Remove it.")]
    #[case(ViolationKind::Invalid, "spec.a: Invalid value: Remove it.")]
    #[case(ViolationKind::Required, "spec.a: Required value: Remove it.")]
    #[case(ViolationKind::NotFound, "spec.a: Not found: Remove it.")]
    fn a_violation_reads_as_a_field_error_of_kubernetes(#[case] kind: ViolationKind, #[case] text: &str) {
        assert_eq!(Violation::new("spec.a", kind, "Remove it.").to_string(), text);
    }

    #[test]
    fn a_summary_has_a_line_for_each_violation() {
        assert_eq!(summary(&[]), "");
        assert_eq!(
            summary(&[forbidden("a"), forbidden("b")]),
            "a: Forbidden: Remove it.\nb: Forbidden: Remove it."
        );
    }

    #[test]
    fn a_summary_counts_what_it_leaves_out() {
        let many: Vec<Violation> = (0..100).map(|index| forbidden(&format!("field{index}"))).collect();
        let text = summary(&many);
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines.len() - 1;
        assert!(shown > 10, "{text}");
        assert_eq!(lines[shown - 1], many[shown - 1].to_string());
        assert_eq!(lines[shown], format!("… and {} more", many.len() - shown));
    }

    #[test]
    fn a_summary_cuts_a_path_that_never_ends() {
        let text = summary(&[forbidden(&"ä".repeat(10_000)), forbidden("b")]);
        assert!(text.starts_with("ää"), "{text}");
        assert!(text.ends_with("ä…\n… and 1 more"), "{text}");
    }

    proptest! {
        #[test]
        fn a_summary_fits_an_event(lengths in prop::collection::vec(0_usize..2000, 0..40)) {
            let violations: Vec<Violation> = lengths.iter().map(|length| forbidden(&"ä".repeat(*length))).collect();
            prop_assert!(summary(&violations).len() <= SUMMARY);
        }
    }
}
