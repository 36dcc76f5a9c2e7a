//! Resource quotas.

use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::json;

use super::testenv::TestEnv;

impl TestEnv {
    /// Sets a quota for a resource in the namespace, and waits until Kubernetes has computed its use.
    pub async fn limit(&self, quota: &str, resource: &str, most: &str) {
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": { "name": quota },
            "spec": { "hard": { resource: most } },
        });
        let manifest: ResourceQuota = serde_json::from_value(manifest).expect("a quota");
        self.apply(&Box::new(manifest)).await;
        let is_counted = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.used.is_some());
        self.becomes(quota, "is counted", is_counted).await;
    }
}
