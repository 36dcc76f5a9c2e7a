use firebolt_api::FireboltInstance;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::admit::engine_warnings;
use crate::admit::fixture::{self, CLASS, EXTERNAL_SECRET, INSTANCE, NAMESPACE};

fn around<'a>(class: ClassLookup<'a>, instance: Option<&'a FireboltInstance>, bounds: &'a Bounds) -> EngineContext<'a> {
    EngineContext {
        class,
        instance,
        bounds,
    }
}

/// An instance with an external database.
fn instance() -> FireboltInstance {
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": EXTERNAL_SECRET } });
    fixture::instance(&json!({ "postgres": postgres }), &json!({}))
}

/// A template in which the container reads the Secret.
fn reading(secret: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": "engine", "envFrom": [{ "secretRef": { "name": secret } }] }] } })
}

#[test]
fn a_class_that_is_named_exists() {
    let engine = fixture::engine(&json!({}));
    let class = fixture::engine_class(&json!({}));
    assert_eq!(class_reference(&engine, &ClassLookup::Found(&class)), []);
    assert_eq!(class_reference(&engine, &ClassLookup::NotNamed), []);
    let missing = class_reference(&engine, &ClassLookup::Missing);
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].path.as_str(), missing[0].kind),
        (CLASS_REFERENCE, ViolationKind::NotFound)
    );
    for name in [CLASS, NAMESPACE] {
        assert!(missing[0].message.contains(name), "{}", missing[0]);
    }
}

#[test]
fn everything_about_an_engine_is_reported_together() {
    let bounds = Bounds {
        cpu: "4".parse().expect("a maximum"),
        ..Bounds::default()
    };
    let engine = fixture::engine(&json!({ "spec": {
        "hostNetwork": true,
        "volumes": [{ "name": "cache", "emptyDir": {} }],
        "containers": [
            { "name": "engine", "resources": { "limits": { "cpu": 5 } } },
            { "name": "proxy", "volumeMounts": [{ "name": "gone", "mountPath": "/g" }] },
        ],
    } }));
    let class = fixture::engine_class(&json!({ "spec": {
        "volumes": [
            { "name": "cache", "emptyDir": {} },
            { "name": "s", "secret": { "secretName": EXTERNAL_SECRET } },
        ],
    } }));
    let instance = instance();
    let found = super::engine(&engine, &around(ClassLookup::Found(&class), Some(&instance), &bounds));
    let lines: Vec<String> = found.iter().map(Violation::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let missing = super::engine(&engine, &around(ClassLookup::Missing, Some(&instance), &bounds));
    let places: Vec<(&str, ViolationKind)> = missing.iter().map(|one| (one.path.as_str(), one.kind)).collect();
    let expected = [
        ("spec.engineClassRef", ViolationKind::NotFound),
        ("spec.template.spec.hostNetwork", ViolationKind::Forbidden),
        (
            "spec.template.spec.containers[engine].resources.limits.cpu",
            ViolationKind::Invalid,
        ),
    ];
    assert_eq!(places, expected, "what the class would have brought is not missed");
}

#[test]
fn without_its_instance_the_credentials_that_have_a_known_name_are_guarded() {
    let own = InstanceNames(INSTANCE).postgres_credentials();
    let instance = instance();
    for (secret, known, unknown) in [(own.as_str(), 1, 1), (EXTERNAL_SECRET, 1, 0), ("licence", 0, 0)] {
        let engine = fixture::engine(&reading(secret));
        assert_eq!(engine_template(&engine, Some(&instance)).len(), known, "{secret}");
        assert_eq!(engine_template(&engine, None).len(), unknown, "{secret}");
    }
}

#[rstest]
#[case::volume(json!({ "volumes": [{ "name": "s", "secret": { "secretName": EXTERNAL_SECRET } }] }), "volumes[0].secret.secretName")]
#[case::engine(json!({ "containers": [{ "name": "engine", "envFrom": [{ "secretRef": { "name": EXTERNAL_SECRET } }] }] }), "containers[engine].envFrom[0].secretRef.name")]
#[case::sidecar(json!({ "containers": [{ "name": "proxy", "envFrom": [{ "secretRef": { "name": EXTERNAL_SECRET } }] }] }), "containers[proxy].envFrom[0].secretRef.name")]
#[case::init_container(json!({ "initContainers": [{ "name": "warm", "envFrom": [{ "secretRef": { "name": EXTERNAL_SECRET } }] }] }), "initContainers[warm].envFrom[0].secretRef.name")]
fn through_its_class_an_engine_does_not_read_the_credentials_either(#[case] spec: Value, #[case] field: &str) {
    let class = fixture::engine_class(&json!({ "spec": spec }));
    let engine = fixture::engine(&json!({}));
    let violations = engine_with_class(&engine, &class, Some(&instance()));
    assert_eq!(violations.len(), 1);
    assert_eq!(
        (violations[0].path.as_str(), violations[0].kind),
        (CLASS_REFERENCE, ViolationKind::Forbidden)
    );
    let place = format!("FireboltEngineClass {CLASS}, at spec.template.spec.{field}: The Secret {EXTERNAL_SECRET} ");
    assert!(violations[0].message.starts_with(&place), "{}", violations[0]);
    assert_eq!(engine_with_class(&engine, &class, None), []);
}

#[test]
fn an_engine_gets_warnings() {
    let engine = fixture::engine(&json!({ "spec": {
        "volumes": [{ "name": "cache", "emptyDir": {} }, { "name": "data", "emptyDir": {} }],
    } }));
    let (bounds, instance) = (Bounds::default(), instance());
    let warnings = engine_warnings(&engine, &around(ClassLookup::NotNamed, Some(&instance), &bounds));
    assert_eq!(warnings.len(), 1);
    let start = "spec.template.spec.volumes[1]: The name data is used by a volume of the operator";
    assert!(warnings[0].starts_with(start), "{}", warnings[0]);
    let warnings = engine_warnings(&engine, &around(ClassLookup::NotNamed, None, &bounds));
    assert_eq!(warnings.len(), 2);
    let start = format!("spec.instanceRef: FireboltInstance {INSTANCE} does not exist in namespace {NAMESPACE}.");
    assert!(warnings[1].starts_with(&start), "{}", warnings[1]);
    let plain = fixture::engine(&json!({}));
    assert!(engine_warnings(&plain, &around(ClassLookup::NotNamed, Some(&instance), &bounds)).is_empty());
}
