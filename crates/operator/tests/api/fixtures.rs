//! The manifests of the tests, each as short as what it is about: `engine("a").replicas(3).class("c")`.

use firebolt_api::{
    AutoStop, ExternalPostgres, FireboltEngine, FireboltEngineClass, FireboltEngineClassSpec, FireboltEngineSpec,
    FireboltInstance, FireboltInstanceSpec, MetadataSpec, ScheduleWindow, SecretReference,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::{Value, json};

/// The instance that engines of tests belong to.
pub(crate) const INSTANCE: &str = "i";
/// The id of that instance.
pub(crate) const INSTANCE_ID: &str = "01J00000000000000000000000";
/// Where the metadata service of engines is said to be.
pub(crate) const METADATA_ENDPOINT: &str = "i-metadata.example:7000";
/// The image of engines, unless a test says otherwise.
pub(crate) const IMAGE: &str = "registry.example/engine:1";

/// An engine of one replica that is drained quickly.
pub(crate) fn engine(name: &str) -> Engine {
    let spec = FireboltEngineSpec {
        instance_ref: INSTANCE.to_owned(),
        replicas: 1,
        drain_check_interval: Some(seconds(1)),
        metadata_endpoint_override: Some(METADATA_ENDPOINT.to_owned()),
        ..FireboltEngineSpec::default()
    };
    Engine(FireboltEngine::new(name, spec)).image(IMAGE)
}

/// A class that decides nothing.
pub(crate) fn class(name: &str) -> Class {
    Class(FireboltEngineClass::new(name, FireboltEngineClassSpec::default()))
}

/// An instance that has its id and nothing else: nothing is made for it, because the credentials of its database never
/// come. Engines of tests know their metadata service by themselves, so they do not need more.
pub(crate) fn instance(name: &str) -> FireboltInstance {
    let postgres = ExternalPostgres {
        host: "database.example".to_owned(),
        port: 5432,
        database: "metadata".to_owned(),
        schema: "public".to_owned(),
        credentials_secret_ref: SecretReference {
            name: "never-there".to_owned(),
        },
    };
    let spec = FireboltInstanceSpec {
        id: Some(INSTANCE_ID.to_owned()),
        metadata: MetadataSpec {
            postgres: Some(postgres),
            ..MetadataSpec::default()
        },
        ..FireboltInstanceSpec::default()
    };
    FireboltInstance::new(name, spec)
}

/// A policy that keeps `active` replicas and stops the engine after the shortest idle time there is.
pub(crate) fn quick_to_stop(active: i32) -> AutoStop {
    AutoStop {
        enabled: true,
        active_replicas: active,
        idle_replicas: 0,
        idle_timeout: seconds(1),
        poll_interval: seconds(1),
        schedule: Vec::new(),
    }
}

/// A policy that keeps `active` replicas and never finds the engine idle while a test runs.
pub(crate) fn slow_to_stop(active: i32) -> AutoStop {
    AutoStop {
        idle_timeout: seconds(3600),
        ..quick_to_stop(active)
    }
}

/// A window of ten minutes that closes at the first full minute that is at least this far away, and when that is.
pub(crate) fn closing_after(at_least: SignedDuration) -> (ScheduleWindow, Timestamp) {
    let minutes = (Timestamp::now() + at_least).as_second() / 60 + 1;
    let at = |minutes: i64| Timestamp::from_second(minutes * 60).expect("a time of our days");
    let (start, end) = (at(minutes - 10), at(minutes));
    let clock = |time: Timestamp| time.strftime("%H:%M").to_string();
    let window = ScheduleWindow {
        start: clock(start),
        end: clock(end),
        days: Vec::new(),
    };
    (window, end)
}

/// A window that is open all day, every day.
pub(crate) fn always_open() -> ScheduleWindow {
    ScheduleWindow {
        start: "00:00".to_owned(),
        end: "24:00".to_owned(),
        days: Vec::new(),
    }
}

/// A sidecar as users write it: what the API server fills in is left out. It passes the `restricted` standard.
pub(crate) fn sparse_sidecar() -> Container {
    let sidecar = json!({
        "name": "side", "image": "registry.example/side",
        "ports": [{ "containerPort": 8080 }],
        "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }, { "name": "EMPTY" }],
        "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
        "readinessProbe": { "httpGet": { "port": 8080 } },
        "livenessProbe": { "tcpSocket": { "port": 8080 } },
        "lifecycle": { "preStop": { "httpGet": { "port": 8080 } } },
        "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": { "drop": ["ALL"] },
        },
    });
    serde_json::from_value(sidecar).expect("a container")
}

