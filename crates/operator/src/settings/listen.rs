//! Listen addresses, in the usual notations: `0.0.0.0:8080`, `[::1]:8080`, `:8080`, `0`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// The listen address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// The server is disabled.
    Off,
    /// All addresses of the machine, IPv6 and IPv4.
    AnyHost(u16),
    /// One address.
    At(SocketAddr),
}

impl ListenAddress {
    /// Starts listening; `None` if the server is disabled.
    pub(crate) async fn bind(self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::Off => Ok(None),
            Self::At(address) => TcpListener::bind(address).await.map(Some),
            Self::AnyHost(port) => {
                // The unspecified IPv6 address accepts IPv4 connections too. Where IPv6 is disabled, only the IPv4
                // address exists.
                match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                    Ok(listener) => Ok(Some(listener)),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
                    Err(_no_ipv6) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.map(Some),
                }
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::AnyHost(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!(
                "{text:?} is not an address to listen on: write IP:PORT, [IPv6]:PORT, :PORT for all addresses, or 0 to turn it off"
            )
        };
        if text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        let port: u16 = port.parse().map_err(|_| malformed())?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => IpAddr::V6(host.parse().map_err(|_| malformed())?),
            None if host.is_empty() => return Ok(Self::AnyHost(port)),
            None => IpAddr::V4(host.parse().map_err(|_| malformed())?),
        };
        Ok(Self::At(SocketAddr::new(host, port)))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0", ListenAddress::Off)]
    #[case(":8080", ListenAddress::AnyHost(8080))]
    #[case("127.0.0.1:0", ListenAddress::At(([127, 0, 0, 1], 0).into()))]
    #[case("[::1]:8081", ListenAddress::At((Ipv6Addr::LOCALHOST, 8081).into()))]
    fn addresses_round_trip(#[case] text: &str, #[case] expected: ListenAddress) {
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(expected.to_string(), text);
    }

    #[rstest]
    #[case("")]
    #[case("8080")]
    #[case("localhost:8080")]
    #[case("::1:8080")]
    #[case("0.0.0.0:65536")]
    #[case("0.0.0.0:")]
    #[case("http://0.0.0.0:1")]
    fn other_texts_are_rejected(#[case] text: &str) {
        let error = text.parse::<ListenAddress>().unwrap_err();
        assert!(error.contains("is not an address to listen on"), "{error}");
    }

    #[tokio::test]
    async fn a_port_without_a_host_accepts_ipv4_connections() {
        let listener = ListenAddress::AnyHost(0).bind().await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_is_an_error() {
        let listener = ListenAddress::AnyHost(0).bind().await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(
            ListenAddress::AnyHost(port).bind().await.unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        assert!(ListenAddress::Off.bind().await.unwrap().is_none());
    }
}
