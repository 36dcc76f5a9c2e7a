//! Kubeconfig files: one for each identity, complete in itself, so that it can be copied anywhere on the machine.

use std::path::Path;

use k8s_openapi::ByteString;

use crate::Result;
use crate::layout::write_private;
use crate::pki::Pair;

/// What its bearer shows to the API server.
pub(crate) enum Credential {
    Certificate(Pair),
    Token(String),
}

/// Writes a kubeconfig for the API server at `port` that trusts `authority` (PEM) and speaks as `user`.
pub(crate) fn write(path: &Path, port: u16, authority: &str, user: &str, credential: &Credential) -> Result<()> {
    write_private(path, text(port, authority, user, credential).as_bytes())
}

fn text(port: u16, authority: &str, user: &str, credential: &Credential) -> String {
    let authority = base64(authority);
    let credential = match credential {
        Credential::Certificate(pair) => format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            base64(&pair.certificate),
            base64(&pair.key)
        ),
        Credential::Token(token) => format!("token: {token}"),
    };
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: localkube
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority-data: {authority}
users:
- name: \"{user}\"
  user:
    {credential}
contexts:
- name: localkube
  context:
    cluster: localkube
    user: \"{user}\"
current-context: localkube
"
    )
}

/// The wire form of a byte string is base64, so the type that defines it does the work.
fn base64(text: &str) -> String {
    match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
        Ok(serde_json::Value::String(encoded)) => encoded,
        other => unreachable!("a byte string serialises to a string, not {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::Kubeconfig;

    #[test]
    fn a_kubeconfig_is_one_that_the_client_reads() {
        let pair = Pair {
            certificate: "certificate".to_owned(),
            key: "key".to_owned(),
        };
        let text = text(
            20_001,
            "authority",
            "system:kube-scheduler",
            &Credential::Certificate(pair),
        );
        let config = Kubeconfig::from_yaml(&text).expect("valid");
        let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:20001"));
        assert_eq!(
            config.contexts[0].context.as_ref().and_then(|it| it.user.clone()),
            Some(config.auth_infos[0].name.clone())
        );
        let user = config.auth_infos[0].auth_info.as_ref().expect("a user");
        assert_eq!(user.client_certificate_data.as_deref(), Some("Y2VydGlmaWNhdGU="));
    }
}
