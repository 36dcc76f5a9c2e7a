//! What is accepted and may still surprise: sentences for the warnings of an admission answer.

use firebolt_api::{FireboltEngine, FireboltInstance};

use super::component::ENGINE;
use super::engine::EngineSurroundings;
use crate::plan::names;

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

/// What may surprise about a change of an instance that these engines refer to. Whether another host has the same database
/// behind it, nobody here can tell.
#[must_use]
pub fn instance_advice(old: &FireboltInstance, new: &FireboltInstance, engines: &[String]) -> Vec<String> {
    let location = |instance: &FireboltInstance| {
        let postgres = instance.spec.metadata.postgres.as_ref()?;
        Some((
            postgres.host.clone(),
            postgres.port,
            postgres.database.clone(),
            postgres.schema.clone(),
        ))
    };
    let moved = matches!((location(old), location(new)), (Some(before), Some(after)) if before != after);
    let advice = (moved && !engines.is_empty()).then(|| {
        format!(
            "spec.metadata.postgres: The metadata of {} must be in the new database already; nothing is copied.",
            names::engines(engines)
        )
    });
    advice.into_iter().collect()
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
    // There are no more names than that; more can only be repetitions.
    let replaced = replaced.take(ENGINE.volumes.len());
    let advice = replaced.map(|(index, volume)| {
        format!(
            "{}.spec.volumes[{index}]: The name {} belongs to a volume of the operator, and this one is left out of the \
             pods. Rename it, or remove it.",
            ENGINE.path, volume.name
        )
    });
    advice.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::fixture;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::same("h", "h", false)]
    #[case::moved("h", "g", true)]
    fn a_database_that_moves_is_worth_a_word(#[case] before: &str, #[case] after: &str, #[case] warned: bool) {
        let instance = |host: &str| {
            let postgres = json!({ "host": host, "database": "d", "credentialsSecretRef": { "name": "s" } });
            fixture::instance(&json!({ "postgres": postgres }), &json!({}))
        };
        let (old, new) = (instance(before), instance(after));
        assert_eq!(
            instance_advice(&old, &new, &["a".to_owned()]).len(),
            usize::from(warned)
        );
        assert_eq!(instance_advice(&old, &new, &[]), [""; 0]);
    }
}
