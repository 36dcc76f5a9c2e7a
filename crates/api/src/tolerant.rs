//! Deserialization of values that another version of the operator may have written.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A known value, or `None`: a value that a newer version introduced must not make the whole object unreadable.
pub(crate) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{EnginePhase, FireboltEngineStatus, FireboltInstanceStatus, InstancePhase};

    #[test]
    fn a_phase_of_a_newer_version_is_none() {
        let instance = |phase: &str| -> FireboltInstanceStatus {
            serde_json::from_value(json!({ "phase": phase, "metadataReady": true })).expect("a status")
        };
        assert_eq!(instance("Ready").phase, Some(InstancePhase::Ready));
        assert_eq!(instance("Hibernating").phase, None);
        assert!(instance("Hibernating").metadata_ready, "the rest is read");
        let engine = |phase: &str| -> FireboltEngineStatus {
            let status = json!({ "phase": phase, "currentGeneration": 1, "activeGeneration": 1 });
            serde_json::from_value(status).expect("a status")
        };
        assert_eq!(engine("stable").phase, Some(EnginePhase::Stable));
        assert_eq!(engine("hibernating").phase, None);
    }
}
