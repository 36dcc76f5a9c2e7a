//! Whose objects a cache holds. A label selector cannot express "or", so each owner kind has streams and stores of its own.

use firebolt_api::key::Label;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::informer::{Index, Watched};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// The kind of the owners of the objects in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKind {
    /// None: users write the objects.
    None,
    /// The objects carry the name of an engine as a label.
    Engine,
    /// The objects carry the name of an instance as a label.
    Instance,
}

impl OwnerKind {
    /// The label that names the owner.
    pub(crate) fn label(self) -> Option<Label> {
        match self {
            Self::None => None,
            Self::Engine => Some(Label::Engine),
            Self::Instance => Some(Label::Instance),
        }
    }

    /// The engine or instance that the labels of an object name as its owner.
    fn owner(self, metadata: &ObjectMeta) -> Option<ObjectKey> {
        let name = metadata.labels.as_ref()?.get(self.label()?.key())?;
        Some(ObjectKey::new(metadata.namespace.as_ref()?, name))
    }

    /// What is watched, for messages.
    pub(crate) fn describe(self, kind: &str) -> String {
        let whose = match self {
            Self::None => "",
            Self::Engine => " of engines",
            Self::Instance => " of instances",
        };
        format!("{kind}{whose}")
    }
}

/// The index of objects by the engine that owns them. Objects that cannot be read are in it too.
pub(crate) fn by_engine<K: Watched>() -> Index<K> {
    Index {
        name: "engine",
        value: |object| OwnerKind::Engine.owner(object.meta()),
    }
}

/// The index of objects by the instance that owns them. Objects that cannot be read are in it too.
pub(crate) fn by_instance<K: Watched>() -> Index<K> {
    Index {
        name: "instance",
        value: |object| OwnerKind::Instance.owner(object.meta()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(OwnerKind::None, None)]
    #[case(OwnerKind::Engine, Some("e"))]
    #[case(OwnerKind::Instance, Some("i"))]
    fn the_owner_of_an_object_is_named_by_a_label(#[case] kind: OwnerKind, #[case] owner: Option<&str>) {
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
        assert_eq!(kind.owner(&metadata), owner.map(|owner| ObjectKey::new("n", owner)));
        assert_eq!(kind.owner(&ObjectMeta::default()), None);
    }

    #[test]
    fn a_message_names_the_owner_kind() {
        assert_eq!(OwnerKind::None.describe("FireboltEngine"), "FireboltEngine");
        assert_eq!(OwnerKind::Instance.describe("Pod"), "Pod of instances");
    }
}
