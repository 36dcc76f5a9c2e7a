//! Pods that another version of the operator rendered stay as they are until what users say about them changes.
//!
//! A component is judged as a whole: its pods and the ConfigMap that they mount stay together, or are rendered anew together.

use std::collections::{BTreeMap, BTreeSet};

use firebolt_api::key::Annotation;
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::objects::data_hash;
use super::{InstanceObjects, Rendered};
use crate::canonical;
use crate::compare::{meta, named};
use crate::plan::instance::{Component, InstanceObject};
use crate::render::instance::{
    Inputs, Workload, is_comparable, recorded, recorded_pods, with_records, without_records,
};
use crate::render::with_template_hash;
use crate::resolve::instance::{EffectiveInstance, Postgres};

/// What is rendered, with the pods of outdated components as they were rendered then.
pub(super) struct OutdatedComponents<'a> {
    pub effective: &'a EffectiveInstance,
    pub live: &'a InstanceObjects,
    /// Whether all that users say was applied. What records no inputs is then taken to have the current ones.
    pub settled: bool,
}

impl OutdatedComponents<'_> {
    /// Replaces the renderings of outdated components by what was rendered then. Returns these components.
    pub(super) fn keep(&self, renderings: &mut BTreeMap<InstanceObject, Rendered>) -> BTreeSet<Component> {
        let components = [
            (InstanceObject::PostgresSet, None),
            (InstanceObject::MetadataDeployment, Some(InstanceObject::MetadataConfig)),
            (InstanceObject::GatewayDeployment, Some(InstanceObject::GatewayConfig)),
        ];
        let mut outdated = BTreeSet::new();
        for (workload, config) in components {
            if workload == InstanceObject::PostgresSet && matches!(self.effective.postgres, Postgres::External(_)) {
                continue;
            }
            let Some(kept) = self.kept_workload(workload, renderings, config) else {
                continue;
            };
            renderings.insert(workload, kept);
            if let Some(config) = config
                && let Some(live) = self.live_config(config)
                && let Some(Rendered::ConfigMap(rendered)) = renderings.get_mut(&config)
            {
                *rendered = kept_config(rendered, live);
            }
            outdated.insert(workload.component());
        }
        outdated
    }

    fn live_config(&self, config: InstanceObject) -> Option<&ConfigMap> {
        self.owned(named(&self.live.config_maps, &config.name(&self.effective.name)))
    }

    fn owned<'a, K: Metadata<Ty = ObjectMeta>>(&self, live: Option<&'a K>) -> Option<&'a K> {
        live.filter(|live| meta(*live, &self.effective.uid).owned)
    }

    /// The workload with the pods of its older rendering; none if it is to be rendered anew.
    fn kept_workload(
        &self,
        object: InstanceObject,
        renderings: &BTreeMap<InstanceObject, Rendered>,
        config: Option<InstanceObject>,
    ) -> Option<Rendered> {
        let name = object.name(&self.effective.name);
        // Pods cannot stay without their configuration.
        let config = match config {
            None => None,
            Some(config) => Some(data_hash(self.live_config(config)?)),
        };
        match renderings.get(&object)? {
            Rendered::StatefulSet(rendered) => {
                let live = self.owned(named(&self.live.stateful_sets, &name))?;
                self.kept(rendered, live, config).map(Rendered::StatefulSet)
            }
            Rendered::Deployment(rendered) => {
                let live = self.owned(named(&self.live.deployments, &name))?;
                self.kept(rendered, live, config).map(Rendered::Deployment)
            }
            Rendered::Service(_)
            | Rendered::ConfigMap(_)
            | Rendered::ServiceAccount(_)
            | Rendered::Role(_)
            | Rendered::RoleBinding(_)
            | Rendered::PodDisruptionBudget(_) => None,
        }
    }

    fn kept<W: Workload>(&self, rendered: &W, live: &W, config: Option<String>) -> Option<W> {
        let pods = match recorded(live, Annotation::InputsHash).filter(|hash| is_comparable(hash)) {
            Some(inputs) => {
                let same = recorded(rendered, Annotation::InputsHash) == Some(inputs)
                    && recorded(live, Annotation::ConfigHash) == config.as_deref();
                same.then(|| recorded_pods(live))??
            }
            None => self.unrecorded_pods(rendered, live)?,
        };
        if recorded(rendered, Annotation::RenderingHash) == Some(canonical::hash(&pods).as_str()) {
            return None;
        }
        let mut kept = rendered.clone();
        kept.set_pod_template(pods);
        let hash = recorded(rendered, Annotation::InputsHash)?.to_owned();
        Some(with_records(kept, Inputs { hash, config }))
    }

    /// The pods of a workload whose inputs an earlier build did not record: as they run, because that is all there is.
    fn unrecorded_pods<W: Workload>(&self, rendered: &W, live: &W) -> Option<PodTemplateSpec> {
        let pods = live.pod_template()?;
        let same = self.settled && credentials_hash(pods) == credentials_hash(rendered.pod_template()?);
        let earlier = canonical::hash(&without_records(rendered.clone()));
        let outdated = recorded(live, Annotation::TemplateHash) != Some(earlier.as_str());
        (same && outdated).then(|| recorded_pods(live).unwrap_or_else(|| pods.clone()))
    }
}

/// Read at start by pods, and changed without a change of the instance.
fn credentials_hash(pods: &PodTemplateSpec) -> Option<&String> {
    let annotations = pods.metadata.as_ref()?.annotations.as_ref()?;
    annotations.get(Annotation::CredentialsHash.key())
}

/// The ConfigMap with the data of its older rendering.
fn kept_config(rendered: &ConfigMap, live: &ConfigMap) -> ConfigMap {
    let mut kept = rendered.clone();
    kept.data.clone_from(&live.data);
    with_template_hash(kept)
}
