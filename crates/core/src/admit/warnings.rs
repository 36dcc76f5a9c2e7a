//! Warnings about accepted objects, for the admission response.

use firebolt_api::{FireboltEngine, FireboltInstance};

use super::engine::EngineContext;
use crate::admit::template::ENGINE;
use crate::names;

/// Warnings about an engine.
#[must_use]
pub fn engine_warnings(engine: &FireboltEngine, around: &EngineContext) -> Vec<String> {
    let mut warnings = replaced_volumes(engine);
    if around.instance.is_none() {
        warnings.push(format!(
            "spec.instanceRef: FireboltInstance {} does not exist in namespace {}. Create it; the engine then starts.",
            engine.spec.instance_ref,
            engine.metadata.namespace.as_deref().unwrap_or_default()
        ));
    }
    warnings
}

/// Warnings about a change of an instance that these engines reference. Whether a new host serves the same database
/// cannot be known here.
#[must_use]
pub fn instance_warnings(old: &FireboltInstance, new: &FireboltInstance, engines: &[String]) -> Vec<String> {
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
    let warnings = (moved && !engines.is_empty()).then(|| {
        format!(
            "spec.metadata.postgres: The new database must already contain the metadata of {}; nothing is copied.",
            names::engines(engines)
        )
    });
    warnings.into_iter().collect()
}

/// Volumes of the engine that are replaced by volumes of the operator.
fn replaced_volumes(engine: &FireboltEngine) -> Vec<String> {
    let specs = engine
        .spec
        .template
        .iter()
        .filter_map(|template| template.spec.as_ref());
    let volumes = specs.flat_map(|spec| spec.volumes.iter().flatten()).enumerate();
    let replaced = volumes.filter(|(_, volume)| ENGINE.volumes.contains(&volume.name.as_str()));
    // There are no more names than that; further ones are duplicates.
    let replaced = replaced.take(ENGINE.volumes.len());
    let warnings = replaced.map(|(index, volume)| {
        format!(
            "{}.spec.volumes[{index}]: The name {} is used by a volume of the operator, so this volume is not added to \
             the pods. Rename or remove it.",
            ENGINE.path, volume.name
        )
    });
    warnings.collect()
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
    fn a_change_of_the_database_is_warned_about(#[case] before: &str, #[case] after: &str, #[case] warned: bool) {
        let instance = |host: &str| {
            let postgres = json!({ "host": host, "database": "d", "credentialsSecretRef": { "name": "s" } });
            fixture::instance(&json!({ "postgres": postgres }), &json!({}))
        };
        let (old, new) = (instance(before), instance(after));
        assert_eq!(
            instance_warnings(&old, &new, &["a".to_owned()]).len(),
            usize::from(warned)
        );
        assert_eq!(instance_warnings(&old, &new, &[]), [""; 0]);
    }
}
