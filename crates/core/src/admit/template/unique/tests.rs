use rstest::rstest;
use serde_json::{Value, json};

use crate::admit::fixture::{self, CLASS, accepts, assert_rejected, rejects};
use crate::admit::{Violation, ViolationKind, engine_with_class};

/// A template with these entries in a list of the pod, or of its engine container.
fn template(list: &str, entries: &Value) -> Value {
    match list.strip_prefix("engine.") {
        Some(list) => json!({ "spec": { "containers": [{ "name": "engine", list: entries }] } }),
        None => json!({ "spec": { list: entries } }),
    }
}

/// Violations of both layers together, where the class provides the volumes that either of them mounts.
fn together(class: &Value, engine: &Value) -> Vec<Violation> {
    let mut class = class.clone();
    let volumes = class["spec"]["volumes"].take();
    let mut volumes = volumes.as_array().cloned().unwrap_or_default();
    volumes.extend(["v", "w"].map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } })));
    class["spec"]["volumes"] = json!(volumes);
    engine_with_class(&fixture::engine(engine), &fixture::engine_class(&class), None)
}

#[rstest]
#[case::volume("volumes", json!({ "name": "cache", "emptyDir": {} }), json!({ "name": "cache", "hostPath": { "path": "/" } }), "spec.volumes[#].name", "a volume named cache")]
#[case::mount("engine.volumeMounts", json!({ "name": "v", "mountPath": "/x" }), json!({ "name": "w", "mountPath": "/x" }), "spec.containers[engine].volumeMounts[#].mountPath", "a mount or device at /x")]
#[case::mount_written_otherwise("engine.volumeMounts", json!({ "name": "v", "mountPath": "/x/y" }), json!({ "name": "v", "mountPath": "//x/./y/" }), "spec.containers[engine].volumeMounts[#].mountPath", "a mount or device at /x/y")]
#[case::device("engine.volumeDevices", json!({ "name": "v", "devicePath": "/x" }), json!({ "name": "w", "devicePath": "/x" }), "spec.containers[engine].volumeDevices[#].devicePath", "a mount or device at /x")]
#[case::volume_of_a_device("engine.volumeDevices", json!({ "name": "v", "devicePath": "/x" }), json!({ "name": "v", "devicePath": "/y" }), "spec.containers[engine].volumeDevices[#].name", "a volume device for volume v")]
#[case::resize_policy("engine.resizePolicy", json!({ "resourceName": "cpu", "restartPolicy": "NotRequired" }), json!({ "resourceName": "cpu", "restartPolicy": "RestartContainer" }), "spec.containers[engine].resizePolicy[#].resourceName", "a resize policy for cpu")]
#[case::resource_claim("resourceClaims", json!({ "name": "gpu", "resourceClaimName": "a" }), json!({ "name": "gpu", "resourceClaimName": "b" }), "spec.resourceClaims[#].name", "a resource claim named gpu")]
#[case::scheduling_gate("schedulingGates", json!({ "name": "example.com/g" }), json!({ "name": "example.com/g" }), "spec.schedulingGates[#].name", "a scheduling gate named example.com/g")]
#[case::spread("topologySpreadConstraints", json!({ "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1 }), json!({ "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2 }), "spec.topologySpreadConstraints[#].topologyKey", "a topology spread constraint for zone with DoNotSchedule")]
fn what_pods_have_once_no_template_has_twice_nor_both_layers(
    #[case] list: &str,
    #[case] first: Value,
    #[case] second: Value,
    #[case] path: &str,
    #[case] what: &str,
) {
    let path_of = |index: &str| path.replace('#', index);
    rejects(
        &template(list, &json!([first, second])),
        &[(
            &path_of("1"),
            ViolationKind::Duplicate,
            &format!("This template already has {what}."),
        )],
    );
    let (class, engine) = (template(list, &json!([first])), template(list, &json!([second])));
    accepts(&class);
    accepts(&engine);
    let says = format!("FireboltEngineClass {CLASS} also has {what}");
    assert_rejected(
        &together(&class, &engine),
        "spec.template",
        &[(&path_of("0"), ViolationKind::Duplicate, &says)],
        &engine,
    );
    assert_eq!(together(&json!({ "spec": {} }), &engine), []);
}

