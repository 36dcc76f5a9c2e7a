use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn object<K: DeserializeOwned>(name: &str, body: &Value) -> K {
    let mut object =
        json!({ "apiVersion": "v", "kind": "K", "metadata": { "name": name, "namespace": "n", "uid": "u" } });
    object
        .as_object_mut()
        .unwrap()
        .extend(body.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn engine(more: &Value) -> FireboltEngine {
    let mut spec = json!({ "instanceRef": "i", "replicas": 1 });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object("a", &json!({ "spec": spec }))
}

fn instance(id: &str, endpoint: &str) -> Lookup<FireboltInstance> {
    let spec = json!({ "id": id, "metadata": {}, "gateway": {}, "metricScrapeMode": "ApiserverProxy" });
    Lookup::Found(object(
        "i",
        &json!({ "spec": spec, "status": { "metadataEndpoint": endpoint } }),
    ))
}

fn ready() -> Lookup<FireboltInstance> {
    instance("01J", "m:7000")
}

fn class(spec: &Value) -> Lookup<FireboltEngineClass> {
    Lookup::Found(object("c", &json!({ "spec": spec })))
}

fn desired_for(
    engine: &FireboltEngine,
    class: Option<Lookup<FireboltEngineClass>>,
    instance: &Lookup<FireboltInstance>,
) -> DesiredEngine {
    let bounds = admit::Bounds {
        cpu: "4".parse().unwrap(),
        ..admit::Bounds::default()
    };
    let references = References {
        class,
        instance: instance.clone(),
    };
    desired(engine, &references, &Defaults::example(), &bounds)
}

fn gate(desired: &DesiredEngine) -> (GateCause, &str) {
    let gate = desired.generation.as_ref().expect_err("a gate");
    (gate.cause, &gate.message)
}

#[test]
fn an_engine_with_everything_in_place_is_rendered() {
    let desired = desired_for(&engine(&json!({})), None, &ready());
    assert_eq!(
        desired.generation.unwrap().template_hash,
        render::template_hash(&desired.effective)
    );
    assert_eq!(desired.scrape_mode, MetricScrapeMode::ApiserverProxy);
    assert_eq!(
        (desired.drain.waits, desired.drain.interval),
        (true, Duration::from_secs(5))
    );
}

#[rstest]
#[case::missing(Lookup::Missing, "FireboltInstance i does not exist in namespace n. Create it")]
#[case::unreadable(Lookup::Unreadable("spec: bad".to_owned()), "FireboltInstance i cannot be parsed: spec: bad.")]
#[case::no_id(instance("", "m:7000"), "FireboltInstance i has no spec.id yet")]
#[case::no_endpoint(
    instance("01J", ""),
    "The metadata service of FireboltInstance i is not ready, so no rollout can start."
)]
fn without_its_instance_nothing_is_rendered(#[case] instance: Lookup<FireboltInstance>, #[case] says: &str) {
    let desired = desired_for(
        &engine(&json!({ "engineClassRef": "c" })),
        Some(Lookup::Missing),
        &instance,
    );
    let (cause, message) = gate(&desired);
    assert_eq!(cause, GateCause::InstanceNotReady, "it comes before the class");
    assert!(message.starts_with(says), "{message}");
    assert_eq!(desired.effective.uid, "u", "what exists is still managed");
}

#[test]
fn an_endpoint_of_its_own_needs_none_of_the_instance_but_reports_it() {
    let own = engine(&json!({ "metadataEndpointOverride": "far:7000" }));
    let desired = desired_for(&own, None, &instance("01J", ""));
    assert!(desired.generation.is_ok());
    let reported = desired.instance.unwrap_err();
    assert!(
        reported.starts_with("The metadata service of FireboltInstance i is not ready. The engine uses"),
        "{reported}"
    );
    let usable = desired_for(&own, None, &ready());
    assert_eq!(
        (usable.effective.instance.metadata_endpoint.as_str(), usable.instance),
        ("far:7000", Ok(()))
    );
}

#[test]
fn the_state_of_the_instance_is_known_behind_other_gates() {
    let named = engine(&json!({ "engineClassRef": "c" }));
    let desired = desired_for(&named, Some(Lookup::Missing), &ready());
    assert_eq!((gate(&desired).0, desired.instance), (GateCause::ClassUnready, Ok(())));
    let desired = desired_for(&named, Some(Lookup::Missing), &Lookup::Missing);
    assert!(
        desired
            .instance
            .unwrap_err()
            .starts_with("FireboltInstance i does not exist")
    );
}

#[test]
fn the_auto_stop_policy_is_known_behind_a_gate() {
    let policy = json!({ "enabled": true, "activeReplicas": 2 });
    let rejected = class(&json!({ "template": { "spec": { "hostNetwork": true } }, "autoStop": policy }));
    let named = engine(&json!({ "engineClassRef": "c" }));
    let desired = desired_for(&named, Some(rejected), &ready());
    assert_eq!(gate(&desired).0, GateCause::ClassUnready);
    assert_eq!(desired.auto_stop.unwrap().active_replicas, 2);
    let own = engine(&json!({ "engineClassRef": "c", "autoStop": { "enabled": true, "activeReplicas": 5 } }));
    let desired = desired_for(&own, Some(Lookup::Missing), &ready());
    assert_eq!(desired.auto_stop.unwrap().active_replicas, 5);
}

