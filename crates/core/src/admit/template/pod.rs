//! Rules for a pod as a whole: fields that the operator manages.
//!
//! A volume of an engine with a name of the operator is not rejected: as in the original operator, it is replaced.

use k8s_openapi::api::core::v1::{PodSecurityContext, PodSpec};

use super::Template;
use super::owned::{Owned, filled, listed, owned, refuse};
use crate::admit::violation::Violation;
use crate::resolve::instance::METADATA_USER;

const FIELDS: [Owned<PodSpec>; 13] = [
    owned(
        "terminationGracePeriodSeconds",
        |pod| pod.termination_grace_period_seconds.is_some(),
        "The operator manages the termination grace period of its pods.",
    ),
    owned(
        "activeDeadlineSeconds",
        |pod| pod.active_deadline_seconds.is_some(),
        "Pods run until the operator stops them.",
    ),
    owned("subdomain", |pod| filled(pod.subdomain.as_ref()), NAMES),
    owned("hostname", |pod| filled(pod.hostname.as_ref()), NAMES),
    owned("hostnameOverride", |pod| filled(pod.hostname_override.as_ref()), NAMES),
    owned(
        "restartPolicy",
        |pod| filled(pod.restart_policy.as_ref()),
        "The operator sets the restart policy of its pods.",
    ),
    owned("hostNetwork", |pod| pod.host_network == Some(true), ISOLATION),
    owned("hostPID", |pod| pod.host_pid == Some(true), ISOLATION),
    owned("hostIPC", |pod| pod.host_ipc == Some(true), ISOLATION),
    owned(
        "shareProcessNamespace",
        |pod| pod.share_process_namespace.is_some(),
        "The operator manages which namespaces the containers of a pod share.",
    ),
    owned(
        "hostUsers",
        |pod| pod.host_users.is_some(),
        "The operator manages the user namespaces of its pods.",
    ),
    owned(
        "enableServiceLinks",
        |pod| pod.enable_service_links == Some(true),
        "Environment variables for other Services could override settings of the pods.",
    ),
    owned(
        "ephemeralContainers",
        |pod| listed(pod.ephemeral_containers.as_ref()),
        "Ephemeral containers are added to running pods, with kubectl debug.",
    ),
];
const NAMES: &str = "Pods are addressed by the names that the operator assigns.";
const ISOLATION: &str = "Pods may not share the namespaces of their nodes.";

/// The deprecated name of a field, of which Kubernetes keeps a copy that may differ from the field. An equal copy is
/// accepted, because `kubectl get` prints it.
const SERVICE_ACCOUNT: [Owned<PodSpec>; 1] = [owned(
    "serviceAccount",
    |pod| filled(pod.service_account.as_ref()) && pod.service_account != pod.service_account_name,
    "This field is deprecated; use serviceAccountName.",
)];

const NO_TOKEN: [Owned<PodSpec>; 1] = [owned(
    "automountServiceAccountToken",
    |pod| pod.automount_service_account_token == Some(true),
    "The metadata service does not use the API server; for a sidecar that does, project a token into a volume.",
)];

/// With the ServiceAccount of the operator, whose token is not for Envoy.
const TOKEN_OF_OWN_ACCOUNT: [Owned<PodSpec>; 1] = [owned(
    "automountServiceAccountToken",
    |pod| pod.automount_service_account_token == Some(true) && !filled(pod.service_account_name.as_ref()),
    "The token that allows waking engines may not be mounted into every container; to use another ServiceAccount, set \
     serviceAccountName.",
)];

/// Values that the image of the metadata service requires. Setting these values is accepted.
const USER: [Owned<PodSecurityContext>; 3] = [
    owned("runAsNonRoot", |context| context.run_as_non_root == Some(false), IMAGE),
    owned("runAsUser", |context| is_other_user(context.run_as_user), IMAGE),
    owned("runAsGroup", |context| is_other_user(context.run_as_group), IMAGE),
];
const IMAGE: &str = "The metadata service runs as the user of its image. For a sidecar, set this in the container.";

fn is_other_user(user: Option<i64>) -> bool {
    user.is_some_and(|user| user != METADATA_USER)
}

/// Rejects fields that the operator manages.
pub(super) fn fields(template: &Template) -> Vec<Violation> {
    refused(template, &FIELDS)
}

/// Rejects the deprecated name of serviceAccountName.
pub(super) fn service_account(template: &Template) -> Vec<Violation> {
    refused(template, &SERVICE_ACCOUNT)
}

/// Rejects a token of the API server.
pub(super) fn no_token(template: &Template) -> Vec<Violation> {
    refused(template, &NO_TOKEN)
}

/// Rejects a token of the API server unless the user sets the ServiceAccount.
pub(super) fn token_of_own_account(template: &Template) -> Vec<Violation> {
    refused(template, &TOKEN_OF_OWN_ACCOUNT)
}

