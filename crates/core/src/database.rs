//! The database of the metadata service, and why it cannot be changed while engines depend on it.

use strum::{Display, EnumString, IntoStaticStr};

use crate::names;

/// Database of the metadata service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Database {
    /// The PostgreSQL that the operator runs.
    Internal,
    /// A PostgreSQL that is not managed by the operator.
    External,
}

/// Why the metadata service cannot change its database, and what to do, each in a sentence.
pub(crate) fn change_rejected(used: Database, engines: &[String]) -> [String; 2] {
    let (change, remedy) = match used {
        Database::Internal => (
            "spec.metadata.postgres was added, but the metadata service stores its data in the PostgreSQL that the \
             operator runs",
            "Remove spec.metadata.postgres again",
        ),
        Database::External => (
            "spec.metadata.postgres was removed, but the metadata service stores its data in that database",
            "Restore spec.metadata.postgres",
        ),
    };
    [
        format!("{change}, which is used by {}.", names::engines(engines)),
        format!("{remedy}; to change the database, delete the engines first."),
    ]
}