#[rstest]
#[case::missing(Lookup::Missing, "FireboltEngineClass c does not exist in namespace n. Create it")]
#[case::unreadable(Lookup::Unreadable("spec: bad".to_owned()), "FireboltEngineClass c cannot be parsed: spec: bad.")]
#[case::refused(
    class(&json!({ "template": { "spec": { "hostNetwork": true } } })),
    "The template of FireboltEngineClass c is rejected: spec.template.spec.hostNetwork: Forbidden:"
)]
fn a_class_that_cannot_be_used_is_named(#[case] class: Lookup<FireboltEngineClass>, #[case] says: &str) {
    let desired = desired_for(&engine(&json!({ "engineClassRef": "c" })), Some(class), &ready());
    let (cause, message) = gate(&desired);
    assert_eq!(cause, GateCause::ClassUnready);
    assert!(message.starts_with(says), "{message}");
}

#[test]
fn a_template_that_sets_what_belongs_to_the_operator_is_refused() {
    let desired = desired_for(
        &engine(&json!({ "template": { "spec": { "hostPID": true } } })),
        None,
        &ready(),
    );
    let (cause, message) = gate(&desired);
    assert_eq!(cause, GateCause::TemplateRejected);
    assert!(message.contains("spec.template.spec.hostPID"), "{message}");
}

#[rstest]
#[case::both_have_it(
    json!({ "volumes": [{ "name": "cache", "emptyDir": {} }] }),
    json!({ "volumes": [{ "name": "cache", "emptyDir": {} }] }),
    "spec.template.spec.volumes[0].name: Duplicate value: FireboltEngineClass c also has a volume named cache"
)]
#[case::neither_has_it(
    json!({}),
    json!({ "containers": [{ "name": "x", "volumeMounts": [{ "name": "cache", "mountPath": "/c" }] }] }),
    "spec.template.spec.containers[x].volumeMounts[0].name: Not found: "
)]
#[case::the_class_reads_a_secret_of_the_instance(
    json!({ "volumes": [{ "name": "s", "secret": { "secretName": "i-metadata-postgres-creds" } }] }),
    json!({}),
    "spec.engineClassRef: Forbidden: FireboltEngineClass c, at spec.template.spec.volumes[0].secret.secretName: "
)]
#[case::the_engine_does(
    json!({}),
    json!({ "volumes": [{ "name": "s", "secret": { "secretName": "i-metadata-postgres-creds" } }] }),
    "spec.template.spec.volumes[0].secret.secretName: Forbidden: "
)]
fn a_template_that_does_not_go_with_its_class_or_instance_is_refused(
    #[case] below: Value,
    #[case] above: Value,
    #[case] says: &str,
) {
    let template = |spec: &Value| json!({ "template": { "spec": spec } });
    let mut named = engine(&template(&above));
    named.spec.engine_class_ref = Some("c".to_owned());
    let desired = desired_for(&named, Some(class(&template(&below))), &ready());
    let (cause, message) = gate(&desired);
    assert_eq!(cause, GateCause::TemplateRejected);
    let start = format!("The template of this engine is rejected: {says}");
    assert!(message.starts_with(&start), "{message}");
    let renamed = class(&template(&json!({ "volumes": [{ "name": "other", "emptyDir": {} }] })));
    named.spec.template = None;
    assert!(desired_for(&named, Some(renamed), &ready()).generation.is_ok());
}

#[test]
fn an_engine_may_set_a_variable_of_its_class_anew() {
    let variable = |value: &str| json!({ "template": { "spec": { "containers": [{ "name": "engine", "env": [{ "name": "A", "value": value }] }] } } });
    let mut named = engine(&variable("engine"));
    named.spec.engine_class_ref = Some("c".to_owned());
    let desired = desired_for(&named, Some(class(&variable("class"))), &ready());
    assert!(desired.generation.is_ok());
}

#[test]
fn bounds_hold_for_what_comes_from_the_class_too() {
    let resources = |cpu: &str| json!({ "template": { "spec": { "containers": [{ "name": "engine", "resources": { "limits": { "cpu": cpu } } }] } } });
    let named = engine(&json!({ "engineClassRef": "c" }));
    let desired = desired_for(&named, Some(class(&resources("5"))), &ready());
    assert_eq!(gate(&desired).0, GateCause::BoundsExceeded);
    assert!(
        desired_for(&named, Some(class(&resources("4"))), &ready())
            .generation
            .is_ok()
    );
}

#[test]
fn how_to_drain_is_known_behind_a_gate() {
    let impatient = engine(&json!({ "rollout": "recreate" }));
    assert!(!desired_for(&impatient, None, &Lookup::Missing).drain.waits);
    let slow = class(&json!({ "template": {}, "drainCheckInterval": "9s" }));
    let desired = desired_for(&engine(&json!({ "engineClassRef": "c" })), Some(slow), &Lookup::Missing);
    assert_eq!(desired.drain.interval, Duration::from_secs(9));
}
