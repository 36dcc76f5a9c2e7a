//! Fields that belong to the operator, whatever object they are in.

use super::violation::{Kind, Violation};

/// A field that belongs to the operator.
pub(super) struct Owned<T> {
    /// Its name in a manifest.
    field: &'static str,
    /// Whether an object sets it. Where leaving it out and an empty value mean the same, an empty value sets nothing.
    is_set: fn(&T) -> bool,
    /// Why users cannot set it, in a sentence.
    why: &'static str,
}

/// An entry of a list of such fields.
pub(super) const fn owned<T>(field: &'static str, is_set: fn(&T) -> bool, why: &'static str) -> Owned<T> {
    Owned { field, is_set, why }
}

/// The fields of the operator that the object sets.
pub(super) fn refuse<T>(owned: &[Owned<T>], object: &T, path: &str) -> Vec<Violation> {
    let set = owned.iter().filter(|owned| (owned.is_set)(object));
    let refused = set.map(|Owned { field, why, .. }| {
        Violation::new(
            format!("{path}.{field}"),
            Kind::Forbidden,
            format!("{why} Remove this field."),
        )
    });
    refused.collect()
}

/// Whether the text says anything.
pub(super) fn filled(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

/// Whether the list has an entry.
pub(super) fn listed<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}
