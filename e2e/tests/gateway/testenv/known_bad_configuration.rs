//! Configurations with one mistake each, which tests must find.

use serde_json::{Value, json};

const FILTERS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
const HOSTS: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0";
const ENGINES: &str = "/static_resources/clusters/0";

fn at<'value>(configuration: &'value mut Value, pointer: &str) -> &'value mut Value {
    configuration
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("the configuration has no {pointer}"))
}

/// The script that selects engines fails on each request.
pub(crate) fn break_selection_script(configuration: &mut Value) {
    break_line(configuration, "function envoy_on_request(request)");
}

/// The script fails after this line.
pub(crate) fn break_line(configuration: &mut Value, line: &str) {
    let filters = at(configuration, FILTERS).as_array_mut().expect("a list of filters");
    let lua = filters
        .iter_mut()
        .find(|filter| filter["name"] == "envoy.filters.http.lua");
    let script = &mut lua.expect("a script")["typed_config"]["default_source_code"]["inline_string"];
    let text = script.as_str().expect("the text of the script");
    *script = text.replace(line, &format!("{line} error('broken')")).into();
}

/// Forwards to any authority that a client names.
pub(crate) fn remove_route_guard(configuration: &mut Value) {
    let host = at(configuration, HOSTS);
    host["domains"] = json!(["*"]);
    host["routes"][0]["match"] = json!({ "prefix": "/" });
}

/// Retries queries that may have been executed.
pub(crate) fn retry_after_resets(configuration: &mut Value) {
    at(configuration, HOSTS)["routes"][0]["route"]["retry_policy"]["retry_on"] = json!("reset");
}

/// Tries no pod unless one is known to be ready.
pub(crate) fn disable_panic_routing(configuration: &mut Value) {
    at(configuration, ENGINES)["common_lb_config"]["healthy_panic_threshold"] = json!({ "value": 0 });
}

/// Accepts Envoy's control headers from clients.
pub(crate) fn accept_control_headers(configuration: &mut Value) {
    let manager = at(
        configuration,
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config",
    );
    let manager = manager.as_object_mut().expect("an object");
    manager.remove("early_header_mutation_extensions");
    let loopback = json!({ "address_prefix": "127.0.0.0", "prefix_len": 8 });
    manager.insert(
        "internal_address_config".to_owned(),
        json!({ "cidr_ranges": [loopback] }),
    );
}
