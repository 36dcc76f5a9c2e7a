//! Webhooks for a process of this machine. In a cluster of the usual kind they are pods behind a Service, which this
//! one has no network for.

use serde_json::{Deserializer, Value};

use crate::{Cluster, Result};

impl Cluster {
    /// The registrations of webhooks in `manifests`, of a process that listens at `address`. Everything else in there is
    /// left out. The result can be applied as it is.
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
