//! Kubeconfig files: one for each identity, complete in itself, so that it can be copied anywhere on the machine.

use std::path::Path;

use k8s_openapi::ByteString;
use serde_json::json;

use super::pki::Pair;
use crate::Result;
use crate::state::layout::write_private;

/// The name of the only cluster, and of the only context, that a file knows.
const CLUSTER: &str = "localkube";

/// How a user authenticates to the API server.
pub(crate) enum Credential {
    Certificate(Pair),
    Token(String),
}

/// Writes a kubeconfig for the API server at `server` that trusts `authority` (PEM) and speaks as `user`.
pub(crate) fn write(path: &Path, server: &str, authority: &str, user: &str, credential: &Credential) -> Result<()> {
    write_private(path, text(server, authority, user, credential).as_bytes())
}

/// As JSON, which is YAML too: names may hold any character, and the serialiser knows how to write each.
fn text(server: &str, authority: &str, user: &str, credential: &Credential) -> String {
    let credential = match credential {
        Credential::Certificate(pair) => json!({
            "client-certificate-data": base64(&pair.certificate),
            "client-key-data": base64(&pair.key),
        }),
        Credential::Token(token) => json!({ "token": token }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": CLUSTER,
            "cluster": { "server": server, "certificate-authority-data": base64(authority) },
        }],
        "users": [{ "name": user, "user": credential }],
        "contexts": [{ "name": CLUSTER, "context": { "cluster": CLUSTER, "user": user } }],
        "current-context": CLUSTER,
    });
    format!("{config:#}\n")
}

/// The wire form is base64, so the type that defines it does the work.
fn base64(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::Kubeconfig;

    fn read(user: &str, credential: &Credential) -> Kubeconfig {
        Kubeconfig::from_yaml(&text("https://127.0.0.1:20001", "authority", user, credential)).expect("valid")
    }

    #[test]
    fn a_kubeconfig_is_one_that_the_client_reads() {
        let pair = Pair {
            certificate: "certificate".to_owned(),
            key: "key".to_owned(),
        };
        let config = read("system:kube-scheduler", &Credential::Certificate(pair));
        let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:20001"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("YXV0aG9yaXR5"));
        assert_eq!(config.current_context.as_ref(), Some(&config.contexts[0].name));
        let user = config.auth_infos[0].auth_info.as_ref().expect("a user");
        assert_eq!(user.client_certificate_data.as_deref(), Some("Y2VydGlmaWNhdGU="));
    }

    #[test]
    fn a_name_may_hold_any_character() {
        for name in [
            "",
            "a\"\n- name: b",
            "\\",
            "{x: &y}",
            "\u{7}\u{85}\u{2028}ü🙂",
            "null",
            "0x1f",
        ] {
            let config = read(name, &Credential::Token(name.to_owned()));
            assert_eq!(config.auth_infos.len(), 1);
            assert_eq!(config.auth_infos[0].name, name);
            let context = config.contexts[0].context.as_ref().expect("a context");
            assert_eq!(context.user.as_deref(), Some(name));
        }
    }
}
