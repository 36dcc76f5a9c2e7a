//! What a cluster consists of: components, the nodes that they run on, and the addresses that they have.

mod addresses;
mod component;
mod node;

pub(crate) use addresses::{KUBERNETES_SERVICE, PODS, SERVICES};
pub use component::Component;
pub use node::Node;
