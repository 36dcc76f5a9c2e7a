use super::*;
use crate::admit::fixture::{Target, accepts, assert_rejected, rejects};
use rstest::rstest;
use serde_json::{Value, json};

/// A template in which a sidecar precedes the main container.
fn with_own(of: Target, field: &str, value: &Value) -> Value {
    json!({ "spec": { "containers": [{ "name": "proxy" }, { "name": of.container(), field: value }] } })
}

fn with_engine(field: &str, value: &Value) -> Value {
    with_own(Target::Engine, field, value)
}

#[rstest]
#[case::command("command", json!(["c"]), json!([]))]
#[case::args("args", json!(["a"]), json!([]))]
#[case::ports("ports", json!([{ "containerPort": 1 }]), json!([]))]
#[case::readiness("readinessProbe", json!({}), json!(null))]
#[case::liveness("livenessProbe", json!({}), json!(null))]
#[case::startup("startupProbe", json!({}), json!(null))]
#[case::restart_policy("restartPolicy", json!(""), json!(null))]
#[case::restart_rules("restartPolicyRules", json!([{ "action": "Restart" }]), json!([]))]
#[case::stdin("stdin", json!(true), json!(false))]
#[case::stdin_once("stdinOnce", json!(true), json!(false))]
#[case::tty("tty", json!(true), json!(false))]
fn the_identity_of_a_component_is_refused(#[case] field: &str, #[case] bad: Value, #[case] good: Value) {
    for (of, called) in [
        (Target::Engine, "engine"),
        (Target::Metadata, "metadata service"),
        (Target::Gateway, "gateway"),
    ] {
        let path = format!("spec.containers[{}].{field}", of.container());
        let violations = of.violations(&with_own(of, field, &bad));
        assert_rejected(
            &violations,
            of.path(),
            &[(&path, ViolationKind::Forbidden, "Remove this field.")],
            &bad,
        );
        assert!(
            violations[0].message.contains(&format!("he {called} "))
                || violations[0].message.contains(&format!("he {called}.")),
            "{}",
            violations[0]
        );
        of.accepts(&with_own(of, field, &good));
        of.accepts(&json!({ "spec": { "containers": [{ "name": "proxy", field: bad }] } }));
        of.accepts(&json!({ "spec": { "initContainers": [{ "name": "warm", field: bad }] } }));
    }
}

#[rstest]
#[case::env("env", json!([{ "name": "A", "value": "1" }]), json!([]))]
#[case::env_from("envFrom", json!([{ "prefix": "A" }]), json!([]))]
#[case::mounts("volumeMounts", json!([{ "name": "v", "mountPath": "/v" }]), json!([]))]
#[case::devices("volumeDevices", json!([{ "name": "v", "devicePath": "/v" }]), json!([]))]
#[case::resize("resizePolicy", json!([{ "resourceName": "cpu", "restartPolicy": "r" }]), json!([]))]
#[case::security("securityContext", json!({}), json!(null))]
#[case::lifecycle("lifecycle", json!({}), json!(null))]
#[case::working_dir("workingDir", json!("/w"), json!(""))]
#[case::message_path("terminationMessagePath", json!("/m"), json!(""))]
#[case::message_policy("terminationMessagePolicy", json!("File"), json!(""))]
fn of_instance_components_only_image_and_resources_can_be_set(
    #[case] field: &str,
    #[case] bad: Value,
    #[case] good: Value,
    #[values(Target::Metadata, Target::Gateway)] of: Target,
) {
    let path = format!("spec.containers[{}].{field}", of.container());
    let expected = [(
        path.as_str(),
        ViolationKind::Forbidden,
        "only image, imagePullPolicy and resources",
    )];
    of.rejects(&with_own(of, field, &bad), &expected);
    of.accepts(&with_own(of, field, &good));
    of.accepts(&json!({ "spec": { "containers": [{ "name": "proxy", field: bad }] } }));
    Target::Engine.accepts(&with_own(Target::Engine, field, &bad));
}

#[rstest]
#[case::image("image", json!("mine:1"))]
#[case::pull_policy("imagePullPolicy", json!("Always"))]
#[case::resources("resources", json!({ "limits": { "cpu": 4 } }))]
fn image_and_resources_can_be_set_everywhere(#[case] field: &str, #[case] value: Value) {
    for of in Target::ALL {
        of.accepts(&with_own(of, field, &value));
    }
}

