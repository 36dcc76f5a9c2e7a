//! Identities: the administrator, the components themselves, users and service accounts, each with a kubeconfig.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::kubeconfig::{self, Credential};
use crate::layout::Layout;
use crate::pki::Authority;
use crate::{Error, Result};

pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";
/// A day is longer than any test and any demo.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Makes the certificate authority and the kubeconfigs that the cluster itself needs.
pub(crate) fn create(layout: &Layout) -> Result<()> {
    let authority = Authority::create(layout)?;
    write_user(
        layout,
        &authority,
        &layout.kubeconfig(),
        "admin",
        Some("system:masters"),
    )?;
    for user in [CONTROLLER_MANAGER, SCHEDULER] {
        write_user(layout, &authority, &path_of_user(layout, user), user, None)?;
    }
    Ok(())
}

/// Writes a kubeconfig for a user that a client certificate names, and returns its path.
pub(crate) fn user(layout: &Layout, user: &str, group: Option<&str>) -> Result<PathBuf> {
    let path = path_of_user(layout, user);
    write_user(layout, &Authority::open(layout)?, &path, user, group)?;
    Ok(path)
}

/// Writes a kubeconfig for a service account, which is created if it is missing, and returns its path.
#[expect(
    clippy::disallowed_methods,
    reason = "the wall is about the operator; here an administrator sets up a cluster"
)]
pub(crate) async fn service_account(layout: &Layout, namespace: &str, name: &str) -> Result<PathBuf> {
    let api: Api<ServiceAccount> = Api::namespaced(client(&layout.kubeconfig()).await?, namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    match api.create(&PostParams::default(), &account).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        created => {
            created.map_err(Error::api(format!("create ServiceAccount {namespace}/{name}")))?;
        }
    }
    let spec = TokenRequestSpec {
        expiration_seconds: Some(TOKEN_SECONDS),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let answer = api
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .map_err(Error::api(format!(
            "create a token for ServiceAccount {namespace}/{name}"
        )))?;
    let token = answer.status.and_then(|status| status.token).unwrap_or_default();
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let path = path_of_user(layout, &user);
    let authority = Authority::open(layout)?;
    kubeconfig::write(
        &path,
        layout.ports.apiserver,
        authority.certificate(),
        &user,
        &Credential::Token(token),
    )?;
    Ok(path)
}

/// A client that speaks as the bearer of the kubeconfig at `path`.
pub(crate) async fn client(path: &Path) -> Result<Client> {
    let config = config(path).await?;
    Client::try_from(config).map_err(Error::api(format!("make a client from {}", path.display())))
}

/// The connection settings of the kubeconfig at `path`.
pub(crate) async fn config(path: &Path) -> Result<Config> {
    let failed = |source| Error::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}

/// Where the kubeconfig of `user` is, with characters that a file name may not or should not have replaced.
pub(crate) fn path_of_user(layout: &Layout, user: &str) -> PathBuf {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    let name: String = user
        .chars()
        .map(|character| if plain(character) { character } else { '_' })
        .collect();
    layout.kubeconfigs().join(format!("user-{name}"))
}

fn write_user(layout: &Layout, authority: &Authority, path: &Path, user: &str, group: Option<&str>) -> Result<()> {
    let pair = authority.client(user, group)?;
    let credential = Credential::Certificate(pair);
    kubeconfig::write(path, layout.ports.apiserver, authority.certificate(), user, &credential)
}
