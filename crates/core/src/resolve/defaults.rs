//! The operator's defaults for fields that users leave unset.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Lifecycle, LifecycleHandler, LocalObjectReference, PodSecurityContext, PodSpec,
    PodTemplateSpec, SeccompProfile, SecurityContext, SleepAction,
};

/// The user and group that the engine image runs as.
pub(crate) const ENGINE_USER: i64 = 3473;

/// How long an engine keeps serving after its pod is deleted, in seconds. By then, no gateway knows its address any more.
/// An engine that ended sooner would fail queries that are on their way to it.
pub(crate) const ENGINE_WITHDRAWAL: i64 = 5;

/// Settings of the operator's deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The image of the engine container.
    pub engine_image: String,
    /// The image of the web UI.
    pub ui_image: String,
    /// The image of the PostgreSQL server that the operator runs for an instance.
    pub postgres_image: String,
    /// The image of the metadata service.
    pub metadata_image: String,
    /// The image of the gateway.
    pub envoy_image: String,
    /// The image of the agent beside the gateway that wakes engines.
    pub wake_agent_image: String,
    /// Secrets for pulling images, put before those of users.
    pub image_pull_secrets: Vec<String>,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
}

impl Defaults {
    /// Sets the fields that are unset. Fields that a user has set are kept as a whole.
    pub(super) fn fill(&self, template: &mut PodTemplateSpec) {
        let spec = template.spec.get_or_insert_default();
        fill_pod_security(spec.security_context.get_or_insert_default());
        self.fill_pull_secrets(spec);
        if let Some(engine) = spec.containers.first_mut() {
            self.fill_engine(engine);
        }
    }

    /// Puts the pull secrets of the operator before those of the pod, each once: a list with duplicates cannot be
    /// applied.
    pub(super) fn fill_pull_secrets(&self, pod: &mut PodSpec) {
        let mut secrets = pull_secrets(&self.image_pull_secrets).unwrap_or_default();
        for secret in pod.image_pull_secrets.take().into_iter().flatten() {
            if !secrets.contains(&secret) {
                secrets.push(secret);
            }
        }
        pod.image_pull_secrets = (!secrets.is_empty()).then_some(secrets);
    }

    fn fill_engine(&self, engine: &mut Container) {
        fill_image(engine, &self.engine_image);
        engine.lifecycle.get_or_insert_with(|| withdrawal(ENGINE_WITHDRAWAL));
        engine.security_context.get_or_insert_with(|| hardened(ENGINE_USER));
    }

    /// Values for tests that show where they come from.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            engine_image: "registry.example/engine:1.2.3".to_owned(),
            ui_image: "registry.example/ui:1.2.3".to_owned(),
            postgres_image: "registry.example/postgres:1.2.3".to_owned(),
            metadata_image: "registry.example/metadata:1.2.3".to_owned(),
            envoy_image: "registry.example/envoy:1.2.3".to_owned(),
            wake_agent_image: "registry.example/wake-agent:1.2.3".to_owned(),
            image_pull_secrets: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
        }
    }
}

/// The volumes of a pod must belong to a group that the engine is in, and the standard "restricted" wants a seccomp
/// profile; both hold for whichever layer won, unless it says otherwise.
fn fill_pod_security(context: &mut PodSecurityContext) {
    context.fs_group.get_or_insert(ENGINE_USER);
    context
        .fs_group_change_policy
        .get_or_insert_with(|| "OnRootMismatch".to_owned());
    context.seccomp_profile.get_or_insert_with(runtime_default);
}

/// Sets the default image and pull policy if the container has none.
pub(super) fn fill_image(container: &mut Container, image: &str) {
    let image = container.image.get_or_insert_with(|| image.to_owned());
    container
        .image_pull_policy
        .get_or_insert_with(|| pull_policy(image).to_owned());
}

/// References to these pull secrets for a pod spec; `None` if there are none.
pub(crate) fn pull_secrets(names: &[String]) -> Option<Vec<LocalObjectReference>> {
    let secrets: Vec<_> = names
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    (!secrets.is_empty()).then_some(secrets)
}

