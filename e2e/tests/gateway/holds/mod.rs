//! Wake on query: the rendered gateway with its agent and the real API server. The tests play the operator.

mod held_queries;
mod many_queries;
mod outages;
mod refusals;
mod running_engines;
mod termination;
