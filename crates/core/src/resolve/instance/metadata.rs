//! The settings of the metadata service: the user's pod template, and the operator's defaults for unset fields.

use firebolt_api::{ConfigFormat, MetadataSpec};
use k8s_openapi::api::core::v1::{PodSecurityContext, PodSpec, PodTemplateSpec};

use super::template;
use crate::resolve::Defaults;
use crate::resolve::defaults::{fill_image, runtime_default};

/// The container that is the metadata service itself. Any other container of a template is a sidecar.
pub(crate) const METADATA_CONTAINER: &str = "metadata";

/// The user and group that the metadata image runs as.
pub(crate) const METADATA_USER: i64 = 1111;

/// The default ServiceAccount of a namespace.
///
/// It is named where no other is, although Kubernetes would choose it anyway: a Deployment keeps a copy of the name in
/// a field of former times, from which a name that is no longer applied would come back.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

/// The metadata service.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// The format of its configuration file.
    pub config_format: ConfigFormat,
    /// The merged pod template of the user and the defaults, without the operator's own fields. The first container is the
    /// service itself.
    pub template: PodTemplateSpec,
    /// The pod template of the user alone.
    pub user_template: PodTemplateSpec,
}

/// Merges the user's settings with the operator's defaults.
pub(super) fn resolve(spec: &MetadataSpec, defaults: &Defaults) -> Metadata {
    let user_template = template::forward(spec.template.as_ref(), METADATA_CONTAINER);
    let mut template = user_template.clone();
    fill(template.spec.get_or_insert_default(), defaults);
    Metadata {
        config_format: spec.config_format,
        template,
        user_template,
    }
}

fn fill(pod: &mut PodSpec, defaults: &Defaults) {
    defaults.fill_pull_secrets(pod);
    harden(pod.security_context.get_or_insert_default());
    pod.service_account_name
        .get_or_insert_with(|| DEFAULT_SERVICE_ACCOUNT.to_owned());
    // The service does not use the API server.
    pod.automount_service_account_token = Some(false);
    if let Some(own) = pod.containers.first_mut() {
        fill_image(own, &defaults.metadata_image);
    }
}

/// Hardens the user's security context. The first three values belong to the image; admission rejects others.
fn harden(context: &mut PodSecurityContext) {
    context.run_as_non_root = Some(true);
    context.run_as_user = Some(METADATA_USER);
    context.run_as_group = Some(METADATA_USER);
    context.seccomp_profile.get_or_insert_with(runtime_default);
}
