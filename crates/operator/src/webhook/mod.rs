//! Admission webhooks: what the API server asks the operator before it stores an object.

pub mod certificates;
