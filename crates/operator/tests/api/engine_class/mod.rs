//! The engine class controller: bound engines, invalid templates, blocked deletions, and which edits roll out to which engines.

mod bound_engines;
mod crash;
mod deletion;
mod edits;
mod idle;
mod invalid_template;
mod reporting;
mod testenv;
