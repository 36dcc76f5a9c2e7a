//! `compare`: what was observed in the cluster, against what is desired.
//!
//! The input is the objects as the API server or a cache has them; the output is the observed state that `plan` decides
//! from. Nothing is read or written here.

mod changes;
pub mod engine;
pub mod instance;
mod terminating;
pub mod warning;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::plan::Meta;

/// Identity, owner and deletion of an object, as seen by the owner with this UID.
fn meta<K: Metadata<Ty = ObjectMeta>>(object: &K, owner: &str) -> Meta {
    meta_of(object.metadata(), owner)
}

fn meta_of(metadata: &ObjectMeta, owner: &str) -> Meta {
    let mut owners = metadata.owner_references.iter().flatten();
    let finalizers = metadata.finalizers.iter().flatten();
    Meta {
        uid: metadata.uid.clone().unwrap_or_default(),
        owned: owners.any(|reference| reference.controller == Some(true) && reference.uid == owner),
        terminating: metadata.deletion_timestamp.is_some(),
        foreign_finalizers: finalizers.filter(|name| is_foreign(name)).cloned().collect(),
    }
}

/// Kubernetes removes its own finalizers by itself.
fn is_foreign(finalizer: &str) -> bool {
    let Some((domain, _)) = finalizer.split_once('/') else {
        return false;
    };
    !(domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io"))
}

fn name_of<K: Metadata<Ty = ObjectMeta>>(object: &K) -> &str {
    object.metadata().name.as_deref().unwrap_or_default()
}

/// The object of this name.
fn named<'a, K: Metadata<Ty = ObjectMeta>>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects.iter().find(|object| name_of(*object) == name)
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
