//! Webhooks that a process on this machine serves. Usually they are pods behind a Service, for which this cluster has
//! no network.

use serde_json::{Deserializer, Value};

use super::Cluster;
use crate::Result;

impl Cluster {
    /// The webhook configurations in `manifests`, for a process that listens at `address`. All other objects are
    /// omitted. The result can be applied unchanged.
    pub fn webhooks_at(&self, manifests: &str, address: &str) -> Result<Vec<Value>> {
        // Lets kubectl read the YAML.
        let arguments = ["create", "--dry-run=client", "--output=json", "--filename=-"];
        let objects = self.kubectl_with_input(&arguments, manifests)?;
        let objects = Deserializer::from_str(&objects).into_iter::<Value>();
        let mut registrations: Vec<Value> = objects
            .map(|object| object.expect("kubectl prints JSON"))
            .filter(|object| {
                object["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
            })
            .collect();
        let webhooks = registrations
            .iter_mut()
            .filter_map(|object| object["webhooks"].as_array_mut());
        for webhook in webhooks.flatten() {
            let client = &mut webhook["clientConfig"];
            let path = client["service"]["path"].as_str().unwrap_or("/");
            *client = serde_json::json!({ "url": format!("https://{address}{path}") });
        }
        Ok(registrations)
    }
}
