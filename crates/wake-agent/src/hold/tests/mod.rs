//! Every rule of the state machine, in a sentence.

mod arrivals;
mod deadlines;
mod fixture;
mod listing;
mod probes;
mod wake_requests;