#[rstest]
#[case::variable_of_which_the_last_holds("engine.env", json!({ "name": "A", "value": "c" }), json!({ "name": "A", "value": "e" }))]
#[case::variables("engine.envFrom", json!({ "configMapRef": { "name": "a" } }), json!({ "configMapRef": { "name": "a" } }))]
#[case::volume_mounted_twice("engine.volumeMounts", json!({ "name": "v", "mountPath": "/x" }), json!({ "name": "v", "mountPath": "/x/y" }))]
#[case::pull_secret("imagePullSecrets", json!({ "name": "s" }), json!({ "name": "s" }))]
#[case::host_alias("hostAliases", json!({ "ip": "10.0.0.1", "hostnames": ["a"] }), json!({ "ip": "10.0.0.1", "hostnames": ["b"] }))]
#[case::readiness_gate("readinessGates", json!({ "conditionType": "c" }), json!({ "conditionType": "c" }))]
#[case::toleration("tolerations", json!({ "operator": "Exists" }), json!({ "operator": "Exists" }))]
#[case::volume_left_out("volumes", json!({ "name": "data", "emptyDir": {} }), json!({ "name": "data", "emptyDir": {} }))]
#[case::other_spread("topologySpreadConstraints", json!({ "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1 }), json!({ "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1 }))]
fn what_kubernetes_takes_twice_both_layers_may_have(#[case] list: &str, #[case] first: Value, #[case] second: Value) {
    let (class, engine) = (template(list, &json!([first])), template(list, &json!([second])));
    assert_eq!(together(&class, &engine), []);
    accepts(&template(list, &json!([first, second])));
}

#[rstest]
#[case::beside("containers", "containers", "spec.containers[proxy].name")]
#[case::before("initContainers", "initContainers", "spec.initContainers[proxy].name")]
#[case::one_before("containers", "initContainers", "spec.initContainers[proxy].name")]
#[case::one_beside("initContainers", "containers", "spec.containers[proxy].name")]
fn a_container_has_a_name_of_its_own(#[case] in_class: &str, #[case] in_engine: &str, #[case] path: &str) {
    let class = json!({ "spec": { in_class: [{ "name": "a" }, { "name": "proxy" }] } });
    let engine = |name: &str| json!({ "spec": { in_engine: [{ "name": "b" }, { "name": name }] } });
    let says = format!("FireboltEngineClass {CLASS} also has a container named proxy");
    assert_rejected(
        &together(&class, &engine("proxy")),
        "spec.template",
        &[(path, ViolationKind::Duplicate, &says)],
        &engine("proxy"),
    );
    assert_eq!(together(&class, &engine("c")), []);
}

#[test]
fn both_layers_may_have_settings_for_the_engine_container() {
    let class = json!({ "spec": { "containers": [{ "name": "engine", "image": "c" }] } });
    let engine = json!({ "spec": { "containers": [{ "name": "engine", "image": "e" }] } });
    assert_eq!(together(&class, &engine), []);
}

