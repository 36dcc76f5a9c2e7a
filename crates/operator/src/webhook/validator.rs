//! The validator: decides which requests are validated at all, and looks up the objects that a request refers to.

use std::sync::Arc;
use std::time::Duration;

use firebolt_api::FireboltEngine;
use firebolt_core::admit::{Violation, ViolationKind};
use firebolt_core::desired::Lookup;
use firebolt_runtime::ObjectKey;
use firebolt_runtime::error::describe;
use firebolt_runtime::informer::{Guarded, Store, Watched};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::metrics::WebhookMetrics;
use super::review::{AdmissionRequest, AdmissionResponse, Operation};
use crate::caches::Caches;
use crate::engine_references;
use crate::engine_references::EngineReferences;
use crate::settings::{Scope, Settings, is_dns_subdomain};

/// Timeout of one read from the API server. It leaves time to report the failure before the request itself times out.
const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// Limit on the lists and objects nested in one object.
const MAX_NESTED_VALUES: usize = 20_000;

/// Validates requests to create, change and delete our objects.
#[derive(Clone)]
pub struct Validator {
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    pub(super) caches: Arc<Caches>,
    pub(super) metrics: Arc<WebhookMetrics>,
}

/// A lookup failed, so the request could not be validated. The request is denied with this text.
#[derive(Debug, thiserror::Error)]
#[error("{0}; retry")]
pub(super) struct LookupError(String);

/// The object of a request.
pub(super) enum RequestObject<K> {
    /// The object has to be validated.
    Validate(Box<K>),
    /// The response is known without validating the object.
    Respond(AdmissionResponse),
}

impl Validator {
    /// A validator that reads from these caches.
    #[must_use]
    pub fn new(client: Client, settings: Arc<Settings>, caches: Arc<Caches>, metrics: Arc<WebhookMetrics>) -> Self {
        Self {
            client,
            settings,
            caches,
            metrics,
        }
    }

    /// Whether this operator watches the namespace. Requests for other namespaces are allowed without validation.
    pub(super) fn in_scope(&self, namespace: &str) -> bool {
        match &self.settings.scope {
            Scope::Cluster => true,
            Scope::Namespaces(namespaces) => namespaces.iter().any(|watched| watched == namespace),
        }
    }

    /// The object to be stored. An object that is being deleted is not validated, so that its finalizers can always be
    /// removed. An object that cannot be parsed is denied: the controllers could not parse it either.
    pub(super) fn request_object<K: Watched>(&self, request: &AdmissionRequest) -> RequestObject<K> {
        let Some(text) = request.object.as_deref().filter(|_| self.in_scope(&request.namespace)) else {
            return RequestObject::Respond(AdmissionResponse::allowed());
        };
        if is_being_deleted(text) {
            return RequestObject::Respond(AdmissionResponse::allowed());
        }
        match parse::<K>(text) {
            Ok(mut object) => {
                // The namespace of the request takes precedence over that of the object.
                object.meta_mut().namespace = Some(request.namespace.clone());
                RequestObject::Validate(Box::new(object))
            }
            Err(error) => {
                let (path, cause) = match error.split_once(": ") {
                    Some((path, cause)) if path.starts_with("spec") => (path.to_owned(), cause),
                    _ => ("spec".to_owned(), error.as_str()),
                };
                let message = format!("Cannot parse this value: {cause}. Correct it.");
                RequestObject::Respond(AdmissionResponse::from_violations(vec![Violation {
                    path,
                    kind: ViolationKind::Invalid,
                    message,
                }]))
            }
        }
    }

    /// The object before an update, if it can be parsed.
    pub(super) fn old_object<K: Watched>(request: &AdmissionRequest) -> Option<K> {
        let old = request
            .old_object
            .as_deref()
            .filter(|_| request.operation == Operation::Update)?;
        parse(old).ok()
    }

    /// Gets an object from the cache, or live if the cache does not have it: the watch may lag behind a create.
    pub(super) async fn get<K: Watched>(&self, cache: &Store<K>, object: &ObjectKey) -> Result<Lookup<K>, LookupError> {
        if let Some(cached) = cache.get(object)
            && let Ok(object) = &cached.0
        {
            return Ok(Lookup::Found(object.clone()));
        }
        self.get_live(object).await
    }

    /// Gets an object from the API server.
    pub(super) async fn get_live<K: Watched>(&self, object: &ObjectKey) -> Result<Lookup<K>, LookupError> {
        // No object has such a name, and it would change the path of the request.
        if !is_dns_subdomain(&object.name) {
            return Ok(Lookup::Missing);
        }
        let api: Api<Guarded<K>> = Api::namespaced(self.client.clone(), &object.namespace);
        let attempt = || format!("cannot get {} {object}", K::kind(&()));
        match timeout(READ_TIMEOUT, api.get_opt(&object.name)).await {
            Ok(Ok(None)) => Ok(Lookup::Missing),
            Ok(Ok(Some(Guarded(Ok(object))))) => Ok(Lookup::Found(object)),
            Ok(Ok(Some(Guarded(Err(unreadable))))) => Ok(Lookup::Unreadable(unreadable.error)),
            Ok(Err(error)) => Err(LookupError(format!("{}: {}", attempt(), describe(&error)))),
            Err(_elapsed) => Err(LookupError(format!(
                "{}: the API server did not respond within {READ_TIMEOUT:?}",
                attempt()
            ))),
        }
    }

    /// Lists the engines in the namespace of an object that reference it, live: a reference that was just created counts.
    /// An engine that cannot be parsed counts too, because it may reference the object.
    pub(super) async fn engines_referencing(
        &self,
        object: &ObjectKey,
        refers: impl Fn(&FireboltEngine) -> bool,
    ) -> Result<Vec<String>, LookupError> {
        let EngineReferences { bound, unreadable } = engine_references::live(&self.client, object, refers)
            .await
            .map_err(|error| LookupError(format!("cannot {error}")))?;
        let unreadable = unreadable.into_iter().map(|name| format!("{name} [cannot be parsed]"));
        Ok(bound.into_iter().chain(unreadable).collect())
    }
}

/// The key of the object in a request. For a `deletecollection`, only the object itself has the name.
pub(super) fn object_key(request: &AdmissionRequest) -> Result<ObjectKey, LookupError> {
    let name = match request.name.as_str() {
        "" => {
            let object = request.object.as_deref().or(request.old_object.as_deref());
            object.and_then(parse_metadata).and_then(|metadata| metadata.name)
        }
        name => Some(name.to_owned()),
    };
    let name = name.filter(|name| is_dns_subdomain(name));
    let name = name.ok_or_else(|| LookupError("the request names no object".to_owned()))?;
    Ok(ObjectKey::new(&request.namespace, &name))
}

/// Parses an object; the error names the field that is invalid.
fn parse<K: Watched>(text: &RawValue) -> Result<K, String> {
    // A nested value takes much more memory when parsed than it does as text.
    let nested = text.get().bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if nested > MAX_NESTED_VALUES {
        return Err(format!(
            "it has {nested} nested values; the maximum is {MAX_NESTED_VALUES}"
        ));
    }
    let guarded: Guarded<K> = serde_json::from_str(text.get()).map_err(|error| error.to_string())?;
    guarded.0.map_err(|unreadable| unreadable.error)
}

/// The metadata that is read of an object even if the rest cannot be parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    deletion_timestamp: Option<String>,
}

fn parse_metadata(text: &RawValue) -> Option<Metadata> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    let object: Object = serde_json::from_str(text.get()).ok()?;
    Some(object.metadata)
}

fn is_being_deleted(text: &RawValue) -> bool {
    parse_metadata(text).is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}
