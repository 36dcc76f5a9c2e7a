//! Pairs of a class and an engine. Most are nearly valid: they have a mistake or two, or conflict with each other or with
//! what belongs to the operator.

mod container;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use self::container::{container, engine_fields, init_fields, sidecar_fields};
use crate::admitted_objects::schema::{Bytes, Choose, SCHEMA, any_template, sample};

/// One mistake in so many places where there could be one.
const MISTAKES: usize = 24;
/// Names of volumes, also of those that the operator brings.
const VOLUMES: [&str; 7] = ["cache", "logs", "shared", "scratch", "data", "runtime", "nodes-config"];
const SIDECARS: [&str; 5] = ["proxy", "shipper", "watcher", "warm-up", "engine-web"];

/// The specifications of a class and of an engine of that class.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub class: Value,
    pub engine: Value,
}

/// Any pair.
pub(super) fn pairs() -> impl Strategy<Value = Pair> {
    (specification(), specification()).prop_map(|(class, mut engine)| {
        engine["instanceRef"] = json!(crate::admitted_objects::testenv::INSTANCE);
        engine["replicas"] = json!(1);
        Pair { class, engine }
    })
}

fn specification() -> impl Strategy<Value = Value> {
    let template = prop_oneof![1 => any_template(), 7 => drawn(template)];
    (template, drawn(storage), prop::option::of(any::<bool>())).prop_map(|(template, storage, ui)| {
        let mut specification = json!({ "template": template, "storage": storage });
        if let Some(ui) = ui {
            specification["uiSidecar"] = json!(ui);
        }
        specification
    })
}

/// What the function makes of random choices; the fewer of them, the less.
fn drawn(draw: fn(&mut Bytes) -> Value) -> impl Strategy<Value = Value> {
    prop::collection::vec(any::<u8>(), 0..160).prop_map(move |bytes| draw(&mut Bytes(bytes.into_iter())))
}

/// One in so many times, and never where the choices have come to an end.
fn one_in(count: usize, choose: &mut Bytes) -> bool {
    choose.below(count) == count - 1
}

fn mistake(choose: &mut Bytes) -> bool {
    one_in(MISTAKES, choose)
}

/// One of the good values, or by mistake one of the bad ones.
fn pick(choose: &mut Bytes, good: &[Value], bad: &[Value]) -> Value {
    let values = if mistake(choose) { bad } else { good };
    values[choose.below(values.len())].clone()
}

/// Some of the fields, each with one of its good values or by mistake with one of its bad ones.
fn some_of(choose: &mut Bytes, into: &mut Map<String, Value>, fields: &[(&str, Value, Value)]) {
    for (name, good, bad) in fields {
        if one_in(8, choose) {
            let values = |values: &Value| values.as_array().expect("a list of values").clone();
            into.insert((*name).to_owned(), pick(choose, &values(good), &values(bad)));
        }
    }
}

/// Entries that mostly have different names, each made by `make`.
fn entries(choose: &mut Bytes, names: &[&str], make: fn(&mut Bytes, &str) -> Value) -> Vec<Value> {
    let mut entries = Vec::new();
    for name in names {
        if one_in(5, choose) {
            entries.push(make(choose, name));
        }
    }
    if mistake(choose)
        && let Some(first) = entries.first()
    {
        entries.push(first.clone());
    }
    entries
}

/// By mistake, any field of the schema with any value that the schema allows.
fn strange(choose: &mut Bytes, schema: &Value, into: &mut Map<String, Value>) {
    if one_in(4, choose) {
        let fields = schema["properties"].as_object().expect("an object");
        let (name, field) = fields
            .iter()
            .nth(choose.below(fields.len()))
            .expect("one of the fields");
        into.insert(name.clone(), sample(field, choose));
    }
}

