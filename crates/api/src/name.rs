//! Names of the objects that are derived from a custom resource, and the limits that keep these names valid.
//!
//! The strictest limit comes from a label: the StatefulSet controller labels each pod with `<statefulset>-<hash>`, and
//! a label value has at most 63 characters.

/// Number of generations with names of their own. The names of later ones start again at `-g0`, whose objects are long gone;
/// their labels have the full number.
pub const GENERATION_NAMES: i64 = 100_000;
/// Highest replica count of an engine. Pod ordinals end one below it.
pub(crate) const MAX_REPLICAS: i32 = 1_000;

/// Maximum length of a DNS label and of a label value.
const LABEL_LIMIT: usize = 63;
/// Suffix of the revision label of a StatefulSet: a dash and at most ten characters.
const REVISION_SUFFIX: usize = "-".len() + 10;

/// Maximum length of the name of a FireboltEngine.
pub const MAX_ENGINE_NAME: usize = LABEL_LIMIT - "-g99999".len() - REVISION_SUFFIX;
/// Maximum length of the name of a FireboltInstance.
pub(crate) const MAX_INSTANCE_NAME: usize = LABEL_LIMIT - POSTGRES_SUFFIX.len() - REVISION_SUFFIX;
/// Maximum length of the name of a FireboltEngineClass. No object is named after a class; the limit keeps the name
/// usable as a label value.
pub(crate) const MAX_ENGINE_CLASS_NAME: usize = LABEL_LIMIT;

const POSTGRES_SUFFIX: &str = "-metadata-pg";

/// Whether a text is a DNS label, as the names of namespaces, engines and instances are.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=LABEL_LIMIT).contains(&text.len())
        && text.chars().all(|c| is_alphanumeric(c) || c == '-')
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
}

/// The objects of one engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineNames<'a>(pub &'a str);

impl EngineNames<'_> {
    /// The Service that clients and the gateway connect to. Its selector is the blue-green switch.
    #[must_use]
    pub fn routing_service(self) -> String {
        format!("{}-service", self.0)
    }

    /// The StatefulSet of one generation.
    #[must_use]
    pub fn stateful_set(self, generation: i64) -> String {
        format!("{}-g{}", self.0, generation.rem_euclid(GENERATION_NAMES))
    }

    /// The headless Service that provides the DNS names of the pods of one generation.
    #[must_use]
    pub fn headless_service(self, generation: i64) -> String {
        format!("{}-hl", self.stateful_set(generation))
    }

    /// The ConfigMap of one generation.
    #[must_use]
    pub fn config_map(self, generation: i64) -> String {
        format!("{}-config", self.stateful_set(generation))
    }

    /// One pod of one generation.
    #[must_use]
    pub fn pod(self, generation: i64, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.stateful_set(generation))
    }
}

/// The objects of one instance.
#[derive(Clone, Copy, Debug)]
pub struct InstanceNames<'a>(pub &'a str);

impl InstanceNames<'_> {
    /// The StatefulSet and the Service of the PostgreSQL server that the operator runs.
    #[must_use]
    pub fn postgres(self) -> String {
        format!("{}{POSTGRES_SUFFIX}", self.0)
    }

    /// The Secret with the credentials of that PostgreSQL server.
    #[must_use]
    pub fn postgres_credentials(self) -> String {
        format!("{}-metadata-postgres-creds", self.0)
    }

    /// The Deployment and the Service of the metadata service.
    #[must_use]
    pub fn metadata(self) -> String {
        format!("{}-metadata", self.0)
    }

    /// The ConfigMap of the metadata service.
    #[must_use]
    pub fn metadata_config(self) -> String {
        format!("{}-metadata-config", self.0)
    }

    /// The Deployment, Service, PodDisruptionBudget and ServiceAccount of the gateway.
    #[must_use]
    pub fn gateway(self) -> String {
        format!("{}-gateway", self.0)
    }

    /// The ConfigMap of the gateway.
    #[must_use]
    pub fn gateway_config(self) -> String {
        format!("{}-gateway-config", self.0)
    }

    /// The Role and RoleBinding that allow the gateway to wake engines.
    #[must_use]
    pub fn gateway_wake(self) -> String {
        format!("{}-gateway-wake", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_objects_are_named_after_engine_and_generation() {
        let names = EngineNames("analytics");
        assert_eq!(names.routing_service(), "analytics-service");
        assert_eq!(names.stateful_set(3), "analytics-g3");
        assert_eq!(names.headless_service(3), "analytics-g3-hl");
        assert_eq!(names.config_map(3), "analytics-g3-config");
        assert_eq!(names.pod(3, 11), "analytics-g3-11");
    }

    #[test]
    fn instance_objects_are_named_after_the_instance() {
        let names = InstanceNames("prod");
        assert_eq!(names.postgres(), "prod-metadata-pg");
        assert_eq!(names.postgres_credentials(), "prod-metadata-postgres-creds");
        assert_eq!(names.metadata(), "prod-metadata");
        assert_eq!(names.metadata_config(), "prod-metadata-config");
        assert_eq!(names.gateway(), "prod-gateway");
        assert_eq!(names.gateway_config(), "prod-gateway-config");
        assert_eq!(names.gateway_wake(), "prod-gateway-wake");
    }

    #[test]
    fn the_longest_engine_name_keeps_every_derived_name_valid() {
        let longest = "e".repeat(MAX_ENGINE_NAME);
        let names = EngineNames(&longest);
        let last = GENERATION_NAMES - 1;
        let revision_label = format!("{}-{}", names.stateful_set(last), "f".repeat(10));
        assert_eq!(revision_label.len(), LABEL_LIMIT);
        for name in [
            names.routing_service(),
            names.headless_service(last),
            names.pod(last, MAX_REPLICAS - 1),
        ] {
            assert!(name.len() <= LABEL_LIMIT, "{name}");
        }
    }

    #[test]
    fn names_start_again_after_the_last_number_that_fits() {
        let names = EngineNames("a");
        assert_eq!(names.stateful_set(99_999), "a-g99999");
        assert_eq!(names.stateful_set(100_000), "a-g0");
        assert_eq!(names.headless_service(100_001), "a-g1-hl");
        assert_eq!(names.config_map(i64::MAX), "a-g75807-config");
    }

    #[test]
    fn the_longest_instance_name_keeps_every_derived_name_valid() {
        let longest = "i".repeat(MAX_INSTANCE_NAME);
        let names = InstanceNames(&longest);
        let revision_label = format!("{}-{}", names.postgres(), "f".repeat(10));
        assert_eq!(revision_label.len(), LABEL_LIMIT);
        for name in [names.postgres(), names.metadata(), names.gateway()] {
            assert!(name.len() <= LABEL_LIMIT, "{name}");
        }
    }
}
