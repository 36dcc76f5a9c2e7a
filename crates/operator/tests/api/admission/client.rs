//! Requests of users, and the answers of the API server.

use std::time::Duration;

use firebolt_api::condition::Condition;
use firebolt_api::{FireboltEngine, FireboltEngineClass, FireboltInstance};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::{Value, json};
use testkit::wait::eventually_async;

/// How long anything may take that should happen soon, on a machine that is busy with everything else.
pub(super) const TIMEOUT: Duration = Duration::from_mins(2);

/// A kind of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FireboltKind {
    Engine,
    Class,
    Instance,
}

impl FireboltKind {
    fn resource(self) -> ApiResource {
        match self {
            Self::Engine => ApiResource::erase::<FireboltEngine>(&()),
            Self::Class => ApiResource::erase::<FireboltEngineClass>(&()),
            Self::Instance => ApiResource::erase::<FireboltInstance>(&()),
        }
    }

    fn of(object: &Value) -> Self {
        let kind = object["kind"].as_str().expect("a kind");
        let all = [
            (FireboltEngine::kind(&()), Self::Engine),
            (FireboltEngineClass::kind(&()), Self::Class),
            (FireboltInstance::kind(&()), Self::Instance),
        ];
        let known = all.into_iter().find(|(name, _)| name == kind);
        known.expect("a kind of ours").1
    }
}

/// An answer that is a no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// Field and message of each fault.
    pub causes: Vec<(String, String)>,
}

/// What the API server answers.
pub(super) type ApiResult = Result<Value, Refusal>;

impl Refusal {
    /// The fields that are wrong.
    pub(super) fn fields(&self) -> Vec<&str> {
        self.causes.iter().map(|(field, _)| field.as_str()).collect()
    }

    /// Whether the webhook could not be called.
    pub(super) fn is_unanswered(&self) -> bool {
        self.code == 500 && self.message.contains("failed calling webhook")
    }

    fn from_error(error: kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            panic!("no answer from the API server: {error}");
        };
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        Self {
            code: status.code,
            reason: status.reason,
            message: status.message,
            causes: causes.into_iter().map(|cause| (cause.field, cause.message)).collect(),
        }
    }
}

/// The objects of a namespace.
#[derive(Clone)]
pub(super) struct Objects {
    client: Client,
    namespace: String,
}

impl Objects {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    pub(super) async fn create(&self, object: &Value) -> ApiResult {
        self.post(object, false).await
    }

    /// Asks whether the object could be created.
    pub(super) async fn dry_run(&self, object: &Value) -> ApiResult {
        self.post(object, true).await
    }

    async fn post(&self, object: &Value, dry_run: bool) -> ApiResult {
        let parameters = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let typed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        answer(self.api(FireboltKind::of(object)).create(&parameters, &typed).await)
    }

    /// Changes an object by a merge patch.
    pub(super) async fn edit(&self, kind: FireboltKind, name: &str, edit: &Value) -> ApiResult {
        self.merge(kind, name, edit, PatchParams::default()).await
    }

    /// Asks whether an object could be changed.
    pub(super) async fn dry_run_edit(&self, kind: FireboltKind, name: &str, edit: &Value) -> ApiResult {
        self.merge(kind, name, edit, PatchParams::default().dry_run()).await
    }

    async fn merge(&self, kind: FireboltKind, name: &str, edit: &Value, parameters: PatchParams) -> ApiResult {
        answer(self.api(kind).patch(name, &parameters, &Patch::Merge(edit)).await)
    }

    /// Changes the size of an engine as `kubectl scale` does.
    pub(super) async fn scale(&self, name: &str, replicas: i32) -> Result<(), Refusal> {
        let (parameters, patch) = (PatchParams::default(), json!({ "spec": { "replicas": replicas } }));
        let scaled = self
            .api(FireboltKind::Engine)
            .patch_scale(name, &parameters, &Patch::Merge(&patch))
            .await;
        scaled.map(drop).map_err(Refusal::from_error)
    }

    pub(super) async fn delete(&self, kind: FireboltKind, name: &str) -> Result<(), Refusal> {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(Refusal::from_error)
    }

    /// Deletes every object of a kind in one request.
    pub(super) async fn delete_all(&self, kind: FireboltKind) -> Result<(), Refusal> {
        let (how, which) = (DeleteParams::default(), ListParams::default());
        let deleted = self.api(kind).delete_collection(&how, &which).await;
        deleted.map(drop).map_err(Refusal::from_error)
    }

    pub(super) async fn get(&self, kind: FireboltKind, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.expect("get an object");
        found.map(|found| serde_json::to_value(found).expect("an object is JSON"))
    }

    /// Waits until there is no such object.
    pub(super) async fn wait_until_gone(&self, kind: FireboltKind, name: &str) {
        let gone = async || self.get(kind, name).await.is_none().then_some(());
        eventually(&format!("{kind:?} {name} is gone"), gone).await;
    }

    /// What an engine says about itself, once it is for this reason.
    pub(super) async fn wait_for_reason(&self, engine: &str, reason: &str) -> Condition {
        let with_reason = async || {
            let engine: FireboltEngine = serde_json::from_value(self.get(FireboltKind::Engine, engine).await?).unwrap();
            let conditions = engine.status?.conditions;
            let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready")?;
            (ready.reason == reason).then_some(ready)
        };
        eventually(&format!("{engine} says {reason}"), with_reason).await
    }

    fn api(&self, kind: FireboltKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }
}

fn answer(answer: kube::Result<DynamicObject>) -> ApiResult {
    let stored = answer.map_err(Refusal::from_error)?;
    Ok(serde_json::to_value(stored).expect("an object is JSON"))
}

/// Polls until there is a result.
pub(super) async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_async(what, TIMEOUT, ask).await
}
