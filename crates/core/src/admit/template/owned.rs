//! Fields that the operator manages, in any object.

use crate::admit::violation::{Violation, ViolationKind};

/// A field that the operator manages.
pub(super) struct Owned<T> {
    /// Its name in a manifest.
    field: &'static str,
    /// Whether an object sets it. Where an empty value means the same as no value, an empty value does not count.
    is_set: fn(&T) -> bool,
    /// Why users cannot set it, as a sentence.
    why: &'static str,
}

/// Constructor for lists of such fields.
pub(super) const fn owned<T>(field: &'static str, is_set: fn(&T) -> bool, why: &'static str) -> Owned<T> {
    Owned { field, is_set, why }
}

/// Violations for the fields of the operator that the object sets.
pub(super) fn refuse<T>(owned: &[Owned<T>], object: &T, path: &str) -> Vec<Violation> {
    let set = owned.iter().filter(|owned| (owned.is_set)(object));
    let refused = set.map(|Owned { field, why, .. }| {
        Violation::new(
            format!("{path}.{field}"),
            ViolationKind::Forbidden,
            format!("{why} Remove this field."),
        )
    });
    refused.collect()
}

/// Whether the text is not empty.
pub(super) fn filled(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

/// Whether the list is not empty.
pub(super) fn listed<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}
