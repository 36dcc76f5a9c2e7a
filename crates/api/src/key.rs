//! The keys that the operator writes into object metadata, each spelled once: labels, annotations, finalizers.

/// Everything below this prefix in labels and annotations belongs to the operator. Pod templates may not use it.
pub const RESERVED_PREFIX: &str = "firebolt.io/";

/// The name under which every server-side apply of the operator is recorded.
pub const FIELD_MANAGER: &str = "firebolt-operator";

/// Defines a set of well-known keys with its list and spelling, so that neither can lack a member.
macro_rules! keys {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $key:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every member, in the order of definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The key as it stands in object metadata.
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
        /// On everything an engine owns: the engine's name.
        Engine = "firebolt.io/engine",
        /// On everything that belongs to one generation of an engine: its number. The routing Service selects by it.
        Generation = "firebolt.io/generation",
        /// On everything an instance owns: the instance's name.
        Instance = "firebolt.io/instance",
        /// On everything an instance owns: which [`Component`] it belongs to.
        Component = "firebolt.io/component",
    }
}

keys! {
    /// Annotations that the operator writes or reads.
    Annotation {
        /// On a FireboltEngine, written by the gateway: an RFC 3339 time at which a query asked for a stopped engine.
        WakeRequested = "firebolt.io/wake-requested",
        /// On a StatefulSet: what it was rendered from, in one hash. Another value means another generation.
        Fingerprint = "firebolt.io/fingerprint",
        /// On a StatefulSet: the hash of the merged `customEngineConfig` that it was rendered from.
        CustomEngineConfigHash = "firebolt.io/custom-engine-config-hash",
        /// On a StatefulSet: the hash of the class template that it was rendered from.
        EngineClassHash = "firebolt.io/engine-class-hash",
        /// On the pod templates of instance components: the hash of the rendered configuration. A change rolls the pods.
        ConfigHash = "firebolt.io/config-hash",
        /// On the pods of the metadata service: the hash of the database credentials that they read at start. A change
        /// rolls the pods.
        CredentialsHash = "firebolt.io/credentials-hash",
        /// On the ConfigMap of the metadata service: whether the service was set up with the database that the operator
        /// runs (`internal`) or with another (`external`).
        Postgres = "firebolt.io/postgres",
    }
}

keys! {
    /// Finalizers that hold a custom resource until its clean-up is done.
    Finalizer {
        /// On a FireboltEngine: its generations and Services are removed first.
        Engine = "compute.firebolt.io/engine-cleanup",
        /// On a FireboltInstance: no engine refers to it and its components are removed first.
        Instance = "compute.firebolt.io/instance-cleanup",
        /// On a FireboltEngineClass: no engine refers to it any more.
        EngineClass = "compute.firebolt.io/fireboltengineclass-deletion-guard",
    }
}

keys! {
    /// The parts of an instance, as values of [`Label::Component`].
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
