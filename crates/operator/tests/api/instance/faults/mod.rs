//! What fails around an instance, and what others change.

mod cluster_limits;
mod component_loss;
mod crash;
mod foreign_objects;
mod self_healing;
