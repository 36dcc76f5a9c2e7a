//! Names that DNS and the API server accept.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use firebolt_api::name::is_dns_label;

/// The DNS domain of the cluster, without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDomain(String);

impl fmt::Display for ClusterDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterDomain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let domain = text.strip_suffix('.').unwrap_or(text);
        if is_dns_subdomain(domain) {
            return Ok(Self(domain.to_owned()));
        }
        Err(format!(
            "{text:?} is not a DNS name: use lower-case labels separated by dots, as in cluster.local"
        ))
    }
}

/// The value parser of names that the API server stores as a DNS subdomain, such as that of a Lease.
pub(crate) fn parse_object_name(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not an object name: use lower-case letters, digits, '-' and '.', as in firebolt-operator"
    ))
}

/// The value parser of a DNS name or IP address in a certificate.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is neither a DNS name nor an IP address: write it as in firebolt-operator-webhook.firebolt-system.svc or 10.0.0.1"
    ))
}

/// Labels separated by dots, as in domains and in most object names.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("firebolt-operator-webhook.ns.svc", true)]
    #[case("10.0.0.1", true)]
    #[case("fd00::1", true)]
    #[case("a:443", false)]
    #[case("https://a", false)]
    #[case("", false)]
    fn a_certificate_is_for_a_name_or_an_address(#[case] text: &str, #[case] accepted: bool) {
        assert_eq!(parse_host(text).is_ok(), accepted);
    }

    #[rstest]
    #[case("cluster.local", "cluster.local")]
    #[case("cluster.local.", "cluster.local")]
    #[case("k8s", "k8s")]
    fn domains_are_parsed(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(
            text.parse::<ClusterDomain>().map(|domain| domain.to_string()),
            Ok(expected.to_owned())
        );
    }

    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("cluster..local")]
    #[case(".cluster.local")]
    #[case("cluster_local")]
    #[case("Cluster.local")]
    fn other_domains_are_rejected(#[case] text: &str) {
        let error = text.parse::<ClusterDomain>().unwrap_err();
        assert!(error.contains("is not a DNS name"), "{error}");
    }

    #[test]
    fn object_names_are_dns_names() {
        assert_eq!(parse_object_name("my.lease-1"), Ok("my.lease-1".to_owned()));
        assert!(parse_object_name("My_Lease").is_err());
        assert!(parse_object_name(&"a.".repeat(127)).is_err());
    }
}
