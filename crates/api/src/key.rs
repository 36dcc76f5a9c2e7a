//! Keys of labels, annotations and finalizers in object metadata, each defined once.

/// Labels and annotations with this prefix are managed by the operator. Pod templates may not use it.
pub const RESERVED_PREFIX: &str = "firebolt.io/";

/// Field manager of every server-side apply of the operator.
pub const FIELD_MANAGER: &str = "firebolt-operator";

/// Defines a set of well-known keys together with its list and spelling, so that neither can miss a member.
macro_rules! keys {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $key:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every member, in the order of definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The key in object metadata.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $key),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.key())
            }
        }
    };
}

keys! {
    /// Labels on the objects that the operator creates.
    Label {
        /// Name of the engine, on every object of the engine.
        Engine = "firebolt.io/engine",
        /// Number of the generation, on every object of one generation of an engine. The routing Service selects by it.
        Generation = "firebolt.io/generation",
        /// Name of the instance, on every object of the instance.
        Instance = "firebolt.io/instance",
        /// [`Component`] that the object belongs to, on every object of an instance.
        Component = "firebolt.io/component",
    }
}

keys! {
    /// Annotations that the operator writes or reads.
    Annotation {
        /// On a FireboltEngine, written by the gateway: the RFC 3339 time at which a query requested a stopped engine.
        WakeRequested = "firebolt.io/wake-requested",
        /// On a StatefulSet: the hash of what users and the instance determine about it. A different hash leads to a new
        /// generation. On an object of an instance: the hash of the rendered object.
        TemplateHash = "firebolt.io/fingerprint",
        /// On a StatefulSet of an engine: hashes of the rendered parts of its generation. On a workload of an instance: the
        /// hash of its rendered pod template. Different ones mean that another version of the operator rendered it.
        RenderingHash = "firebolt.io/rendering-hash",
        /// On a workload of an instance: the hash of what users and the cluster determine about its pods. With the same
        /// one, its pods stay as they were rendered.
        InputsHash = "firebolt.io/inputs-hash",
        /// On a workload of an instance: its pod template as rendered, in JSON, to which its pods are restored.
        PodTemplate = "firebolt.io/pod-template",
        /// On a StatefulSet: the hash of the merged `customEngineConfig` that it was rendered from.
        CustomEngineConfigHash = "firebolt.io/custom-engine-config-hash",
        /// On a StatefulSet: the hash of the class template that it was rendered from.
        EngineClassHash = "firebolt.io/engine-class-hash",
        /// On the pod templates of instance components: the hash of the rendered configuration. A change restarts the
        /// pods. On the ConfigMap of a generation: the hash of its data, which shows whether another client changed it. On
        /// a workload of an instance: the hash of the data of the ConfigMap that its pods mount.
        ConfigHash = "firebolt.io/config-hash",
        /// On the pods of the metadata service: the hash of the database credentials that they read at start. A change
        /// restarts the pods.
        CredentialsHash = "firebolt.io/credentials-hash",
        /// On the ConfigMap of the metadata service: whether the service was set up with the database that the operator
        /// runs (`internal`) or with an external one (`external`).
        Postgres = "firebolt.io/postgres",
    }
}

keys! {
    /// Finalizers that keep a custom resource until its cleanup is complete.
    Finalizer {
        /// On a FireboltEngine: its generations and Services are deleted first.
        Engine = "compute.firebolt.io/engine-cleanup",
        /// On a FireboltInstance: no engine references it and its components are deleted first.
        Instance = "compute.firebolt.io/instance-cleanup",
        /// On a FireboltEngineClass: no engine references it.
        EngineClass = "compute.firebolt.io/fireboltengineclass-deletion-guard",
    }
}

keys! {
    /// Components of an instance, as values of [`Label::Component`].
    Component {
        /// The PostgreSQL server that the operator runs for the metadata service.
        Postgres = "postgres",
        /// The metadata service.
        Metadata = "metadata",
        /// The Envoy gateway.
        Gateway = "gateway",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_annotations_are_below_the_reserved_prefix() {
        let keys = Label::ALL
            .iter()
            .map(|l| l.key())
            .chain(Annotation::ALL.iter().map(|a| a.key()));
        for key in keys {
            assert!(key.starts_with(RESERVED_PREFIX), "{key}");
        }
    }

    #[test]
    fn finalizers_are_qualified_by_the_api_group() {
        for finalizer in Finalizer::ALL {
            assert!(
                finalizer.key().starts_with(&format!("{}/", crate::GROUP)),
                "{finalizer}"
            );
        }
    }
}
