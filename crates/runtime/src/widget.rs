//! A custom resource for unit tests.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Widget {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WidgetSpec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WidgetSpec {
    pub(crate) owner_ref: String,
    pub(crate) class_ref: Option<String>,
    #[serde(default)]
    pub(crate) replicas: i32,
}

impl Widget {
    /// A widget with this UID and resource version.
    pub(crate) fn new(uid: &str, version: &str) -> Self {
        let mut widget = Self::default();
        widget.metadata.namespace = Some("n".to_owned());
        widget.metadata.name = Some("w".to_owned());
        widget.metadata.uid = Some(uid.to_owned());
        widget.metadata.resource_version = Some(version.to_owned());
        widget
    }
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
