//! Rules that protect the credentials of the metadata database from every container except the metadata service.
//!
//! The names of the Secrets are compared exactly: a Secret with a similar name belongs to the user.

use k8s_openapi::api::core::v1::{Container, Volume};

use super::Template;
use crate::admit::violation::{Violation, ViolationKind};

/// Path of a reference to a Secret, and the name of the Secret.
type Reference<'a> = (String, &'a str);

/// Rejects volumes that contain the credentials.
pub(in crate::admit) fn volumes(template: &Template) -> Vec<Violation> {
    let volumes = template.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let references = volumes.enumerate().flat_map(|(index, volume)| {
        let references = of_volume(volume).into_iter();
        references.map(move |(field, name)| (format!("spec.volumes[{index}].{field}"), name))
    });
    refused(template, references)
}

/// Rejects environment variables of sidecars and init containers that contain the credentials.
pub(in crate::admit) fn variables(template: &Template) -> Vec<Violation> {
    read_by(template, template.sidecars())
}

/// Rejects environment variables of the main container that contain the credentials.
pub(in crate::admit) fn own_variables(template: &Template) -> Vec<Violation> {
    read_by(template, template.own_container().into_iter())
}

fn read_by<'a>(template: &Template, containers: impl Iterator<Item = (String, &'a Container)>) -> Vec<Violation> {
    let references = containers.flat_map(|(path, container)| {
        let references = of_environment(container).into_iter();
        references.map(move |(field, name)| (format!("{path}.{field}"), name))
    });
    refused(template, references)
}

fn refused<'a>(template: &Template, references: impl Iterator<Item = Reference<'a>>) -> Vec<Violation> {
    let reaching = references.filter(|(_, name)| template.secrets.iter().any(|secret| secret == name));
    let refused = reaching.map(|(path, name)| {
        Violation::new(
            path,
            ViolationKind::Forbidden,
            format!(
                "The Secret {name} contains the credentials of the metadata database, which only the metadata service \
                 may read. Reference another Secret, or remove this entry."
            ),
        )
    });
    refused.collect()
}

fn of_environment(container: &Container) -> Vec<Reference<'_>> {
    let variables = container
        .env
        .iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, variable)| {
            let secret = variable.value_from.as_ref()?.secret_key_ref.as_ref()?;
            Some((
                format!("env[{index}].valueFrom.secretKeyRef.name"),
                secret.name.as_str(),
            ))
        });
    let sources = container
        .env_from
        .iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, source)| {
            let secret = source.secret_ref.as_ref()?;
            Some((format!("envFrom[{index}].secretRef.name"), secret.name.as_str()))
        });
    variables.chain(sources).collect()
}

