//! Every rule as a sentence, with an object that violates it: an overview of admission.

use super::*;

/// An engine without a class.
fn engine_alone(template: &Value) -> FireboltEngine {
    let mut engine = fixture::engine(template);
    engine.spec.engine_class_ref = None;
    engine
}

/// Violations of the template in an engine of an instance with an external database.
fn of_engine(template: &Value) -> Vec<Violation> {
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "own-database" } });
    let instance = fixture::instance(&json!({ "postgres": postgres }), &json!({}));
    let around = EngineContext {
        class: ClassLookup::NotNamed,
        instance: Some(&instance),
        bounds: &Bounds {
            cpu: "4".parse().expect("a maximum"),
            ..Bounds::default()
        },
    };
    super::super::engine(&engine_alone(template), &around)
}

fn of_class(template: &Value) -> Vec<Violation> {
    engine_class(&fixture::engine_class(template))
}

fn of_pair(class: &Value, engine: &Value) -> Vec<Violation> {
    engine_with_class(&fixture::engine(engine), &fixture::engine_class(class), None)
}

fn of_metadata(metadata: &Value) -> Vec<Violation> {
    super::super::instance(&fixture::instance(metadata, &json!({})))
}

fn of_gateway(gateway: &Value) -> Vec<Violation> {
    super::super::instance(&fixture::instance(&json!({}), gateway))
}

fn assert_broken(violations: &[Violation], path: &str, kind: ViolationKind) {
    let places: Vec<(&str, ViolationKind)> = violations.iter().map(|one| (one.path.as_str(), one.kind)).collect();
    assert_eq!(places, [(path, kind)]);
}

/// A key that is reserved for the operator.
fn key() -> String {
    format!("{}x", firebolt_api::key::RESERVED_PREFIX)
}

/// A template with this field of the pod.
fn pod(field: &str, value: &Value) -> Value {
    json!({ "spec": { field: value } })
}

/// A template with this field of the container.
fn container(name: &str, field: &str, value: &Value) -> Value {
    json!({ "spec": { "containers": [{ "name": name, field: value }] } })
}