/// Rejects a user other than that of the image.
pub(super) fn user(template: &Template) -> Vec<Violation> {
    let contexts = template
        .pod
        .spec
        .iter()
        .filter_map(|spec| spec.security_context.as_ref());
    contexts
        .flat_map(|context| refuse(&USER, context, "spec.securityContext"))
        .collect()
}

fn refused(template: &Template, owned: &[Owned<PodSpec>]) -> Vec<Violation> {
    let spec = template.pod.spec.iter();
    spec.flat_map(|spec| refuse(owned, spec, "spec")).collect()
}

#[cfg(test)]
mod tests {
    use crate::admit::ViolationKind;
    use crate::admit::fixture::{Target, all_accept, all_reject};
    use crate::resolve::instance::METADATA_USER;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case::grace_period("terminationGracePeriodSeconds", json!(0), json!(null))]
    #[case::deadline("activeDeadlineSeconds", json!(0), json!(null))]
    #[case::subdomain("subdomain", json!("s"), json!(""))]
    #[case::hostname("hostname", json!("h"), json!(""))]
    #[case::hostname_override("hostnameOverride", json!("h"), json!(""))]
    #[case::restart_policy("restartPolicy", json!("Always"), json!(""))]
    #[case::host_network("hostNetwork", json!(true), json!(false))]
    #[case::host_pid("hostPID", json!(true), json!(false))]
    #[case::host_ipc("hostIPC", json!(true), json!(false))]
    #[case::shared_processes("shareProcessNamespace", json!(false), json!(null))]
    #[case::host_users("hostUsers", json!(false), json!(null))]
    #[case::service_links("enableServiceLinks", json!(true), json!(false))]
    #[case::ephemeral_containers("ephemeralContainers", json!([{ "name": "debug" }]), json!([]))]
    fn fields_of_the_operator_are_refused(#[case] field: &str, #[case] bad: Value, #[case] good: Value) {
        let template = |value: Value| json!({ "spec": { field: value } });
        all_reject(
            &template(bad),
            &[(&format!("spec.{field}"), ViolationKind::Forbidden, "Remove this field.")],
        );
        all_accept(&template(good));
    }

    #[test]
    fn the_former_name_of_a_field_is_refused() {
        let account = |field: &str, name: &str| json!({ "spec": { field: name } });
        let expected = [("spec.serviceAccount", ViolationKind::Forbidden, "serviceAccountName")];
        all_reject(&account("serviceAccount", "a"), &expected);
        all_accept(&account("serviceAccount", ""));
        all_accept(&account("serviceAccountName", "a"));
        let both = |name: &str| json!({ "spec": { "serviceAccount": "a", "serviceAccountName": name } });
        all_accept(&both("a"));
        all_reject(&both("b"), &expected);
    }

    #[rstest]
    #[case::left_out(json!({}), true, true)]
    #[case::off(json!({ "automountServiceAccountToken": false }), true, true)]
    #[case::on(json!({ "automountServiceAccountToken": true }), false, false)]
    #[case::on_for_an_account_of_the_user(json!({ "automountServiceAccountToken": true, "serviceAccountName": "a" }), false, true)]
    #[case::on_for_no_account(json!({ "automountServiceAccountToken": true, "serviceAccountName": "" }), false, false)]
    fn tokens_are_for_accounts_of_users(#[case] spec: Value, #[case] metadata: bool, #[case] gateway: bool) {
        for (of, accepted) in [
            (Target::Engine, true),
            (Target::Metadata, metadata),
            (Target::Gateway, gateway),
        ] {
            let template = json!({ "spec": spec });
            if accepted {
                of.accepts(&template);
            } else {
                let path = "spec.automountServiceAccountToken";
                of.rejects(&template, &[(path, ViolationKind::Forbidden, "Remove this field.")]);
            }
        }
    }

    #[rstest]
    #[case::root_allowed("runAsNonRoot", json!(false), json!(true))]
    #[case::user("runAsUser", json!(0), json!(METADATA_USER))]
    #[case::group("runAsGroup", json!(METADATA_USER + 1), json!(METADATA_USER))]
    fn the_metadata_service_runs_as_the_user_of_its_image(
        #[case] field: &str,
        #[case] bad: Value,
        #[case] good: Value,
    ) {
        let template = |value: &Value| json!({ "spec": { "securityContext": { "fsGroup": 1, field: value } } });
        let path = format!("spec.securityContext.{field}");
        Target::Metadata.rejects(
            &template(&bad),
            &[(&path, ViolationKind::Forbidden, "user of its image")],
        );
        Target::Metadata.accepts(&template(&good));
        Target::Gateway.accepts(&template(&bad));
        Target::Engine.accepts(&template(&bad));
    }
}
