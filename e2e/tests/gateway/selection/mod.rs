//! Which engine a request is for.

mod generated_requests;
mod header_and_parameter;
mod rules;
