//! Rules for the volumes of an instance component: their names.

use super::Template;
use crate::admit::violation::{Violation, ViolationKind};

/// Rejects volumes with names of the operator.
pub(super) fn names(template: &Template) -> Vec<Violation> {
    let volumes = template.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let reserved = volumes
        .enumerate()
        .filter(|(_, volume)| template.component.volumes.contains(&volume.name.as_str()));
    let refused = reserved.map(|(index, volume)| {
        Violation::new(
            format!("spec.volumes[{index}].name"),
            ViolationKind::Forbidden,
            format!(
                "The volume name {} is reserved for the operator. Choose another name.",
                volume.name
            ),
        )
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use crate::admit::ViolationKind;
    use crate::admit::fixture::Target;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(Target::Metadata, "config", true)]
    #[case(Target::Metadata, "postgres-creds", true)]
    #[case(Target::Metadata, "tmp", true)]
    #[case(Target::Metadata, "config-volume", false)]
    #[case(Target::Gateway, "config-volume", true)]
    #[case(Target::Gateway, "tmp", true)]
    #[case(Target::Gateway, "wake-agent-token", true)]
    #[case(Target::Gateway, "config", false)]
    #[case::left_out_when_rendered(Target::Engine, "data", false)]
    fn volumes_of_the_operator_are_refused(#[case] of: Target, #[case] name: &str, #[case] refused: bool) {
        let template =
            json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }, { "name": name, "emptyDir": {} }] } });
        if refused {
            let expected = [("spec.volumes[1].name", ViolationKind::Forbidden, name)];
            of.rejects(&template, &expected);
        } else {
            of.accepts(&template);
        }
    }
}
