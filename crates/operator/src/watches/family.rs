//! Whose objects a cache holds. Label selectors know no "or", so each family has streams and stores of its own.

use firebolt_api::key::Label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::key::ObjectKey;
use crate::settings::{LabelSelector, Settings};

/// Which objects of a kind are watched, and what is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Those that users write.
    Root,
    /// Those that carry the name of an engine.
    OfEngines,
    /// Those that carry the name of an instance.
    OfInstances,
}

impl Family {
    fn label(self) -> Option<Label> {
        match self {
            Self::Root => None,
            Self::OfEngines => Some(Label::Engine),
            Self::OfInstances => Some(Label::Instance),
        }
    }

    /// Which objects are watched, as a label selector; none for all.
    pub(super) fn selector(self, settings: &Settings) -> Option<String> {
        match self.label() {
            Some(label) => Some(label.key().to_owned()),
            None => settings.selector.to_parameter(),
        }
    }

    /// The part of the selector that a user wrote.
    pub(super) fn users_selector(self, settings: &Settings) -> LabelSelector {
        match self {
            Self::Root => settings.selector.clone(),
            Self::OfEngines | Self::OfInstances => LabelSelector::default(),
        }
    }

    /// The engine or instance that an object with this metadata belongs to, as far as its labels say. Known even of an
    /// object that cannot be read.
    #[must_use]
    pub fn owner(self, metadata: &ObjectMeta) -> Option<ObjectKey> {
        let name = metadata.labels.as_ref()?.get(self.label()?.key())?;
        Some(ObjectKey::new(metadata.namespace.as_ref()?, name))
    }

    /// What is watched and where, for messages.
    pub(super) fn describe(self, kind: &str, namespace: Option<&str>) -> String {
        let whose = match self {
            Self::Root => "",
            Self::OfEngines => " of engines",
            Self::OfInstances => " of instances",
        };
        match namespace {
            Some(namespace) => format!("{kind}{whose} in namespace {namespace}"),
            None => format!("{kind}{whose}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Family::Root, None)]
    #[case(Family::OfEngines, Some("e"))]
    #[case(Family::OfInstances, Some("i"))]
    fn an_object_belongs_to_what_the_label_of_the_family_names(#[case] family: Family, #[case] owner: Option<&str>) {
        let labels = [(Label::Engine, "e"), (Label::Instance, "i")];
        let metadata = ObjectMeta {
            namespace: Some("n".to_owned()),
            labels: Some(
                labels
                    .map(|(label, name)| (label.key().to_owned(), name.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        };
        assert_eq!(family.owner(&metadata), owner.map(|owner| ObjectKey::new("n", owner)));
        assert_eq!(family.owner(&ObjectMeta::default()), None);
    }

    #[test]
    fn a_message_says_whose_objects_are_meant_and_where() {
        assert_eq!(Family::Root.describe("FireboltEngine", None), "FireboltEngine");
        assert_eq!(
            Family::OfInstances.describe("Pod", Some("n")),
            "Pod of instances in namespace n"
        );
    }
}
