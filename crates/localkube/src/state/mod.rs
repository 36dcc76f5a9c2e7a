//! The folder of a cluster: who owns it, where its files are, and the ports that it records.

pub(crate) mod folder;
pub(crate) mod layout;
pub(crate) mod ports;
