//! Rules for sidecars: unique names, and no mounts of secrets.

use std::collections::HashSet;

use super::Template;
use crate::admit::violation::{Violation, ViolationKind};

/// Rejects the name of an earlier container. Names of the operator are rejected by another rule.
pub(super) fn names(template: &Template) -> Vec<Violation> {
    let mut seen = HashSet::new();
    let mut refused = Vec::new();
    for (path, container) in template.sidecars() {
        let name = container.name.as_str();
        if template.component.containers.contains(&name) {
            continue;
        }
        if !seen.insert(name) {
            refused.push(Violation::new(
                format!("{path}.name"),
                ViolationKind::Duplicate,
                format!("Another container of the pod is named {name}. Choose another name."),
            ));
        }
    }
    refused
}

/// Rejects mounts of volumes of the operator that contain secrets. Its other volumes are available to all containers.
pub(super) fn mounts(template: &Template) -> Vec<Violation> {
    let mounts = template.sidecars().flat_map(|(path, container)| {
        let mounts = container.volume_mounts.iter().flatten().enumerate();
        mounts.map(move |(index, mount)| (format!("{path}.volumeMounts[{index}].name"), mount))
    });
    let secret = mounts.filter(|(_, mount)| template.component.secret_volumes.contains(&mount.name.as_str()));
    let refused = secret.map(|(path, mount)| {
        Violation::new(
            path,
            ViolationKind::Forbidden,
            format!(
                "The volume {} contains a secret that only containers of the operator may read. Remove this entry.",
                mount.name
            ),
        )
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::Target;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn named(names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| json!({ "name": name })).collect()
    }

    #[rstest]
    #[case::beside(&["a", "b", "a"], &[], &["spec.containers[2].name"])]
    #[case::before(&[], &["a", "a"], &["spec.initContainers[1].name"])]
    #[case::across(&["a"], &["b", "a"], &["spec.initContainers[a].name"])]
    #[case::thrice(&["a", "a"], &["a"], &["spec.containers[1].name", "spec.initContainers[a].name"])]
    #[case::distinct(&["a", "b"], &["c", "d"], &[])]
    fn containers_of_users_have_different_names(
        #[case] containers: &[&str],
        #[case] init_containers: &[&str],
        #[case] paths: &[&str],
        #[values(Target::Engine, Target::Metadata, Target::Gateway)] of: Target,
    ) {
        let template = json!({ "spec": { "containers": named(containers), "initContainers": named(init_containers) } });
        let expected: Vec<_> = paths
            .iter()
            .map(|path| (*path, ViolationKind::Duplicate, "named a"))
            .collect();
        of.rejects(&template, &expected);
    }

    #[test]
    fn a_name_of_the_operator_is_refused_once() {
        let template =
            json!({ "spec": { "containers": named(&["wake-agent"]), "initContainers": named(&["wake-agent"]) } });
        let paths = [
            "spec.containers[wake-agent].name",
            "spec.initContainers[wake-agent].name",
        ];
        Target::Gateway.rejects(
            &template,
            &paths.map(|path| (path, ViolationKind::Forbidden, "wake-agent")),
        );
    }

    #[rstest]
    #[case(Target::Metadata, "postgres-creds", true)]
    #[case(Target::Metadata, "config", false)]
    #[case(Target::Metadata, "tmp", false)]
    #[case(Target::Gateway, "wake-agent-token", true)]
    #[case(Target::Gateway, "config-volume", false)]
    #[case(Target::Gateway, "tmp", false)]
    #[case(Target::Gateway, "postgres-creds", false)]
    fn volumes_with_secrets_are_closed_to_containers_of_users(
        #[case] of: Target,
        #[case] volume: &str,
        #[case] refused: bool,
    ) {
        let mounts = json!([{ "name": "v", "mountPath": "/v" }, { "name": volume, "mountPath": "/x" }]);
        let template = json!({ "spec": {
            "containers": [{ "name": "proxy", "volumeMounts": mounts }],
            "initContainers": [{ "name": "warm", "volumeMounts": mounts }],
        } });
        if refused {
            let paths = [
                "spec.containers[proxy].volumeMounts[1].name",
                "spec.initContainers[warm].volumeMounts[1].name",
            ];
            of.rejects(
                &template,
                &paths.map(|path| (path, ViolationKind::Forbidden, "contains a secret")),
            );
        } else {
            of.accepts(&template);
        }
    }
}
