//! Rules for the volumes of an instance component: their names.

use super::component::Template;
use super::violation::{Kind, Violation};

/// Refuses volumes under names of the operator.
pub(super) fn names(template: &Template) -> Vec<Violation> {
    let volumes = template.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let reserved = volumes
        .enumerate()
        .filter(|(_, volume)| template.component.volumes.contains(&volume.name.as_str()));
    let refused = reserved.map(|(index, volume)| {
        Violation::new(
            format!("spec.volumes[{index}].name"),
            Kind::Forbidden,
            format!(
                "The volume {} belongs to the operator. Choose another name.",
                volume.name
            ),
        )
    });
    refused.collect()
}

#[cfg(test)]
mod tests {
    use crate::admit::Kind;
    use crate::admit::fixture::Of;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(Of::Metadata, "config", true)]
    #[case(Of::Metadata, "postgres-creds", true)]
    #[case(Of::Metadata, "tmp", true)]
    #[case(Of::Metadata, "config-volume", false)]
    #[case(Of::Gateway, "config-volume", true)]
    #[case(Of::Gateway, "tmp", true)]
    #[case(Of::Gateway, "wake-agent-token", true)]
    #[case(Of::Gateway, "config", false)]
    #[case::left_out_when_rendered(Of::Engine, "data", false)]
    fn volumes_of_the_operator_are_refused(#[case] of: Of, #[case] name: &str, #[case] refused: bool) {
        let template =
            json!({ "spec": { "volumes": [{ "name": "v", "emptyDir": {} }, { "name": name, "emptyDir": {} }] } });
        if refused {
            let expected = [("spec.volumes[1].name", Kind::Forbidden, name)];
            of.refuses(&template, &expected);
        } else {
            of.accepts(&template);
        }
    }
}
