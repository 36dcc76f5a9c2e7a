//! Rules for the metadata of a pod template: only labels and annotations, without reserved keys.

use std::collections::BTreeMap;

use firebolt_api::key::RESERVED_PREFIX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Template;
use super::owned::{Owned, filled, listed, owned, refuse};
use crate::admit::violation::{Violation, ViolationKind};

/// All fields except labels and annotations: Kubernetes and the operator set them for each pod.
const FIELDS: [Owned<ObjectMeta>; 13] = [
    owned("name", |metadata| filled(metadata.name.as_ref()), WHY),
    owned("generateName", |metadata| filled(metadata.generate_name.as_ref()), WHY),
    owned("namespace", |metadata| filled(metadata.namespace.as_ref()), WHY),
    owned("selfLink", |metadata| filled(metadata.self_link.as_ref()), WHY),
    owned("uid", |metadata| filled(metadata.uid.as_ref()), WHY),
    owned(
        "resourceVersion",
        |metadata| filled(metadata.resource_version.as_ref()),
        WHY,
    ),
    owned(
        "generation",
        |metadata| metadata.generation.is_some_and(|number| number != 0),
        WHY,
    ),
    owned(
        "creationTimestamp",
        |metadata| metadata.creation_timestamp.is_some(),
        WHY,
    ),
    owned(
        "deletionTimestamp",
        |metadata| metadata.deletion_timestamp.is_some(),
        WHY,
    ),
    owned(
        "deletionGracePeriodSeconds",
        |metadata| metadata.deletion_grace_period_seconds.is_some(),
        WHY,
    ),
    owned(
        "ownerReferences",
        |metadata| listed(metadata.owner_references.as_ref()),
        WHY,
    ),
    owned("finalizers", |metadata| listed(metadata.finalizers.as_ref()), WHY),
    owned(
        "managedFields",
        |metadata| listed(metadata.managed_fields.as_ref()),
        WHY,
    ),
];

const WHY: &str = "In the metadata of a template, only labels and annotations can be set.";

/// Rejects all fields except labels and annotations.
pub(super) fn fields(template: &Template) -> Vec<Violation> {
    let metadata = template.pod.metadata.iter();
    metadata
        .flat_map(|metadata| refuse(&FIELDS, metadata, "metadata"))
        .collect()
}

/// Rejects reserved keys of labels and annotations.
pub(super) fn keys(template: &Template) -> Vec<Violation> {
    let Some(metadata) = &template.pod.metadata else {
        return Vec::new();
    };
    let labels = reserved("labels", metadata.labels.as_ref());
    labels
        .chain(reserved("annotations", metadata.annotations.as_ref()))
        .collect()
}

fn reserved(list: &'static str, entries: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = Violation> {
    let keys = entries.into_iter().flat_map(BTreeMap::keys);
    let reserved = keys.filter(|key| key.starts_with(RESERVED_PREFIX));
    reserved.map(move |key| {
        Violation::new(
            format!("metadata.{list}[{key}]"),
            ViolationKind::Forbidden,
            format!("Keys with the prefix {RESERVED_PREFIX} are reserved for the operator. Remove or rename this key."),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture::{all_accept, all_reject};
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case::name("name", json!("n"), json!(""))]
    #[case::generate_name("generateName", json!("n-"), json!(""))]
    #[case::namespace("namespace", json!("n"), json!(""))]
    #[case::self_link("selfLink", json!("/api"), json!(""))]
    #[case::uid("uid", json!("u"), json!(""))]
    #[case::resource_version("resourceVersion", json!("1"), json!(""))]
    #[case::generation("generation", json!(1), json!(0))]
    #[case::creation("creationTimestamp", json!("2026-01-01T00:00:00Z"), json!(null))]
    #[case::deletion("deletionTimestamp", json!("2026-01-01T00:00:00Z"), json!(null))]
    #[case::grace_period("deletionGracePeriodSeconds", json!(0), json!(null))]
    #[case::owners("ownerReferences", json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" }]), json!([]))]
    #[case::finalizers("finalizers", json!(["example.com/f"]), json!([]))]
    #[case::managed_fields("managedFields", json!([{ "manager": "m" }]), json!([]))]
    fn only_labels_and_annotations_can_be_set(#[case] field: &str, #[case] bad: Value, #[case] good: Value) {
        let template = |value: Value| json!({ "metadata": { field: value } });
        all_reject(
            &template(bad),
            &[(
                &format!("metadata.{field}"),
                ViolationKind::Forbidden,
                "only labels and annotations",
            )],
        );
        all_accept(&template(good));
    }

    #[rstest]
    #[case::ours("", true)]
    #[case::api_group("compute.", false)]
    #[case::of_a_user("example.com/", false)]
    #[case::other_domain("my", false)]
    fn keys_of_the_operator_are_refused(
        #[case] before: &str,
        #[case] refused: bool,
        #[values("labels", "annotations")] list: &str,
    ) {
        let key = format!("{before}{RESERVED_PREFIX}x");
        let template = json!({ "metadata": { list: { &key: "v" } } });
        if refused {
            let path = format!("metadata.{list}[{key}]");
            all_reject(
                &template,
                &[(&path, ViolationKind::Forbidden, "are reserved for the operator")],
            );
        } else {
            all_accept(&template);
        }
    }

    #[test]
    fn the_domain_alone_is_no_prefix() {
        let domain = RESERVED_PREFIX.trim_end_matches('/');
        all_accept(&json!({ "metadata": { "labels": { domain: "v" } } }));
    }
}
