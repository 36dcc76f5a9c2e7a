//! Addresses on the loopback network that are not in use.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// An address to listen on.
///
/// The whole network `127.0.0.0/8` leads to this machine, and nearly everybody uses its first address. On one drawn
/// from the rest, a port that is free now will be free in a moment.
pub fn free_address() -> io::Result<SocketAddr> {
    // Each state is seeded at random.
    let [_, second, third, fourth, ..] = RandomState::new().hash_one(()).to_be_bytes();
    // Neither the first addresses, which people configure by hand, nor the last, which are for broadcasts.
    let address = Ipv4Addr::new(127, second.clamp(1, 254), third, fourth.clamp(1, 254));
    TcpListener::bind((address, 0))?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_address_is_on_loopback_and_can_be_listened_on() {
        let address = free_address().expect("an address");
        assert!(address.ip().is_loopback());
        TcpListener::bind(address).expect("listen");
    }

    #[test]
    fn two_callers_get_different_addresses() {
        assert_ne!(free_address().expect("one"), free_address().expect("another"));
    }
}
