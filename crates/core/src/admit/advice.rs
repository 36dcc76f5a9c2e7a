//! What is accepted and may still surprise: sentences for the warnings of an admission answer.

use firebolt_api::FireboltEngine;

use super::component::ENGINE;
use super::engine::EngineSurroundings;

/// What whoever writes the engine should know.
#[must_use]
pub fn advice(engine: &FireboltEngine, around: &EngineSurroundings) -> Vec<String> {
    let mut advice = replaced_volumes(engine);
    if around.instance.is_none() {
        advice.push(format!(
            "spec.instanceRef: FireboltInstance {} does not exist in namespace {}. Create it; the engine starts then.",
            engine.spec.instance_ref,
            engine.metadata.namespace.as_deref().unwrap_or_default()
        ));
    }
    advice
}

/// Volumes of the engine that its pods have the operator's in place of.
fn replaced_volumes(engine: &FireboltEngine) -> Vec<String> {
    let specs = engine
        .spec
        .template
        .iter()
        .filter_map(|template| template.spec.as_ref());
    let volumes = specs.flat_map(|spec| spec.volumes.iter().flatten()).enumerate();
    let replaced = volumes.filter(|(_, volume)| ENGINE.volumes.contains(&volume.name.as_str()));
    let advice = replaced.map(|(index, volume)| {
        format!(
            "{}.spec.volumes[{index}]: The name {} belongs to a volume of the operator, and this one is left out of the \
             pods. Rename it, or remove it.",
            ENGINE.path, volume.name
        )
    });
    advice.collect()
}
