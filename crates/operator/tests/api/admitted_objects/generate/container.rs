//! Containers: that of the engine, and sidecars.

use serde_json::{Map, Value, json};

use super::{entries, mistake, one_in, pick, some_of, strange};
use crate::admitted_objects::schema::{Bytes, Choose, SCHEMA};

/// Places to mount them, also some where the operator mounts its own.
const PLACES: [&str; 8] = [
    "/cache",
    "/logs",
    "/shared",
    "/scratch",
    "/var/lib/firebolt",
    "/var/lib/firebolt/cache",
    "/run/firebolt",
    "/cache/",
];
const VARIABLES: [&str; 5] = ["LEVEL", "REGION", "TOKEN", "POD_INDEX", "lower.case-1"];

pub(super) fn container(
    choose: &mut Bytes,
    name: &str,
    volumes: &[String],
    more: fn(&mut Bytes, &mut Map<String, Value>),
) -> Value {
    let mut container = Map::new();
    container.insert("name".to_owned(), json!(name));
    let limits = |cpu: &str, memory: &str| json!({ "limits": { "cpu": cpu, "memory": memory } });
    some_of(
        choose,
        &mut container,
        &[
            (
                "resources",
                json!([limits("2", "1Gi"), limits("500m", "1.5Gi"), { "requests": { "cpu": "1" } }]),
                json!([limits("64", "1Gi"), { "requests": { "cpu": "2" }, "limits": { "cpu": "1" } }, { "limits": { "gold": "1" } }, { "claims": [{ "name": "gpu" }] }, { "limits": { "example.com/gpu": "0.5" } }, limits("1e99", "1n")]),
            ),
            (
                "envFrom",
                json!([[{ "configMapRef": { "name": "settings" } }]]),
                json!([[{}], [{ "prefix": "a=b", "configMapRef": { "name": "s" } }]]),
            ),
            (
                "imagePullPolicy",
                json!(["Always", "IfNotPresent"]),
                json!(["Sometimes"]),
            ),
            (
                "securityContext",
                json!([{ "runAsNonRoot": true }, { "capabilities": { "drop": ["ALL"] } }, { "readOnlyRootFilesystem": true }]),
                json!([{ "runAsUser": -1 }, { "privileged": true, "allowPrivilegeEscalation": false }, { "procMount": "Other" }]),
            ),
            ("terminationMessagePolicy", json!(["File"]), json!(["Mail"])),
            ("workingDir", json!(["/srv"]), json!(["relative"])),
        ],
    );
    let usual = if mistake(choose) { VARIABLES.len() } else { 3 };
    let variables = entries(choose, &VARIABLES[..usual], variable);
    let mut mounts = Vec::new();
    for (index, volume) in volumes.iter().enumerate().filter(|(_, name)| *name != "data") {
        if one_in(2, choose) {
            let place = if mistake(choose) {
                choose.below(PLACES.len())
            } else {
                index % 4
            };
            mounts.push(mount(choose, volume, PLACES[place]));
        }
    }
    if mistake(choose) {
        mounts.push(mount(choose, "elsewhere", "/elsewhere"));
    }
    for (list, entries) in [("env", variables), ("volumeMounts", mounts)] {
        if !entries.is_empty() {
            container.insert(list.to_owned(), entries.into());
        }
    }
    more(choose, &mut container);
    strange(
        choose,
        &SCHEMA["properties"]["spec"]["properties"]["containers"]["items"],
        &mut container,
    );
    Value::Object(container)
}

fn mount(choose: &mut Bytes, volume: &str, place: &str) -> Value {
    let good = [
        json!({}),
        json!({ "readOnly": true }),
        json!({ "subPath": "below" }),
        json!({ "subPathExpr": "$(LEVEL)" }),
        json!({ "mountPropagation": "HostToContainer" }),
    ];
    let bad = [
        json!({ "subPath": "../up" }),
        json!({ "subPath": "a", "subPathExpr": "b" }),
        json!({ "mountPropagation": "Bidirectional" }),
        json!({ "recursiveReadOnly": "Enabled" }),
    ];
    let mut mount = pick(choose, &good, &bad);
    mount["name"] = json!(volume);
    mount["mountPath"] = if mistake(choose) { json!("/a:b") } else { json!(place) };
    mount
}

