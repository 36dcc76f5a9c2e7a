//! The nodes of a cluster: machines to Kubernetes, namespaces of this machine to us.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node. The first one's network is that of the control plane too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are alike but for their numbers")]
pub enum Node {
    First,
    Second,
}

impl Node {
    /// Every node that a cluster can have.
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Second];

    /// What Kubernetes calls it.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::First => "node-1",
            Self::Second => "node-2",
        }
    }

    /// The address of the node, which only its cluster can reach.
    #[must_use]
    pub const fn address(self) -> &'static str {
        match self {
            Self::First => "10.245.0.1",
            Self::Second => "10.245.0.2",
        }
    }

    /// The addresses of its pods.
    pub(crate) const fn pods(self) -> &'static str {
        match self {
            Self::First => "10.244.1.0/24",
            Self::Second => "10.244.2.0/24",
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