/// A StatefulSet of a user, as far as a test of the node itself needs one.
pub(crate) fn stateful_set(name: &str, replicas: i32) -> StatefulSet {
    let context = json!({
        "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let container = |name: &str| json!({ "name": name, "image": IMAGE, "securityContext": context });
    let set = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "initContainers": [container("init")], "containers": [container("engine"), container("side")],
                },
            },
        },
    });
    serde_json::from_value(set).expect("a StatefulSet")
}

fn seconds(count: u64) -> firebolt_api::Duration {
    format!("{count}s").parse().expect("a duration")
}

/// An engine in the making.
#[derive(Clone, Debug)]
pub(crate) struct Engine(pub FireboltEngine);

impl Engine {
    pub(crate) fn replicas(mut self, replicas: i32) -> Self {
        self.0.spec.replicas = replicas;
        self
    }

    pub(crate) fn class(mut self, name: &str) -> Self {
        self.0.spec.engine_class_ref = Some(name.to_owned());
        self
    }

    pub(crate) fn auto_stop(mut self, policy: AutoStop) -> Self {
        self.0.spec.auto_stop = Some(policy);
        self
    }

    /// Leaves the drain to the class.
    pub(crate) fn drain_from_class(mut self) -> Self {
        self.0.spec.drain_check_interval = None;
        self
    }

    pub(crate) fn image(mut self, image: &str) -> Self {
        let container = Container {
            name: "engine".to_owned(),
            image: Some(image.to_owned()),
            ..Container::default()
        };
        let containers = &mut self.template().spec.get_or_insert_default().containers;
        containers.retain(|container| container.name != "engine");
        containers.insert(0, container);
        self
    }

    pub(crate) fn sidecar(mut self, sidecar: Container) -> Self {
        self.template().spec.get_or_insert_default().containers.push(sidecar);
        self
    }

    pub(crate) fn pod_label(mut self, key: &str, value: &str) -> Self {
        let labels = &mut self.template().metadata.get_or_insert_default().labels;
        labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    fn template(&mut self) -> &mut PodTemplateSpec {
        self.0.spec.template.get_or_insert_default()
    }
}

/// A class in the making.
#[derive(Clone, Debug)]
pub(crate) struct Class(pub FireboltEngineClass);

impl Class {
    pub(crate) fn pod_label(mut self, key: &str, value: &str) -> Self {
        let labels = &mut self.0.spec.template.metadata.get_or_insert_default().labels;
        labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a command, which belongs to the operator.
    pub(crate) fn bad(mut self) -> Self {
        let container = Container {
            name: "engine".to_owned(),
            command: Some(vec!["sh".to_owned()]),
            ..Container::default()
        };
        self.0.spec.template.spec.get_or_insert_default().containers = vec![container];
        self
    }

    pub(crate) fn drain_interval(mut self, count: u64) -> Self {
        self.0.spec.drain_check_interval = Some(seconds(count));
        self
    }
}

/// The edit of an engine that gives it another image.
pub(crate) fn new_image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "engine", "image": image }] } } } })
}

/// The edit of an engine that gives it another size.
pub(crate) fn new_replicas(replicas: i32) -> Value {
    json!({ "spec": { "replicas": replicas } })
}
