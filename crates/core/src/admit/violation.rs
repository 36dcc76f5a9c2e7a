//! What is wrong with an object, as data: where, in which way, and what to do about it.

use std::fmt::{Display, Formatter, Result};

/// The most bytes of a [`summary`]. A note of an Event holds 1024; this leaves room for what stands before it.
const SUMMARY: usize = 900;
/// Room for the end of a summary that leaves something out.
const REST: usize = 40;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, as in `spec.template.spec.containers[engine].command`. Containers go by their name, and by their
    /// index where an earlier one has the same name; entries of other lists go by their index, of maps by their key.
    pub path: String,
    /// In which way it is wrong.
    pub kind: Kind,
    /// What is wrong and what to do, in sentences.
    pub message: String,
}

/// In which way a field is wrong. The names are those of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The field, or this value of it, belongs to the operator.
    Forbidden,
    /// The value may occur only once.
    Duplicate,
    /// The value cannot be read or is out of range.
    Invalid,
    /// A value is missing.
    Required,
    /// There is nothing of this name.
    NotFound,
}

impl Violation {
    pub(super) fn new(path: impl Into<String>, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            message: message.into(),
        }
    }

    /// The same, seen from further up.
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

impl Display for Kind {
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

/// All violations in one message for a condition, a line each; empty if there is none. Its length is bounded, since that
/// of a path is not: users choose the keys in it. What finds no room is counted.
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

/// The text, or as much of it as has room, marked as cut.
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
        Violation::new(path, Kind::Forbidden, "Remove it.")
    }

    #[rstest]
    #[case(Kind::Forbidden, "spec.a: Forbidden: Remove it.")]
    #[case(Kind::Duplicate, "spec.a: Duplicate value: Remove it.")]
    #[case(Kind::Invalid, "spec.a: Invalid value: Remove it.")]
    #[case(Kind::Required, "spec.a: Required value: Remove it.")]
    #[case(Kind::NotFound, "spec.a: Not found: Remove it.")]
    fn a_violation_reads_as_a_field_error_of_kubernetes(#[case] kind: Kind, #[case] text: &str) {
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