/// The Secrets that a volume references. Every source is listed, so that a source that a new Kubernetes release adds
/// does not compile until it has been checked for references to Secrets.
fn of_volume(volume: &Volume) -> Vec<Reference<'_>> {
    let Volume {
        azure_file,
        cephfs,
        cinder,
        csi,
        flex_volume,
        iscsi,
        projected,
        rbd,
        scale_io,
        secret,
        storageos,

        // These reference no Secret.
        aws_elastic_block_store: _,
        azure_disk: _,
        config_map: _,
        downward_api: _,
        empty_dir: _,
        ephemeral: _,
        fc: _,
        flocker: _,
        gce_persistent_disk: _,
        git_repo: _,
        glusterfs: _,
        host_path: _,
        image: _,
        name: _,
        nfs: _,
        persistent_volume_claim: _,
        photon_persistent_disk: _,
        portworx_volume: _,
        quobyte: _,
        vsphere_volume: _,
    } = volume;
    let names = [
        (
            "secret.secretName",
            secret.as_ref().and_then(|source| source.secret_name.as_ref()),
        ),
        (
            "azureFile.secretName",
            azure_file.as_ref().map(|source| &source.secret_name),
        ),
    ];
    let names = names.map(|(field, name)| Some((field.to_owned(), name?.as_str())));
    let references = [
        ("cephfs", cephfs.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("cinder", cinder.as_ref().and_then(|source| source.secret_ref.as_ref())),
        (
            "flexVolume",
            flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
        ),
        ("iscsi", iscsi.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("rbd", rbd.as_ref().and_then(|source| source.secret_ref.as_ref())),
        ("scaleIO", scale_io.as_ref().map(|source| &source.secret_ref)),
        (
            "storageos",
            storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
        ),
    ];
    let references = references.map(|(source, secret)| Some((format!("{source}.secretRef.name"), &*secret?.name)));
    let csi = csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref());
    let csi = csi.map(|secret| ("csi.nodePublishSecretRef.name".to_owned(), &*secret.name));
    let single = names.into_iter().chain(references).flatten().chain(csi);
    let sources = projected
        .iter()
        .flat_map(|projected| projected.sources.iter().flatten());
    let projected = sources.enumerate().filter_map(|(index, source)| {
        let secret = source.secret.as_ref()?;
        Some((format!("projected.sources[{index}].secret.name"), secret.name.as_str()))
    });
    single.chain(projected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{EXTERNAL_SECRET, INSTANCE, Target, assert_rejected, engine, instance};
    use crate::admit::{engine_template, gateway_template, metadata_template};
    use firebolt_api::name::InstanceNames;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Violations of the template in an instance with an external database.
    fn violations(of: Target, template: &Value) -> Vec<Violation> {
        let postgres = json!({ "host": "h", "database": "d", "credentialsSecretRef": { "name": EXTERNAL_SECRET } });
        let database = || instance(&json!({ "postgres": postgres }), &json!({}));
        match of {
            Target::Metadata => metadata_template(&instance(
                &json!({ "template": template, "postgres": postgres }),
                &json!({}),
            )),
            Target::Gateway => gateway_template(&instance(
                &json!({ "postgres": postgres }),
                &json!({ "template": template }),
            )),
            Target::Engine => engine_template(&engine(template), Some(&database())),
        }
    }

    /// Asserts that a reference to the credentials is rejected at the path, and that a reference to any other Secret is
    /// not. The external Secret is protected in an instance that uses it; that of the operator in every instance.
    fn assert_guarded(template: impl Fn(&str) -> Value, path: &str) {
        let own = InstanceNames(INSTANCE).postgres_credentials();
        for of in Target::ALL {
            let expected = [(path, ViolationKind::Forbidden, "credentials of the metadata database")];
            for name in [own.as_str(), EXTERNAL_SECRET] {
                assert_rejected(&violations(of, &template(name)), of.path(), &expected, &template(name));
            }
            of.rejects(&template(&own), &expected);
            of.accepts(&template(EXTERNAL_SECRET));
            for name in ["other", "", "second-metadata-postgres-creds"] {
                assert_eq!(violations(of, &template(name)), [], "{name}");
            }
        }
    }

    /// The value with this name of the Secret.
    fn naming(value: &Value, name: &str) -> Value {
        serde_json::from_str(&value.to_string().replace("NAMED", name)).expect("a value")
    }

    #[rstest]
    #[case::secret("secret.secretName", json!({ "secret": { "secretName": "NAMED" } }))]
    #[case::projected("projected.sources[1].secret.name", json!({ "projected": { "sources": [{ "configMap": { "name": "NAMED" } }, { "secret": { "name": "NAMED" } }] } }))]
    #[case::azure_file("azureFile.secretName", json!({ "azureFile": { "secretName": "NAMED", "shareName": "s" } }))]
    #[case::cephfs("cephfs.secretRef.name", json!({ "cephfs": { "monitors": [], "secretRef": { "name": "NAMED" } } }))]
    #[case::cinder("cinder.secretRef.name", json!({ "cinder": { "volumeID": "v", "secretRef": { "name": "NAMED" } } }))]
    #[case::csi("csi.nodePublishSecretRef.name", json!({ "csi": { "driver": "d", "nodePublishSecretRef": { "name": "NAMED" } } }))]
    #[case::flex("flexVolume.secretRef.name", json!({ "flexVolume": { "driver": "d", "secretRef": { "name": "NAMED" } } }))]
    #[case::iscsi("iscsi.secretRef.name", json!({ "iscsi": { "iqn": "i", "lun": 0, "targetPortal": "t", "secretRef": { "name": "NAMED" } } }))]
    #[case::rbd("rbd.secretRef.name", json!({ "rbd": { "image": "i", "monitors": [], "secretRef": { "name": "NAMED" } } }))]
    #[case::scale_io("scaleIO.secretRef.name", json!({ "scaleIO": { "gateway": "g", "system": "s", "secretRef": { "name": "NAMED" } } }))]
    #[case::storage_os("storageos.secretRef.name", json!({ "storageos": { "secretRef": { "name": "NAMED" } } }))]
    fn no_volume_reaches_the_credentials(#[case] field: &str, #[case] source: Value) {
        let template = |name: &str| {
            let mut volume = naming(&source, name);
            volume["name"] = json!("v");
            json!({ "spec": { "volumes": [{ "name": "first", "emptyDir": {} }, volume] } })
        };
        assert_guarded(template, &format!("spec.volumes[1].{field}"));
    }

    #[test]
    fn a_config_map_may_have_any_name() {
        let name = InstanceNames(INSTANCE).postgres_credentials();
        let template = json!({ "spec": { "volumes": [{ "name": "v", "configMap": { "name": name } }] } });
        Target::Metadata.accepts(&template);
    }

    #[rstest]
    #[case::variable("env[0].valueFrom.secretKeyRef.name", json!({ "env": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "NAMED", "key": "password" } } }] }))]
    #[case::all_variables("envFrom[1].secretRef.name", json!({ "envFrom": [{ "configMapRef": { "name": "NAMED" } }, { "secretRef": { "name": "NAMED" } }] }))]
    fn no_variable_reaches_the_credentials(
        #[case] field: &str,
        #[case] environment: Value,
        #[values("containers", "initContainers")] list: &str,
    ) {
        let template = |name: &str| {
            let mut container = naming(&environment, name);
            container["name"] = json!("proxy");
            json!({ "spec": { list: [container] } })
        };
        assert_guarded(template, &format!("spec.{list}[proxy].{field}"));
    }

    #[test]
    fn the_engine_itself_does_not_read_the_credentials() {
        let secret = InstanceNames(INSTANCE).postgres_credentials();
        let template = |name: &str| {
            let variable = json!({ "name": "A", "valueFrom": { "secretKeyRef": { "name": name, "key": "password" } } });
            json!({ "spec": { "containers": [{ "name": "proxy" }, { "name": "engine", "env": [variable] }] } })
        };
        let path = "spec.containers[engine].env[0].valueFrom.secretKeyRef.name";
        Target::Engine.rejects(&template(&secret), &[(path, ViolationKind::Forbidden, &secret)]);
        Target::Engine.accepts(&template("licence"));
    }
}
