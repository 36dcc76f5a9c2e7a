//! What the operator renders, run: PostgreSQL as the pod of its StatefulSet says, the metadata service as that of its
//! Deployment says. Only addresses are others than in a cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use firebolt_api::FireboltInstance;
use firebolt_core::render::instance as render;
use firebolt_core::resolve::instance::{EffectiveInstance, resolve};
use k8s_openapi::api::core::v1::{self as pod, EnvVar, PodTemplateSpec};
use rstest::rstest;
use serde_json::json;
use stand_ins::loopback::free_address;
use stand_ins::postgres::{Container, Postgres};
use tempfile::TempDir;
use tokio_postgres::NoTls;
use tonic_health::pb::health_check_response::ServingStatus::Serving;

use crate::service::{ACCOUNT, Launch, debian};

const PASSWORD: &str = "8d3f0c9b7a1e5d2c4b6f8091";

/// Secrets by name, each with its values.
type Secrets = BTreeMap<String, BTreeMap<String, String>>;

fn instance(format: &str) -> EffectiveInstance {
    let instance = json!({
        "apiVersion": "v", "kind": "FireboltInstance",
        "metadata": { "name": "main", "namespace": "data", "uid": "u" },
        "spec": { "id": ACCOUNT, "metadata": { "configFormat": format }, "gateway": {} },
    });
    let instance: FireboltInstance = serde_json::from_value(instance).expect("an instance");
    resolve(&instance, &testkit::defaults!(), false)
}

fn secrets(instance: &EffectiveInstance) -> Secrets {
    let secret = render::postgres_credentials(instance, PASSWORD);
    let written = secret.data.unwrap_or_default().into_iter();
    let written = written.map(|(key, value)| (key, String::from_utf8(value.0).expect("a text")));
    let values = written.chain(secret.string_data.unwrap_or_default()).collect();
    BTreeMap::from([(secret.metadata.name.expect("a name"), values)])
}

/// The environment of a container, as the kubelet would put it together.
fn environment(variables: &[EnvVar], secrets: &Secrets) -> BTreeMap<String, String> {
    let value = |variable: &EnvVar| match &variable.value_from {
        None => variable.value.clone().unwrap_or_default(),
        Some(source) => {
            let key = source.secret_key_ref.as_ref().expect("a key of a Secret");
            secrets[&key.name][&key.key].clone()
        }
    };
    variables
        .iter()
        .map(|variable| (variable.name.clone(), value(variable)))
        .collect()
}

fn first_container(template: &PodTemplateSpec) -> &pod::Container {
    &template.spec.as_ref().expect("a pod").containers[0]
}

fn mounts(container: &pod::Container) -> Vec<PathBuf> {
    let mounts = container.volume_mounts.iter().flatten();
    mounts.map(|mount| PathBuf::from(&mount.mount_path)).collect()
}

fn postgres(instance: &EffectiveInstance, secrets: &Secrets) -> (TempDir, Postgres) {
    let set = render::postgres_stateful_set(instance).spec.expect("a specification");
    let container = first_container(&set.template);
    let context = container.security_context.as_ref().expect("a security context");
    let id = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok()).expect("a user");
    let container = Container {
        environment: environment(container.env.as_deref().unwrap_or_default(), secrets),
        user: id(context.run_as_user),
        group: id(context.run_as_group),
        mounts: mounts(container),
    };
    let root = tempfile::tempdir().expect("create a folder");
    let postgres = Postgres::start(&debian(), root.path(), container).expect("start PostgreSQL");
    (root, postgres)
}

/// The configuration file, and what it is called.
fn configuration(instance: &EffectiveInstance, listen: SocketAddr, postgres: SocketAddr) -> (String, String) {
    let files = render::metadata_config_map(instance).data.expect("a file");
    let (name, text) = files.into_iter().next().expect("a file");
    let service = render::postgres_service(instance);
    let port = service.spec.expect("a specification").ports.expect("ports")[0].port;
    let host = format!("{}.data.svc.cluster.local", service.metadata.name.expect("a name"));
    let mut moved = text;
    for (from, to) in [
        (host, postgres.ip().to_string()),
        (port.to_string(), postgres.port().to_string()),
        ("0.0.0.0".to_owned(), listen.ip().to_string()),
        ("7000".to_owned(), listen.port().to_string()),
    ] {
        assert_eq!(moved.matches(&from).count(), 1, "{from} in {moved}");
        moved = moved.replacen(&from, &to, 1);
    }
    (name, moved)
}

#[rstest]
#[tokio::test]
async fn a_metadata_service_as_rendered_is_healthy_on_a_postgresql_as_rendered(#[values("xml", "yaml")] format: &str) {
    let instance = instance(format);
    let secrets = secrets(&instance);
    let (_root, postgres) = postgres(&instance, &secrets);

    let deployment = render::metadata_deployment(&instance, "hash")
        .spec
        .expect("a specification");
    let container = first_container(&deployment.template);
    let listen = free_address().expect("a free address");
    let (name, text) = configuration(&instance, listen, postgres.address());
    let mut launch = Launch::new(listen);
    let [config, credentials, _] = mounts(container).try_into().expect("three mounts");
    launch.write(&config.join(name), &text);
    let volumes = deployment
        .template
        .spec
        .iter()
        .flat_map(|pod| pod.volumes.iter().flatten());
    let volume = volumes
        .into_iter()
        .find_map(|volume| volume.secret.as_ref())
        .expect("a Secret");
    let secret = &secrets[volume.secret_name.as_ref().expect("a name")];
    for item in volume.items.iter().flatten() {
        launch.write(&credentials.join(&item.path), &secret[&item.key]);
    }
    let words = [container.command.clone(), container.args.clone()]
        .into_iter()
        .flatten()
        .flatten();
    let mut service = launch.start(
        words,
        environment(container.env.as_deref().unwrap_or_default(), &secrets),
    );
    service.becomes(Serving).await;

    let (address, credentials) = (postgres.address(), secrets.values().next().expect("a Secret"));
    let mut config = tokio_postgres::Config::new();
    config
        .host(address.ip().to_string())
        .port(address.port())
        .user(&credentials["username"]);
    config
        .password(&credentials["password"])
        .dbname(&credentials["database"]);
    let (client, connection) = config
        .connect(NoTls)
        .await
        .expect("the generated credentials are accepted");
    tokio::spawn(connection);
    let accounts = client
        .query("SELECT id FROM public.stand_in_account", &[])
        .await
        .expect("accounts");
    assert_eq!(accounts.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), [ACCOUNT]);
}