#[test]
fn a_volume_is_mounted_or_a_device_but_not_both() {
    let mounts = json!([{ "name": "v", "mountPath": "/x" }]);
    let devices = |name: &str, path: &str| json!([{ "name": name, "devicePath": path }]);
    let both = |devices: Value| {
        let engine = json!({ "name": "engine", "volumeMounts": mounts, "volumeDevices": devices });
        json!({ "spec": { "containers": [engine] } })
    };
    let place = "spec.containers[engine].volumeDevices[0].devicePath";
    let name = "spec.containers[engine].volumeDevices[0].name";
    rejects(&both(devices("w", "/x")), &[(place, ViolationKind::Duplicate, "at /x")]);
    rejects(
        &both(devices("v", "/y")),
        &[(name, ViolationKind::Duplicate, "for volume v")],
    );
    accepts(&both(devices("w", "/y")));

    let class = template("engine.volumeDevices", &devices("v", "/y"));
    let engine = template("engine.volumeMounts", &mounts);
    let path = "spec.containers[engine].volumeMounts[0].name";
    assert_rejected(
        &together(&class, &engine),
        "spec.template",
        &[(path, ViolationKind::Duplicate, "for volume v")],
        &engine,
    );
}

#[rstest]
#[case::data("/var/lib/firebolt", true)]
#[case::data_written_otherwise("/var/lib//firebolt/", true)]
#[case::config("/var/lib/firebolt/config.yaml", true)]
#[case::runtime("/run/firebolt", true)]
#[case::below("/var/lib/firebolt/cache", false)]
#[case::above("/var/lib", false)]
#[case::beside("/var/lib/firebolt2", false)]
fn where_the_operator_mounts_its_volumes_nothing_else_is(#[case] path: &str, #[case] refused: bool) {
    let mount = template("engine.volumeMounts", &json!([{ "name": "v", "mountPath": path }]));
    let device = template("engine.volumeDevices", &json!([{ "name": "v", "devicePath": path }]));
    if refused {
        let says = "The operator mounts its own volume at /";
        let mount_path = "spec.containers[engine].volumeMounts[0].mountPath";
        rejects(&mount, &[(mount_path, ViolationKind::Forbidden, says)]);
        let device_path = "spec.containers[engine].volumeDevices[0].devicePath";
        rejects(&device, &[(device_path, ViolationKind::Forbidden, says)]);
    } else {
        accepts(&mount);
        accepts(&device);
    }
    accepts(
        &json!({ "spec": { "containers": [{ "name": "proxy", "volumeMounts": [{ "name": "v", "mountPath": path }] }] } }),
    );
}

#[rstest]
#[case::same(json!({ "hostPort": 99 }), json!({ "hostPort": 99, "protocol": "TCP" }), Some("99/TCP"))]
#[case::same_address(json!({ "hostPort": 99, "hostIP": "10.0.0.1" }), json!({ "hostPort": 99, "hostIP": "10.0.0.1" }), Some("99/TCP of 10.0.0.1"))]
#[case::other_address(json!({ "hostPort": 99 }), json!({ "hostPort": 99, "hostIP": "10.0.0.1" }), None)]
#[case::other_protocol(json!({ "hostPort": 99 }), json!({ "hostPort": 99, "protocol": "UDP" }), None)]
#[case::none(json!({}), json!({}), None)]
#[case::zero(json!({ "hostPort": 0 }), json!({ "hostPort": 0 }), None)]
fn a_port_of_a_node_is_for_one_container(#[case] first: Value, #[case] second: Value, #[case] refused: Option<&str>) {
    let container = |name: &str, port: &Value| {
        let mut port = port.clone();
        port["containerPort"] = json!(99);
        json!({ "name": name, "ports": [port] })
    };
    let of = |containers: &[Value]| json!({ "spec": { "containers": containers } });
    let both = of(&[container("a", &first), container("b", &second)]);
    let (class, engine) = (of(&[container("a", &first)]), of(&[container("b", &second)]));
    if let Some(port) = refused {
        let says = format!("a container on host port {port}");
        let expected = [(
            "spec.containers[b].ports[0].hostPort",
            ViolationKind::Duplicate,
            says.as_str(),
        )];
        rejects(&both, &expected);
        assert_rejected(&together(&class, &engine), "spec.template", &expected, &engine);
    } else {
        accepts(&both);
        assert_eq!(together(&class, &engine), []);
    }
}
