//! The serving certificates of the webhooks, and the requests that are made while they change.

mod manual_changes;
mod replicas;
mod rotation;
mod supplied;

use k8s_openapi::ByteString;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::admission::testenv::AdmissionEnv;
use crate::support::Operator;

/// How the operator tells that it serves another certificate.
const SERVING: &str = "serving webhooks with the certificate";

/// How many certificates an operator has served so far.
fn certificates(operator: &Operator) -> usize {
    operator.log().iter().filter(|line| line.contains(SERVING)).count()
}

impl AdmissionEnv {
    /// Sets a field of `clientConfig` of every webhook, to what `value` makes of its present one.
    async fn configure_clients(&self, field: &str, value: impl Fn(&Value) -> Value) {
        let (name, parameters) = (&self.namespace, PatchParams::default());
        let edit = |webhooks: Value| {
            let webhooks = webhooks.as_array().unwrap().iter().enumerate();
            let operations = webhooks.map(|(index, webhook)| {
                let path = format!("/webhooks/{index}/clientConfig/{field}");
                json!({ "op": "add", "path": path, "value": value(&webhook["clientConfig"][field]) })
            });
            let operations: Vec<Value> = operations.collect();
            Patch::<()>::Json(serde_json::from_value(json!(operations)).unwrap())
        };
        let validating = json!(self.validating().get(name).await.unwrap().webhooks);
        self.validating()
            .patch(name, &parameters, &edit(validating))
            .await
            .unwrap();
        let mutating = json!(self.mutating().get(name).await.unwrap().webhooks);
        self.mutating().patch(name, &parameters, &edit(mutating)).await.unwrap();
    }

    /// Sets the `caBundle` of every webhook.
    async fn set_trust(&self, bundle: &str) {
        let bundle = json!(ByteString(bundle.into()));
        self.configure_clients("caBundle", |_| bundle.clone()).await;
    }
}
