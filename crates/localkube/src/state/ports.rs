//! Free ports on the loopback address.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

use crate::topology::Node;

/// The ports of one cluster. etcd has none: it listens on sockets in the folder of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ports {
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    /// The ports of health endpoints inside of nodes; used only if there are nodes.
    pub(crate) dns: u16,
    pub(crate) proxies: [u16; Node::ALL.len()],
}

/// Below the range that Linux hands out to outgoing connections, so that none of those can take a port between our
/// choice and its use. Among servers chance decides, and the start is tried again.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

impl Ports {
    /// Ports that are free at this moment.
    pub(crate) fn choose() -> Self {
        let mut taken = BTreeSet::new();
        let mut next = || {
            loop {
                // Each state is seeded at random.
                let port = port_of(RandomState::new().hash_one(()));
                if is_free(port) && taken.insert(port) {
                    return port;
                }
            }
        };
        Self {
            apiserver: next(),
            controller_manager: next(),
            scheduler: next(),
            dns: next(),
            proxies: [next(), next()],
        }
    }
}

fn port_of(random: u64) -> u16 {
    let offset = random % u64::from(RANGE.end - RANGE.start);
    RANGE.start + u16::try_from(offset).expect("the range is shorter than all ports")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_lie_in_the_range() {
        let ports = Ports::choose();
        let mut all = BTreeSet::from([ports.apiserver, ports.controller_manager, ports.scheduler, ports.dns]);
        all.extend(ports.proxies);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|port| RANGE.contains(port)));
    }

    #[test]
    fn the_range_is_covered_to_its_ends() {
        assert_eq!(port_of(0), RANGE.start);
        assert_eq!(port_of(u64::from(RANGE.end - RANGE.start) - 1), RANGE.end - 1);
    }

    #[test]
    fn a_taken_port_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind any port");
        assert!(!is_free(
            listener.local_addr().expect("a bound listener has an address").port()
        ));
    }
}
