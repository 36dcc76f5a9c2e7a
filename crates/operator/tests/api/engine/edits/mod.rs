//! Edits of an engine, and of the class and the instance that it refers to.

mod before_readiness;
mod causes;
mod empty_values;
mod rapid_edits;
mod references;
mod rejected_by_kubernetes;
mod removed_fields;