/// The default seccomp profile of the container runtime.
pub(crate) fn runtime_default() -> SeccompProfile {
    SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        localhost_profile: None,
    }
}

/// Delays SIGTERM, so that the container keeps running for a while after its pod is deleted. The kubelet sleeps by itself,
/// because not every image has a shell.
pub(crate) fn withdrawal(seconds: i64) -> Lifecycle {
    Lifecycle {
        pre_stop: Some(LifecycleHandler {
            sleep: Some(SleepAction { seconds }),
            ..LifecycleHandler::default()
        }),
        ..Lifecycle::default()
    }
}

/// The security context of a container without privileges, with this user ID and the same group ID.
pub(crate) fn hardened(user: i64) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        read_only_root_filesystem: Some(true),
        run_as_group: Some(user),
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        ..SecurityContext::default()
    }
}

/// `Always` for an image with a tag that moves, `IfNotPresent` for one that is pinned.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    let (name, pinned) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    // A colon before the last slash belongs to the port of the registry.
    let tag = name
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .map(|(_, tag)| tag);
    match tag {
        Some("latest" | "dev") => "Always",
        None if !pinned => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn filled(template: Value, defaults: &Defaults) -> Value {
        let mut template: PodTemplateSpec = serde_json::from_value(template).expect("a template");
        defaults.fill(&mut template);
        serde_json::to_value(template.spec).expect("a spec is JSON")
    }

    #[rstest]
    #[case("engine:1.2", "IfNotPresent")]
    #[case("engine:latest", "Always")]
    #[case("engine:dev", "Always")]
    #[case("engine", "Always")]
    #[case("registry:5000/engine", "Always")]
    #[case("registry:5000/engine:1.2", "IfNotPresent")]
    #[case("engine@sha256:0", "IfNotPresent")]
    #[case("engine:latest@sha256:0", "Always")]
    fn images_that_move_are_pulled_anew(#[case] image: &str, #[case] policy: &str) {
        assert_eq!(pull_policy(image), policy);
    }

    #[test]
    fn a_bare_template_is_hardened() {
        let spec = filled(
            json!({ "spec": { "containers": [{ "name": "engine" }] } }),
            &Defaults::example(),
        );
        assert_eq!(
            spec["securityContext"],
            json!({ "fsGroup": 3473, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": { "type": "RuntimeDefault" } })
        );
        let engine = &spec["containers"][0];
        assert_eq!(engine["image"], "registry.example/engine:1.2.3");
        assert_eq!(engine["imagePullPolicy"], "IfNotPresent");
        assert_eq!(
            engine["securityContext"],
            json!({
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "readOnlyRootFilesystem": true,
                "runAsGroup": 3473, "runAsNonRoot": true, "runAsUser": 3473,
            })
        );
    }

    #[test]
    fn fields_that_a_user_has_set_are_kept() {
        let template = json!({ "spec": {
            "securityContext": { "fsGroup": 1, "runAsUser": 2 },
            "containers": [{ "name": "engine", "image": "mine:latest", "imagePullPolicy": "Never", "securityContext": { "runAsUser": 4 } }],
        } });
        let spec = filled(template, &Defaults::example());
        assert_eq!(spec["securityContext"]["fsGroup"], 1);
        assert_eq!(spec["securityContext"]["runAsUser"], 2);
        let engine = &spec["containers"][0];
        assert_eq!(
            (&engine["image"], &engine["imagePullPolicy"]),
            (&json!("mine:latest"), &json!("Never"))
        );
        assert_eq!(engine["securityContext"], json!({ "runAsUser": 4 }));
    }

    #[test]
    fn pull_secrets_of_the_operator_come_first_and_each_once() {
        let defaults = Defaults {
            image_pull_secrets: vec!["mirror".to_owned()],
            ..Defaults::example()
        };
        let secrets = json!([{ "name": "own" }, { "name": "mirror" }, { "name": "own" }]);
        let spec = filled(
            json!({ "spec": { "containers": [], "imagePullSecrets": secrets } }),
            &defaults,
        );
        assert_eq!(
            spec["imagePullSecrets"],
            json!([{ "name": "mirror" }, { "name": "own" }])
        );
    }
}