fn variable(choose: &mut Bytes, name: &str) -> Value {
    let from = |source: &str, key: &str| json!({ "valueFrom": { source: { "name": "settings", "key": key } } });
    let good = [
        json!({ "value": "text" }),
        json!({}),
        from("configMapKeyRef", "k"),
        from("secretKeyRef", "k"),
        json!({ "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
        json!({ "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "1" } } }),
    ];
    let bad = [
        json!({ "value": "text", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }),
        from("configMapKeyRef", "not a key"),
        json!({ "valueFrom": {} }),
        json!({ "valueFrom": { "fieldRef": { "fieldPath": "spec.containers" } } }),
        json!({ "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "3" } } }),
    ];
    let mut variable = pick(choose, &good, &bad);
    variable["name"] = if mistake(choose) { json!("a=b") } else { json!(name) };
    variable
}

pub(super) fn engine_fields(choose: &mut Bytes, container: &mut Map<String, Value>) {
    some_of(
        choose,
        container,
        &[
            ("image", json!(["engine:2"]), json!([" ", " engine:2"])),
            (
                "lifecycle",
                json!([{ "preStop": { "exec": { "command": ["true"] } } }]),
                json!([{ "preStop": {} }, { "preStop": { "exec": { "command": [] } } }, { "stopSignal": "SIGTERM" }]),
            ),
            (
                "resizePolicy",
                json!([[{ "resourceName": "cpu", "restartPolicy": "NotRequired" }]]),
                json!([[{ "resourceName": "gold", "restartPolicy": "NotRequired" }]]),
            ),
        ],
    );
    if mistake(choose) {
        container.insert("command".to_owned(), json!(["true"]));
    }
}

pub(super) fn sidecar_fields(choose: &mut Bytes, container: &mut Map<String, Value>) {
    if !mistake(choose) {
        container.insert("image".to_owned(), json!("sidecar:1"));
    }
    let probe = |seconds: i32, port: i32| json!({ "periodSeconds": seconds, "httpGet": { "path": "/", "port": port } });
    let port = |number: i32, name: &str| json!([{ "containerPort": number, "name": name, "protocol": "TCP" }]);
    some_of(
        choose,
        container,
        &[
            ("command", json!([["run"]]), json!([[]])),
            ("args", json!([["--now"]]), json!([[]])),
            (
                "ports",
                json!([port(9000, "nine"), port(9001, "ten"), [{ "containerPort": 3473 }]]),
                json!([port(0, "nine"), port(70_000, "nine"), port(9000, "a-name-that-is-too-long"), [{ "containerPort": 1, "hostPort": 70_000 }], [{ "containerPort": 1, "protocol": "ICMP" }]]),
            ),
            (
                "livenessProbe",
                json!([probe(5, 80), { "exec": { "command": ["true"] } }]),
                json!([probe(-1, 80), probe(5, 0), {}, { "tcpSocket": { "port": "a b" } }]),
            ),
            (
                "readinessProbe",
                json!([probe(5, 80)]),
                json!([{ "successThreshold": -1, "tcpSocket": { "port": 1 } }]),
            ),
            (
                "startupProbe",
                json!([{ "grpc": { "port": 80 } }]),
                json!([{ "successThreshold": 2, "grpc": { "port": 80 } }]),
            ),
        ],
    );
}

pub(super) fn init_fields(choose: &mut Bytes, container: &mut Map<String, Value>) {
    if !mistake(choose) {
        container.insert("image".to_owned(), json!("sidecar:1"));
    }
    some_of(
        choose,
        container,
        &[
            ("restartPolicy", json!(["Always"]), json!(["Never", "Odd"])),
            ("command", json!([["run"]]), json!([[]])),
        ],
    );
    if mistake(choose) {
        container.insert("readinessProbe".to_owned(), json!({ "tcpSocket": { "port": 1 } }));
    }
}