#[rstest]
#[case::of_the_metadata_only_labels_and_annotations_can_be_set(json!({ "metadata": { "name": "n" } }), "metadata.name", ViolationKind::Forbidden)]
#[case::labels_with_the_prefix_of_the_operator_are_its_own(json!({ "metadata": { "labels": { key(): "v" } } }), "metadata.labels[firebolt.io/x]", ViolationKind::Forbidden)]
#[case::annotations_with_the_prefix_of_the_operator_are_its_own(json!({ "metadata": { "annotations": { key(): "v" } } }), "metadata.annotations[firebolt.io/x]", ViolationKind::Forbidden)]
#[case::the_operator_decides_how_long_pods_take_to_stop(pod("terminationGracePeriodSeconds", &json!(0)), "spec.terminationGracePeriodSeconds", ViolationKind::Forbidden)]
#[case::the_operator_decides_how_long_pods_run(pod("activeDeadlineSeconds", &json!(0)), "spec.activeDeadlineSeconds", ViolationKind::Forbidden)]
#[case::pods_are_found_by_the_names_that_the_operator_gives_them(pod("subdomain", &json!("s")), "spec.subdomain", ViolationKind::Forbidden)]
#[case::pods_are_always_restarted(pod("restartPolicy", &json!("Always")), "spec.restartPolicy", ViolationKind::Forbidden)]
#[case::pods_do_not_share_the_namespaces_of_their_nodes(pod("hostNetwork", &json!(true)), "spec.hostNetwork", ViolationKind::Forbidden)]
#[case::the_operator_decides_what_containers_share(pod("shareProcessNamespace", &json!(false)), "spec.shareProcessNamespace", ViolationKind::Forbidden)]
#[case::the_operator_decides_about_users_on_nodes(pod("hostUsers", &json!(false)), "spec.hostUsers", ViolationKind::Forbidden)]
#[case::no_service_adds_variables(pod("enableServiceLinks", &json!(true)), "spec.enableServiceLinks", ViolationKind::Forbidden)]
#[case::no_pod_starts_with_ephemeral_containers(pod("ephemeralContainers", &json!([{ "name": "e" }])), "spec.ephemeralContainers", ViolationKind::Forbidden)]
#[case::the_account_goes_by_its_name_of_today(pod("serviceAccount", &json!("a")), "spec.serviceAccount", ViolationKind::Forbidden)]
#[case::the_operator_starts_the_engine(container("engine", "command", &json!(["c"])), "spec.containers[engine].command", ViolationKind::Forbidden)]
#[case::the_operator_watches_the_engine(container("engine", "livenessProbe", &json!({})), "spec.containers[engine].livenessProbe", ViolationKind::Forbidden)]
#[case::the_engine_reads_no_terminal(container("engine", "tty", &json!(true)), "spec.containers[engine].tty", ViolationKind::Forbidden)]
#[case::variables_of_the_operator_are_its_own(container("engine", "env", &json!([{ "name": "POD_INDEX" }])), "spec.containers[engine].env[0].name", ViolationKind::Forbidden)]
#[case::volumes_of_the_operator_are_mounted_by_it(container("engine", "volumeMounts", &json!([{ "name": "data", "mountPath": "/d" }])), "spec.containers[engine].volumeMounts[0].name", ViolationKind::Forbidden)]
#[case::volumes_of_the_operator_are_no_devices(container("proxy", "volumeDevices", &json!([{ "name": "data", "devicePath": "/d" }])), "spec.containers[proxy].volumeDevices[0].name", ViolationKind::Forbidden)]
#[case::an_engine_is_one_container(json!({ "spec": { "containers": [{ "name": "engine" }, { "name": "engine" }] } }), "spec.containers[1].name", ViolationKind::Duplicate)]
#[case::the_container_of_the_web_ui_is_the_operators(container("engine-web", "image", &json!("i")), "spec.containers[engine-web].name", ViolationKind::Forbidden)]
#[case::no_init_container_is_called_engine(json!({ "spec": { "initContainers": [{ "name": "engine" }] } }), "spec.initContainers[engine].name", ViolationKind::Forbidden)]
#[case::containers_have_different_names(json!({ "spec": { "containers": [{ "name": "a" }], "initContainers": [{ "name": "a" }] } }), "spec.initContainers[a].name", ViolationKind::Duplicate)]
#[case::what_pods_have_once_is_checked_once(pod("schedulingGates", &json!([{ "name": "g" }, { "name": "g" }])), "spec.schedulingGates[1].name", ViolationKind::Duplicate)]
fn engines_and_classes(#[case] template: Value, #[case] path: &str, #[case] kind: ViolationKind) {
    let path = format!("spec.template.{path}");
    assert_broken(&of_engine(&template), &path, kind);
    assert_broken(&of_class(&template), &path, kind);
}

#[rstest]
#[case::places_of_the_operator_are_taken(json!({ "spec": {
    "volumes": [{ "name": "v", "emptyDir": {} }],
    "containers": [{ "name": "engine", "volumeMounts": [{ "name": "v", "mountPath": "/var/lib/firebolt" }] }],
} }), "spec.template.spec.containers[engine].volumeMounts[0].mountPath", ViolationKind::Forbidden)]
#[case::a_volume_that_is_mounted_exists(container("proxy", "volumeMounts", &json!([{ "name": "v", "mountPath": "/v" }])), "spec.template.spec.containers[proxy].volumeMounts[0].name", ViolationKind::NotFound)]
#[case::a_resource_claim_that_is_used_exists(container("engine", "resources", &json!({ "claims": [{ "name": "gpu" }] })), "spec.template.spec.containers[engine].resources.claims[0].name", ViolationKind::NotFound)]
#[case::no_volume_holds_credentials_of_the_operator(pod("volumes", &json!([{ "name": "s", "secret": { "secretName": "main-metadata-postgres-creds" } }])), "spec.template.spec.volumes[0].secret.secretName", ViolationKind::Forbidden)]
#[case::no_volume_holds_credentials_of_an_external_database(pod("volumes", &json!([{ "name": "s", "secret": { "secretName": "own-database" } }])), "spec.template.spec.volumes[0].secret.secretName", ViolationKind::Forbidden)]
#[case::no_variable_of_the_engine_does(container("engine", "env", &json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "own-database", "key": "k" } } }])), "spec.template.spec.containers[engine].env[0].valueFrom.secretKeyRef.name", ViolationKind::Forbidden)]
#[case::no_variables_of_a_sidecar_do(container("proxy", "envFrom", &json!([{ "secretRef": { "name": "own-database" } }])), "spec.template.spec.containers[proxy].envFrom[0].secretRef.name", ViolationKind::Forbidden)]
#[case::the_engine_container_keeps_within_the_bounds(container("engine", "resources", &json!({ "limits": { "cpu": 5 } })), "spec.template.spec.containers[engine].resources.limits.cpu", ViolationKind::Invalid)]
fn engines_in_their_surroundings(#[case] template: Value, #[case] path: &str, #[case] kind: ViolationKind) {
    assert_broken(&of_engine(&template), path, kind);
}

