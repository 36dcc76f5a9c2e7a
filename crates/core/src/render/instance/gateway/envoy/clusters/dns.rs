//! DNS discovery of an engine's pods, and how soon a change is noticed.

use serde::Serialize;

use super::super::Envoy;
use super::super::message::{Extension, Span};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DnsCluster {
    dns_lookup_family: &'static str,
    dns_refresh_rate: Span,
    dns_failure_refresh_rate: RefreshRate,
    respect_dns_ttl: bool,
    typed_dns_resolver_config: Extension<DnsResolver>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RefreshRate {
    base_interval: Span,
    max_interval: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "@type",
    rename = "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"
)]
struct DnsResolver {
    dns_resolver_options: DnsResolverOptions,
    query_timeout_seconds: u32,
    query_tries: u32,
    reinit_channel_on_timeout: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct DnsResolverOptions {
    no_default_search_domain: bool,
}

/// The longest interval between two lookups of a name without addresses.
const FAILURE_REFRESH: Span = Span::milliseconds(500);

pub(super) fn addresses(envoy: &Envoy) -> DnsCluster {
    DnsCluster {
        // `AUTO` resolves IPv6 first and IPv4 if there is none: one address for each pod, whatever families it has.
        dns_lookup_family: if envoy.ipv6 { "AUTO" } else { "V4_ONLY" },
        dns_refresh_rate: Span::seconds(1),
        // A woken engine has no addresses until its pods are ready, and held queries continue when they are found. Names
        // invented by clients are resolved as often, but only while no agent rejects them.
        dns_failure_refresh_rate: RefreshRate {
            base_interval: FAILURE_REFRESH,
            max_interval: FAILURE_REFRESH,
        },
        // Clusters often answer with 30 s, and Envoy would wait that long to see the new pods of an engine.
        respect_dns_ttl: false,
        typed_dns_resolver_config: Extension {
            name: "envoy.network.dns_resolver.cares",
            typed_config: resolver(),
        },
    }
}

fn resolver() -> DnsResolver {
    DnsResolver {
        // Names are fully qualified. With search domains, each name would be resolved in all of them first, and a wildcard
        // domain would receive the queries for engines that do not exist.
        dns_resolver_options: DnsResolverOptions {
            no_default_search_domain: true,
        },
        // A lost packet costs a second, not five, and the next attempt may reach another DNS server.
        query_timeout_seconds: 1,
        query_tries: 3,
        reinit_channel_on_timeout: true,
    }
}
