//! Snapshots of the complete configuration, and properties of every configuration.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::*;

const BARE: Envoy<'static> = Envoy {
    namespace: "data",
    cluster_domain: "cluster.local",
    metrics_port: 9090,
    ipv6: false,
    hold_timeout: Duration::from_mins(2),
};

fn json(envoy: &Envoy) -> Value {
    serde_json::to_value(bootstrap(envoy)).expect("a configuration is representable as JSON")
}

/// Calls `visit` with every text in a value.
fn texts<'a>(value: &'a Value, visit: &mut impl FnMut(&'a str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[rstest]
#[case::ipv4(false)]
#[case::ipv6(true)]
fn renders(#[case] ipv6: bool) {
    let name = if ipv6 { "ipv6" } else { "ipv4" };
    insta::assert_snapshot!(name, firebolt_api::to_yaml(&bootstrap(&Envoy { ipv6, ..BARE })));
}

#[test]
fn script_route_and_log_mean_the_same_mark() {
    let mark = select::METADATA;
    let mut found = Vec::new();
    texts(&json(&BARE), &mut |text| {
        if text.contains(mark) {
            found.push(text.to_owned());
        }
    });
    let script = found.iter().find(|text| text.contains("envoy_on_request"));
    let script = script.expect("the script names the mark");
    let logged = [select::ENGINE_KEY, "wake", wake::TIMING_KEY];
    for key in logged.iter().chain(&[select::REFUSED_KEY]) {
        assert!(script.contains(&format!("metadata:set(METADATA, \"{key}\"")), "{key}");
    }
    for key in logged {
        let logged = format!("%DYNAMIC_METADATA({mark}:{key})%");
        assert!(found.contains(&logged), "{found:?}");
    }
    assert!(found.contains(&mark.to_owned()), "{found:?}");
}

#[test]
fn only_the_client_port_counts_against_the_limit_of_connections() {
    let configuration = json(&BARE);
    let listeners = configuration["static_resources"]["listeners"]
        .as_array()
        .expect("listeners");
    let exempt: Vec<_> = listeners
        .iter()
        .map(|listener| &listener["ignore_global_conn_limit"])
        .collect();
    assert_eq!(exempt, [false, true, true]);
    assert_eq!(configuration["admin"]["ignore_global_conn_limit"], true);
}

proptest! {
    /// A name can be part of a larger text only in the places that put the address of an engine together, or take it apart.
    #[test]
    fn a_namespace_appears_in_addresses_of_engines_and_nowhere_else(namespace in "[a-z][a-z0-9-]{0,60}[a-z0-9]x9z") {
        let configuration = json(&Envoy { namespace: &namespace, ..BARE });
        let address = format!("-service.{namespace}.svc.cluster.local:3473");
        let mut found = Vec::new();
        texts(&configuration, &mut |text| {
            if text.contains(&namespace) {
                found.push(text.to_owned());
            }
        });
        found.sort();
        let apart = format!(r"^cluster\.(DFPCluster_([^.]+)-service\.{namespace}\.svc\.cluster\.local_3473\.)");
        let route = format!("*{address}");
        prop_assert_eq!(found, [route.clone(), route, address, apart]);
    }
}