#[test]
fn engines_with_their_classes() {
    // The class exists.
    let engine = fixture::engine(&json!({}));
    assert_broken(
        &class_reference(&engine, &ClassLookup::Missing),
        "spec.engineClassRef",
        ViolationKind::NotFound,
    );
    // What a pod has only once is set by one of the two.
    let volume = pod("volumes", &json!([{ "name": "v", "emptyDir": {} }]));
    assert_broken(
        &of_pair(&volume, &volume),
        "spec.template.spec.volumes[0].name",
        ViolationKind::Duplicate,
    );
    // The class does not reach credentials for the engine.
    let secret = "main-metadata-postgres-creds";
    let reading = pod("volumes", &json!([{ "name": "s", "secret": { "secretName": secret } }]));
    assert_broken(
        &of_pair(&reading, &json!({})),
        "spec.engineClassRef",
        ViolationKind::Forbidden,
    );
    // It is not deleted below an engine.
    let engines = ["a".to_owned()];
    let refused: Vec<Violation> = engine_class_deletion("large", "n", &engines).into_iter().collect();
    assert_broken(&refused, "metadata.name", ViolationKind::Forbidden);
}

#[test]
fn instances() {
    // The metadata service is one pod.
    assert_broken(
        &of_metadata(&json!({ "replicas": 2 })),
        "spec.metadata.replicas",
        ViolationKind::Invalid,
    );
    // An external database has credentials.
    let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": "" } });
    let path = "spec.metadata.postgres.credentialsSecretRef.name";
    assert_broken(
        &of_metadata(&json!({ "postgres": postgres })),
        path,
        ViolationKind::Required,
    );
    // Of the components themselves, users choose image and resources.
    let template = container("metadata", "env", &json!([{ "name": "A" }]));
    let path = "spec.metadata.template.spec.containers[metadata].env";
    assert_broken(
        &of_metadata(&json!({ "template": template })),
        path,
        ViolationKind::Forbidden,
    );
    let template = container("envoy", "env", &json!([{ "name": "A" }]));
    let path = "spec.gateway.template.spec.containers[envoy].env";
    assert_broken(
        &of_gateway(&json!({ "template": template })),
        path,
        ViolationKind::Forbidden,
    );
    // The names of containers and volumes of the operator are its own.
    let template = container("wake-agent", "image", &json!("i"));
    let path = "spec.gateway.template.spec.containers[wake-agent].name";
    assert_broken(
        &of_gateway(&json!({ "template": template })),
        path,
        ViolationKind::Forbidden,
    );
    let template = pod("volumes", &json!([{ "name": "config" }]));
    let path = "spec.metadata.template.spec.volumes[0].name";
    assert_broken(
        &of_metadata(&json!({ "template": template })),
        path,
        ViolationKind::Forbidden,
    );
    // What holds a secret is closed to sidecars.
    let template = container(
        "proxy",
        "volumeMounts",
        &json!([{ "name": "postgres-creds", "mountPath": "/c" }]),
    );
    let path = "spec.metadata.template.spec.containers[proxy].volumeMounts[0].name";
    assert_broken(
        &of_metadata(&json!({ "template": template })),
        path,
        ViolationKind::Forbidden,
    );
    // The ports of the gateway do not meet.
    assert_broken(
        &of_gateway(&json!({ "metricsPort": 8080 })),
        "spec.gateway.metricsPort",
        ViolationKind::Invalid,
    );
    // Below engines, neither the instance goes nor its database.
    let engines = ["a".to_owned()];
    let refused: Vec<Violation> = instance_deletion("main", "n", &engines).into_iter().collect();
    assert_broken(&refused, "metadata.name", ViolationKind::Forbidden);
    let external = json!({ "postgres": { "host": "h", "database": "d", "credentialsSecretRef": { "name": "s" } } });
    let (old, new) = (json!({}), external);
    let [old, new] = [old, new].map(|metadata| fixture::instance(&metadata, &json!({})));
    assert_broken(
        &instance_change(&old, &new, &engines),
        "spec.metadata.postgres",
        ViolationKind::Forbidden,
    );
}