fn template(choose: &mut Bytes) -> Value {
    let mut pod = pod_fields(choose);
    // The volumes of the operator may be there, but come to nothing.
    let usual = if mistake(choose) { VOLUMES.len() } else { 4 };
    let volumes = entries(choose, &VOLUMES[..usual], volume);
    let named = |list: &[Value]| -> Vec<String> {
        let names = list.iter().filter_map(|entry| entry["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let known = named(&volumes);
    let mut containers = Vec::new();
    if one_in(2, choose) {
        containers.push(container(choose, "engine", &known, engine_fields));
    }
    let mut free = SIDECARS[..if mistake(choose) { 5 } else { 4 }].to_vec();
    for _ in 0..choose.below(3) {
        let name = if mistake(choose) {
            free[0]
        } else {
            free.remove(choose.below(free.len()))
        };
        containers.push(container(choose, name, &known, sidecar_fields));
    }
    let mut before = Vec::new();
    if one_in(4, choose) {
        let name = if mistake(choose) {
            "engine"
        } else {
            free[choose.below(free.len())]
        };
        before.push(container(choose, name, &known, init_fields));
    }
    for (list, entries) in [
        ("volumes", volumes),
        ("containers", containers),
        ("initContainers", before),
    ] {
        if !entries.is_empty() {
            pod.insert(list.to_owned(), entries.into());
        }
    }
    strange(choose, &SCHEMA["properties"]["spec"], &mut pod);
    json!({ "metadata": metadata(choose), "spec": pod })
}

fn metadata(choose: &mut Bytes) -> Value {
    let mut metadata = Map::new();
    let keys = |value: &str| json!([{ "team": value }, { "example.com/tier": value }]);
    let reserved = format!("{}x", firebolt_api::key::RESERVED_PREFIX);
    let bad = json!([{ &reserved: "v" }, { "not a key": "v" }, { "team": "not a value!" }, { "a/b/c": "v" }]);
    let bad_notes = json!([{ &reserved: "v" }, { "not a key": "v" }, { "a/b/c": "v" }]);
    some_of(
        choose,
        &mut metadata,
        &[
            ("labels", keys("sales"), bad),
            ("annotations", keys("any text: \u{1f525}"), bad_notes),
        ],
    );
    Value::Object(metadata)
}

/// Fields of the pod itself.
fn pod_fields(choose: &mut Bytes) -> Map<String, Value> {
    let mut pod = Map::new();
    let selector = json!({ "matchLabels": { "a": "b" } });
    let spread = |key: &str, skew: i32, when: &str| json!([{ "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector }]);
    let affinity = |weight: i32, operator: &str| {
        let expression = json!({ "key": "zone", "operator": operator, "values": ["a"] });
        json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": weight, "preference": { "matchExpressions": [expression] } },
        ] } })
    };
    some_of(
        choose,
        &mut pod,
        &[
            (
                "tolerations",
                json!([[{ "key": "a", "operator": "Exists" }], [{ "key": "b", "value": "c", "effect": "NoSchedule" }]]),
                json!([[{ "operator": "Equal" }], [{ "key": "a", "operator": "Exists", "value": "c" }], [{ "key": "a", "effect": "Never" }], [{ "key": "a", "tolerationSeconds": 1 }]]),
            ),
            (
                "nodeSelector",
                json!([{ "disk": "fast" }]),
                json!([{ "disk": "not a value!" }, { "": "v" }]),
            ),
            (
                "affinity",
                json!([affinity(1, "In"), affinity(100, "NotIn")]),
                json!([affinity(0, "In"), affinity(1, "Near")]),
            ),
            (
                "topologySpreadConstraints",
                json!([spread("zone", 1, "DoNotSchedule"), spread("host", 2, "ScheduleAnyway")]),
                json!([
                    spread("zone", 0, "DoNotSchedule"),
                    spread("", 1, "DoNotSchedule"),
                    spread("zone", 1, "Maybe")
                ]),
            ),
            ("serviceAccountName", json!(["reader"]), json!(["Not_A_Name"])),
            ("priorityClassName", json!(["high"]), json!(["Not_A_Name"])),
            ("schedulerName", json!(["other"]), json!(["Not_A_Name", ""])),
            ("runtimeClassName", json!(["gvisor"]), json!(["Not_A_Name"])),
            (
                "imagePullSecrets",
                json!([[{ "name": "pull" }]]),
                json!([[{ "name": "" }], [{}]]),
            ),
            (
                "dnsPolicy",
                json!(["Default", "ClusterFirst"]),
                json!(["None", "Sometimes"]),
            ),
            (
                "dnsConfig",
                json!([{ "searches": ["a.b"] }]),
                json!([{ "nameservers": ["not an address"] }, { "searches": ["_"] }]),
            ),
            (
                "hostAliases",
                json!([[{ "ip": "10.0.0.1", "hostnames": ["a"] }]]),
                json!([[{ "ip": "10.0.0.256", "hostnames": ["a"] }], [{ "ip": "10.0.0.1", "hostnames": ["A_"] }]]),
            ),
            (
                "securityContext",
                json!([{ "fsGroup": 1000 }, { "runAsNonRoot": true, "runAsUser": 7 }, { "seccompProfile": { "type": "RuntimeDefault" } }]),
                json!([{ "fsGroup": -1 }, { "runAsUser": -1 }, { "seccompProfile": { "type": "Localhost" } }, { "sysctls": [{ "name": "A B", "value": "1" }] }, { "fsGroupChangePolicy": "Never" }]),
            ),
            ("automountServiceAccountToken", json!([false, true]), json!([false])),
            ("preemptionPolicy", json!(["Never"]), json!(["Perhaps"])),
            (
                "readinessGates",
                json!([[{ "conditionType": "example.com/up" }]]),
                json!([[{ "conditionType": "not a type" }]]),
            ),
            (
                "resourceClaims",
                json!([[{ "name": "gpu", "resourceClaimName": "g" }]]),
                json!([[{ "name": "gpu" }], [{ "name": "G_" , "resourceClaimName": "g" }]]),
            ),
            (
                "schedulingGates",
                json!([[{ "name": "example.com/wait" }]]),
                json!([[{ "name": "not a name" }]]),
            ),
            (
                "os",
                json!([{ "name": "linux" }]),
                json!([{ "name": "windows" }, { "name": "beos" }]),
            ),
            ("overhead", json!([{}]), json!([{ "cpu": "1" }])),
            ("nodeName", json!(["n1"]), json!(["Not_A_Name"])),
            ("setHostnameAsFQDN", json!([false]), json!([true])),
            ("terminationGracePeriodSeconds", json!([null]), json!([5])),
            ("hostNetwork", json!([null]), json!([true])),
        ],
    );
    pod.retain(|_, value| !value.is_null());
    pod
}

fn volume(choose: &mut Bytes, name: &str) -> Value {
    let token = |seconds: i32| json!({ "serviceAccountToken": { "path": "token", "expirationSeconds": seconds } });
    let good = [
        json!({ "emptyDir": {} }),
        json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1Gi" } }),
        json!({ "configMap": { "name": "settings" } }),
        json!({ "secret": { "secretName": "keys", "defaultMode": 256 } }),
        json!({ "persistentVolumeClaim": { "claimName": "claim" } }),
        json!({ "hostPath": { "path": "/srv" } }),
        json!({ "projected": { "sources": [token(3600)] } }),
        json!({ "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } }),
        json!({ "csi": { "driver": "driver.example.com" } }),
    ];
    let bad = [
        json!({ "emptyDir": {}, "configMap": { "name": "settings" } }),
        json!({ "emptyDir": { "medium": "Paper" , "sizeLimit": "1e99" } }),
        json!({ "configMap": { "name": "settings", "items": [{ "key": "k", "path": "../up" }] } }),
        json!({ "secret": { "secretName": "keys", "defaultMode": 1024 } }),
        json!({ "secret": { "secretName": format!("{}-metadata-postgres-creds", crate::admitted_objects::testenv::INSTANCE) } }),
        json!({ "persistentVolumeClaim": { "claimName": "" } }),
        json!({ "hostPath": { "path": "/a/../b", "type": "Odd" } }),
        json!({ "projected": { "sources": [token(1)] } }),
        json!({ "nfs": { "server": "s", "path": "relative" } }),
    ];
    let mut volume = pick(choose, &good, &bad);
    volume["name"] = if mistake(choose) {
        json!("Not_A_Name")
    } else {
        json!(name)
    };
    volume
}

fn storage(choose: &mut Bytes) -> Value {
    let good = [
        json!({}),
        json!({ "emptyDir": {} }),
        json!({ "emptyDir": { "sizeLimit": "2Gi" } }),
        json!({ "persistentVolumeClaim": { "size": "10Gi" } }),
        json!({ "persistentVolumeClaim": { "size": "10Gi", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"] } }),
        json!({ "hostPath": { "path": "/srv/data" } }),
    ];
    let bad = [
        json!({ "persistentVolumeClaim": { "size": "0" } }),
        json!({ "persistentVolumeClaim": { "size": "10Gi", "storageClassName": "Not_A_Name" } }),
        json!({ "persistentVolumeClaim": { "size": "10Gi", "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"] } }),
        json!({ "emptyDir": { "sizeLimit": "1n" } }),
        json!({ "hostPath": { "path": "/srv/../data" } }),
    ];
    pick(choose, &good, &bad)
}
