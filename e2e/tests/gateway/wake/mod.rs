//! Wake on query: the rendered gateway with its agent, the real API server, and a test in the part of the operator.

mod answers;
mod crowds;
mod drain;
mod faults;
mod handbook;
mod refusals;
mod running;
mod scene;