#[rstest]
fn variables_of_the_operator_are_refused_in_the_engine(
    #[values("POD_INDEX", "FB_AWS_EC2_METADATA_CLIENT_ENABLED", "FIREBOLT_CORE_MODE")] name: &str,
) {
    let env = |name: &str| json!([{ "name": "A", "value": "1" }, { "name": name, "value": "1" }]);
    let path = "spec.containers[engine].env[1].name";
    rejects(
        &with_engine("env", &env(name)),
        &[(path, ViolationKind::Forbidden, name)],
    );
    accepts(&with_engine("env", &env(&name.to_lowercase())));
    accepts(&json!({ "spec": { "containers": [{ "name": "proxy", "env": env(name) }] } }));
}

#[rstest]
fn volumes_of_the_operator_are_for_sidecars_to_mount(
    #[values("nodes-config", "engine-config", "data", "runtime", "nginx-writable-dir")] name: &str,
) {
    let mounts = |name: &str| json!([{ "name": "c", "mountPath": "/c" }, { "name": name, "mountPath": "/x" }]);
    let path = "spec.containers[engine].volumeMounts[1].name";
    rejects(
        &with_engine("volumeMounts", &mounts(name)),
        &[(path, ViolationKind::Forbidden, name)],
    );
    accepts(&with_engine("volumeMounts", &mounts("cache")));
    accepts(&json!({ "spec": {
        "containers": [{ "name": "proxy", "volumeMounts": mounts(name) }],
        "initContainers": [{ "name": "warm", "volumeMounts": mounts(name) }],
    } }));
}

#[rstest]
fn volumes_of_the_operator_are_no_devices(#[values("containers", "initContainers")] list: &str) {
    let template = |name: &str| json!({ "spec": { list: [{ "name": "proxy", "volumeDevices": [{ "name": name, "devicePath": "/d" }] }] } });
    let path = format!("spec.{list}[proxy].volumeDevices[0].name");
    rejects(&template("data"), &[(&path, ViolationKind::Forbidden, "volume data")]);
    accepts(&template("disk"));
}

#[test]
fn a_component_is_one_container() {
    let names = |names: &[&str]| {
        let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        json!({ "spec": { "containers": containers } })
    };
    for of in Target::ALL {
        let own = of.container();
        let message = format!("only one container named {own}");
        of.rejects(
            &names(&[own, "proxy", own, own]),
            &[
                ("spec.containers[2].name", ViolationKind::Duplicate, &message),
                ("spec.containers[3].name", ViolationKind::Duplicate, &message),
            ],
        );
        of.accepts(&names(&[own, "proxy", &format!("{own}-2")]));
    }
}

#[test]
fn of_a_second_engine_container_only_the_name_is_refused() {
    let template = json!({ "spec": { "containers": [{ "name": "engine" }, { "name": "engine", "command": ["c"] }] } });
    rejects(
        &template,
        &[(
            "spec.containers[1].name",
            ViolationKind::Duplicate,
            "only one container named engine",
        )],
    );
}

#[test]
fn the_name_of_the_web_ui_is_refused() {
    rejects(
        &json!({ "spec": { "containers": [{ "name": "a" }, { "name": "engine-web" }, { "name": "engine-web" }] } }),
        &[
            (
                "spec.containers[engine-web].name",
                ViolationKind::Forbidden,
                "uiSidecar",
            ),
            ("spec.containers[2].name", ViolationKind::Forbidden, "uiSidecar"),
        ],
    );
    accepts(&json!({ "spec": { "containers": [{ "name": "engine-webs" }] } }));
}

#[test]
fn the_name_of_the_wake_agent_is_refused_in_the_gateway() {
    let template = json!({ "spec": { "containers": [{ "name": "wake-agent" }] } });
    let path = "spec.containers[wake-agent].name";
    Target::Gateway.rejects(&template, &[(path, ViolationKind::Forbidden, "Choose another name.")]);
    Target::Metadata.accepts(&template);
    Target::Engine.accepts(&template);
}

#[rstest]
#[case(Target::Engine, "engine", true)]
#[case(Target::Engine, "engine-web", true)]
#[case(Target::Engine, "engine-warm", false)]
#[case(Target::Metadata, "metadata", true)]
#[case(Target::Metadata, "engine", false)]
#[case(Target::Gateway, "envoy", true)]
#[case(Target::Gateway, "wake-agent", true)]
#[case(Target::Gateway, "metadata", false)]
fn names_of_the_operator_are_refused_for_init_containers(
    #[case] of: Target,
    #[case] name: &str,
    #[case] refused: bool,
) {
    let template = json!({ "spec": { "initContainers": [{ "name": "a" }, { "name": name, "command": ["c"] }] } });
    if refused {
        let path = format!("spec.initContainers[{name}].name");
        of.rejects(&template, &[(&path, ViolationKind::Forbidden, "Choose another name.")]);
    } else {
        of.accepts(&template);
    }
}
