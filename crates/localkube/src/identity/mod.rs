//! Identities: the administrator, the components themselves, users and service accounts, each with a kubeconfig.

mod kubeconfig;
mod pki;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::state::layout::Layout;
use crate::topology::Node;
use crate::{Error, Result};
use kubeconfig::Credential;
use pki::Authority;

pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";
const PROXY: &str = "system:kube-proxy";
const NODES: &str = "system:nodes";
/// A day is longer than any test and any demo.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Makes the certificate authority and the kubeconfigs that the cluster itself needs.
pub(crate) fn create(layout: &Layout) -> Result<()> {
    let authority = Authority::create(layout)?;
    let here = server_here(layout);
    let masters = Some("system:masters");
    write_user(&here, &authority, &layout.kubeconfig(), "admin", masters)?;
    for user in [CONTROLLER_MANAGER, SCHEDULER] {
        write_user(&here, &authority, &path_of_user(layout, user, None), user, None)?;
    }
    // A further node has a loopback address of its own, so these find the API server by that of the first.
    let first = format!("https://{}:{}", Node::First.address(), layout.ports().apiserver);
    for node in layout.nodes() {
        write_user(
            &first,
            &authority,
            &path_of_node(layout, *node),
            &user_of_node(*node),
            Some(NODES),
        )?;
    }
    if !layout.nodes().is_empty() {
        write_user(&first, &authority, &path_of_proxy(layout), PROXY, None)?;
    }
    Ok(())
}

/// Writes a kubeconfig for a user that a client certificate names, and returns its path.
pub(crate) fn user(layout: &Layout, user: &str, group: Option<&str>) -> Result<PathBuf> {
    let path = path_of_user(layout, user, group);
    write_user(&server_here(layout), &Authority::open(layout)?, &path, user, group)?;
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
    let path = path_of_user(layout, &user, None);
    let authority = Authority::open(layout)?;
    let credential = Credential::Token(token);
    kubeconfig::write(&path, &server_here(layout), authority.certificate(), &user, &credential)?;
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

/// Where the kubeconfig of `user` is, as a member of `group` if one is given. No two identities share a file, else the
/// bearer of one would silently become the other.
pub(crate) fn path_of_user(layout: &Layout, user: &str, group: Option<&str>) -> PathBuf {
    let group = group.map_or_else(String::new, |group| format!("@{}", file_name(group)));
    layout.kubeconfigs().join(format!("user-{}{group}", file_name(user)))
}

/// Where the kubeconfig of the kubelet of `node` is.
pub(crate) fn path_of_node(layout: &Layout, node: Node) -> PathBuf {
    path_of_user(layout, &user_of_node(node), Some(NODES))
}

/// Where the kubeconfig of every kube-proxy is.
pub(crate) fn path_of_proxy(layout: &Layout) -> PathBuf {
    path_of_user(layout, PROXY, None)
}

/// The user name of a kubelet, by which the API server authorizes access to its own objects.
fn user_of_node(node: Node) -> String {
    format!("system:node:{node}")
}

/// The API server as it is found on this machine, and from the network of the first node too.
fn server_here(layout: &Layout) -> String {
    format!("https://127.0.0.1:{}", layout.ports().apiserver)
}

/// The text with every byte in percent encoding that a file name may not or should not have: each text has its own.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            name.push(byte.into());
        } else {
            write!(name, "%{byte:02X}").expect("writing to a string succeeds");
        }
    }
    name
}

fn write_user(server: &str, authority: &Authority, path: &Path, user: &str, group: Option<&str>) -> Result<()> {
    let pair = authority.client(user, group)?;
    let credential = Credential::Certificate(pair);
    kubeconfig::write(path, server, authority.certificate(), user, &credential)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::layout::Shape;
    use crate::state::ports::Ports;

    #[test]
    fn no_two_identities_share_a_file() {
        let shape = Shape {
            ports: Ports::choose(),
            nodes: Vec::new(),
        };
        let layout = Layout::new(Path::new("/cluster"), shape);
        let identities = [
            ("a:b", None),
            ("a_b", None),
            ("a%3Ab", None),
            ("a/b", None),
            ("A:B", None),
            ("ü", None),
            ("a", None),
            ("a", Some("b")),
            ("a", Some("")),
            ("a@b", None),
            ("../a", None),
            ("", None),
        ];
        let paths: Vec<PathBuf> = identities
            .iter()
            .map(|(user, group)| path_of_user(&layout, user, *group))
            .collect();
        for (index, path) in paths.iter().enumerate() {
            assert_eq!(paths.iter().position(|other| other == path), Some(index), "{path:?}");
            assert_eq!(path.parent(), Some(layout.kubeconfigs().as_path()), "{path:?}");
        }
        assert!(paths[0].ends_with("user-a%3Ab"));
    }
}
