//! The few messages of Envoy's API that everything else is made of.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// An extension of Envoy: the name is for people, the type of the configuration defines it for Envoy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Extension<T> {
    pub name: &'static str,
    pub typed_config: T,
}

/// A span of time, written as Envoy reads it: seconds with an `s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span(Duration);

impl Span {
    pub(super) const ZERO: Self = Self(Duration::ZERO);

    pub(super) const fn of(duration: Duration) -> Self {
        Self(duration)
    }

    pub(super) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub(super) const fn milliseconds(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (seconds, milliseconds) = (self.0.as_secs(), self.0.subsec_millis());
        if milliseconds == 0 {
            serializer.serialize_str(&format!("{seconds}s"))
        } else {
            serializer.serialize_str(&format!("{seconds}.{milliseconds:03}s"))
        }
    }
}

/// A percentage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Percent {
    pub value: u8,
}

/// An address to listen on or to connect to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Address {
    socket_address: SocketAddress,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct SocketAddress {
    address: &'static str,
    port_value: u16,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ipv4_compat: bool,
}

impl Address {
    /// Every address of the pod. With IPv6, one socket takes IPv4 connections as well.
    pub(super) const fn everywhere(port: u16, ipv6: bool) -> Self {
        Self::new(if ipv6 { "::" } else { "0.0.0.0" }, port, ipv6)
    }

    /// This pod only. A pod has 127.0.0.1 even where its network is IPv6 alone: the address belongs to the loopback
    /// device, not to the network.
    pub(super) const fn loopback(port: u16) -> Self {
        Self::new("127.0.0.1", port, false)
    }

    const fn new(address: &'static str, port_value: u16, ipv4_compat: bool) -> Self {
        Self {
            socket_address: SocketAddress {
                address,
                port_value,
                ipv4_compat,
            },
        }
    }
}

/// A text that must be met in one of a few ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StringMatch {
    Exact(&'static str),
    Prefix(&'static str),
    SafeRegex { regex: &'static str },
}

/// A header of a request that must be met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HeaderMatch {
    pub name: &'static str,
    pub(crate) string_match: StringMatch,
}

/// How a connection that carries nothing for a while is kept known to the network. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TcpKeepalive {
    keepalive_probes: u32,
    keepalive_time: u32,
    keepalive_interval: u32,
}

/// A node that died is noticed after a minute, and nothing between two nodes forgets a connection so soon.
pub(super) const TCP_KEEPALIVE: TcpKeepalive = TcpKeepalive {
    keepalive_probes: 3,
    keepalive_time: 30,
    keepalive_interval: 10,
};

/// Something with nothing to set: being there is what it says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(Span::ZERO, "0s")]
    #[case(Span::seconds(300), "300s")]
    #[case(Span::milliseconds(25), "0.025s")]
    #[case(Span::milliseconds(1250), "1.250s")]
    fn spans_are_written_in_seconds(#[case] span: Span, #[case] text: &str) {
        assert_eq!(serde_json::to_value(span).expect("a text"), text);
    }
}
