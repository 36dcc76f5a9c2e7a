//! Rules for a pod as a whole: fields that the operator decides about.
//!
//! A volume under a name of the operator is not refused: the original leaves it out in favour of its own, and so do we.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::owned::{Owned, filled, listed, owned, refuse};
use super::violation::Violation;

const FIELDS: [Owned<PodSpec>; 13] = [
    owned(
        "terminationGracePeriodSeconds",
        |pod| pod.termination_grace_period_seconds.is_some(),
        "The operator decides how long a pod may take to stop.",
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
        "Pods of the operator are always restarted.",
    ),
    owned("hostNetwork", |pod| pod.host_network == Some(true), ISOLATION),
    owned("hostPID", |pod| pod.host_pid == Some(true), ISOLATION),
    owned("hostIPC", |pod| pod.host_ipc == Some(true), ISOLATION),
    owned(
        "shareProcessNamespace",
        |pod| pod.share_process_namespace.is_some(),
        "The operator decides what the containers of a pod share.",
    ),
    owned(
        "hostUsers",
        |pod| pod.host_users.is_some(),
        "The operator decides which users the pods run as on their nodes.",
    ),
    owned(
        "enableServiceLinks",
        |pod| pod.enable_service_links == Some(true),
        "Variables for other Services could change settings of the pods.",
    ),
    owned(
        "ephemeralContainers",
        |pod| listed(pod.ephemeral_containers.as_ref()),
        "Ephemeral containers are added to running pods, with kubectl debug.",
    ),
];
const NAMES: &str = "Pods are found by the names that the operator gives them.";
const ISOLATION: &str = "Pods do not share the namespaces of their nodes.";

/// Refuses fields that the operator decides about.
pub(super) fn fields(template: &PodTemplateSpec) -> Vec<Violation> {
    let spec = template.spec.iter();
    spec.flat_map(|spec| refuse(&FIELDS, spec, "spec")).collect()
}

#[cfg(test)]
mod tests {
    use crate::admit::Kind;
    use crate::admit::fixture::{accepts, refuses};
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
        refuses(
            &template(bad),
            &[(&format!("spec.{field}"), Kind::Forbidden, "Remove this field.")],
        );
        accepts(&template(good));
    }
}
