//! Users determine the length of lists, so the run time of the rules must be linear.

use std::time::Duration;

use testkit::cost::cpu_time;

use super::*;

/// What it takes to validate an engine of a class that both have such a pod.
fn effort(pod: &Value) -> Duration {
    let template = json!({ "spec": pod });
    let (engine, class) = (fixture::engine(&template), fixture::engine_class(&template));
    let around = EngineContext {
        class: ClassLookup::Found(&class),
        instance: None,
        bounds: &Bounds::default(),
    };
    cpu_time(|| {
        std::hint::black_box(super::super::engine(&engine, &around));
        std::hint::black_box(super::super::engine_class(&class));
    })
}

fn named(count: usize, field: &str) -> Value {
    let entry = |index: usize| json!({ "name": format!("a{index}"), field: format!("/a{index}") });
    (0..count).map(entry).collect()
}

#[rstest]
#[case::volumes(|count| json!({ "volumes": named(count, "x") }))]
#[case::claims(|count| json!({ "resourceClaims": named(count, "x") }))]
#[case::containers(|count| json!({ "containers": named(count, "image") }))]
#[case::init_containers(|count| json!({ "initContainers": named(count, "image") }))]
#[case::mounts(|count| json!({ "volumes": named(count, "x"), "containers": [{ "name": "engine", "volumeMounts": named(count, "mountPath") }] }))]
#[case::devices(|count| json!({ "volumes": named(count, "x"), "containers": [{ "name": "proxy", "volumeDevices": named(count, "devicePath") }] }))]
#[case::variables(|count| json!({ "containers": [{ "name": "engine", "env": named(count, "value") }] }))]
fn the_cost_is_linear_in_the_size_of_the_template(#[case] pod: fn(usize) -> Value) {
    let (few, many) = (effort(&pod(4_000)), effort(&pod(32_000)));
    // Eight times as many entries take eight times as long, or 64 times if each entry is compared with each other.
    assert!(many < few * 24, "{few:?} for few, {many:?} for eight times as many");
}
