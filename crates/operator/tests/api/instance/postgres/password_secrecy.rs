//! Passwords appear in their Secret and nowhere else.

use firebolt_api::InstancePhase;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::instance::fixtures::{CREDENTIALS, MAIN, credentials, external, instance, minimal};
use crate::instance::testenv::InstanceEnv;

const OURS: &str = "main-metadata-postgres-creds";
const THEIRS: &str = "a-password-of-another-owner";

/// A text, and how else Kubernetes might show it.
fn spellings(password: &str) -> [String; 3] {
    let encoded = json!(k8s_openapi::ByteString(password.as_bytes().to_vec()));
    let bytes = format!("{:?}", password.as_bytes());
    [password.to_owned(), encoded.as_str().unwrap().to_owned(), bytes]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_neither_logged_nor_stored_anywhere_else() {
    let mut env = InstanceEnv::without_operator().await;
    env.create(&credentials(THEIRS)).await;
    env.start_operator_with(&["--leader-elect=false", "--log-level=trace"]);
    env.deploy(&minimal(MAIN)).await;
    env.deploy(&instance("other", &json!({ "postgres": external() }), &json!({})))
        .await;
    let ours = env.the::<Secret>(OURS).await.data.unwrap().remove("password").unwrap();
    let ours = String::from_utf8(ours.0).unwrap();
    assert_eq!(ours.len(), 24);
    // Also on the way that something goes wrong.
    env.edit::<Secret>(CREDENTIALS, json!({ "stringData": { "username": "" } }))
        .await;
    env.wait_for_message("other", "its key username is empty").await;
    env.edit::<Secret>(CREDENTIALS, json!({ "stringData": { "username": "u" } }))
        .await;
    env.wait_for_phase("other", InstancePhase::Ready).await;

    let log = env.operator().log().join("\n");
    assert!(log.contains("TRACE"), "everything is logged");
    let metrics = env.operator().metrics_answer();
    let kinds = env
        .cluster
        .kubectl(&["api-resources", "--namespaced", "--verbs=list", "--output=name"])
        .unwrap();
    let kinds: Vec<&str> = kinds.lines().filter(|kind| *kind != "secrets").collect();
    let objects = env
        .kubectl(&["get", &kinds.join(","), "--output=yaml", "--show-managed-fields"])
        .unwrap();
    assert!(objects.contains("main-metadata-config"), "everything is shown");
    for password in [&ours, THEIRS] {
        for spelling in spellings(password) {
            for (place, text) in [("log", &log), ("metrics", &metrics), ("objects", &objects)] {
                assert!(!text.contains(&spelling), "{spelling} is in the {place}");
            }
        }
    }
}
