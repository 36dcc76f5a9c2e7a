//! Engine classes: who is counted, what is refused, what holds a deletion up, and which edits reach whom.

mod appearance;
mod counting;
mod crash;
mod deletion;
mod edits;
mod refused;
mod rest;
mod stage;
