//! Instances: what the operator makes of them, and of what happens to them.

mod account;
mod birth;
mod chronicle;
mod cost;
mod crash;
mod credentials;
mod deletion;
mod external;
mod fixture;
mod foreign;
mod inventory;
mod loss;
mod metrics;
mod neighbours;
mod refusals;
mod rejected;
mod repair;
mod rollout;
mod secrecy;
mod stage;
mod switching;
mod volumes;
