//! The folder of a cluster: who owns it, what lies where in it, and the ports that are written down there.

pub(crate) mod folder;
pub(crate) mod layout;
pub(crate) mod ports;
