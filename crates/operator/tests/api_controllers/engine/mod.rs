//! The controller of engines.

mod appearance;
mod auto_stop;
mod drain;
mod edits;
mod faults;
mod limits;
mod meddling;
mod moments;
mod never_ready;
mod pods;
mod rest;
mod scrapes;
mod stories;
mod upkeep;
