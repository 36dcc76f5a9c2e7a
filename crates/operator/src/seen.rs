//! What every object in the cluster says of itself, whatever its kind.

use firebolt_core::plan::Meta;
use kube::{Resource, ResourceExt};

/// Identity, owner and deletion of an object, as seen by the one with this UID.
pub fn meta<K: Resource>(object: &K, owner: &str) -> Meta {
    let owners = object.owner_references().iter();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    Meta {
        uid: object.uid().unwrap_or_default(),
        owned: controllers.any(|controller| controller.uid == owner),
        terminating: object.meta().deletion_timestamp.is_some(),
        foreign_finalizers: object
            .finalizers()
            .iter()
            .filter(|name| is_foreign(name))
            .cloned()
            .collect(),
    }
}

/// Kubernetes takes its own finalizers off by itself.
fn is_foreign(finalizer: &str) -> bool {
    let Some((domain, _)) = finalizer.split_once('/') else {
        return false;
    };
    !(domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("foregroundDeletion", false)]
    #[case("service.kubernetes.io/load-balancer-cleanup", false)]
    #[case("example.com/hold", true)]
    #[case("notkubernetes.io/hold", true)]
    fn finalizers_of_kubernetes_are_not_foreign(#[case] finalizer: &str, #[case] foreign: bool) {
        let mut held = ConfigMap::default();
        held.metadata.finalizers = Some(vec![finalizer.to_owned()]);
        assert_eq!(!meta(&held, "u").foreign_finalizers.is_empty(), foreign);
    }
}
