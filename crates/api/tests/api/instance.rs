//! The rules of FireboltInstance.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Edit, assert_message, assert_rejected, at, instance, kube};

fn postgres() -> Value {
    json!({ "host": "db.example", "database": "meta", "credentialsSecretRef": { "name": "db" } })
}

#[rstest]
#[case::own_id("spec.id", json!("my-custom-id"))]
#[case::empty_id("spec.id", json!(""))]
#[case::scrape_mode("spec.metricScrapeMode", json!("ApiserverProxy"))]
#[case::one_metadata_replica("spec.metadata.replicas", json!(1))]
#[case::yaml("spec.metadata.configFormat", json!("yaml"))]
#[case::no_gateway("spec.gateway.replicas", json!(0))]
#[case::metrics_port("spec.gateway.metricsPort", json!(65535))]
#[case::wake_timeout_shortest("spec.gateway.wakeTimeout", json!("1s"))]
#[case::wake_timeout_longest("spec.gateway.wakeTimeout", json!("60m"))]
#[case::ipv6_host("spec.metadata.postgres.host", json!("[fd00::1]"))]
#[case::port("spec.metadata.postgres.port", json!(6432))]
#[case::database("spec.metadata.postgres.database", json!("Meta_data.v1-2"))]
#[case::schema("spec.metadata.postgres.schema", json!("firebolt"))]
#[tokio::test]
async fn accepts(#[case] path: &str, #[case] value: Value) {
    let stored = kube()
        .await
        .try_create(&with_postgres(path).with(path, value.clone()))
        .await
        .expect("accept");
    assert_eq!(at(&stored, path), Some(&value));
}

/// An instance with an external database if the path is about one.
fn with_postgres(path: &str) -> Value {
    if path.starts_with("spec.metadata.postgres") {
        instance().with("spec.metadata.postgres", postgres())
    } else {
        instance()
    }
}

#[rstest]
#[case::id_too_long("spec.id", json!("i".repeat(254)), "may not be more than 253")]
#[case::scrape_mode("spec.metricScrapeMode", json!("Guess"), r#"supported values: "PodIP", "ApiserverProxy""#)]
#[case::two_metadata_replicas("spec.metadata.replicas", json!(2), "the metadata service has a single writer")]
#[case::no_metadata_replicas("spec.metadata.replicas", json!(0), "the metadata service has a single writer")]
#[case::format("spec.metadata.configFormat", json!("toml"), r#"supported values: "xml", "yaml""#)]
#[case::gateway_replicas("spec.gateway.replicas", json!(-1), "greater than or equal to 0")]
#[case::metrics_port_zero("spec.gateway.metricsPort", json!(0), "greater than or equal to 1")]
#[case::metrics_port_high("spec.gateway.metricsPort", json!(65536), "less than or equal to 65535")]
#[case::wake_timeout_short("spec.gateway.wakeTimeout", json!("999ms"), "must be at least 1s and at most 1h")]
#[case::wake_timeout_long("spec.gateway.wakeTimeout", json!("1h1s"), "must be at least 1s and at most 1h")]
#[case::wake_timeout_endless("spec.gateway.wakeTimeout", json!("9999999999h"), "must be at least 1s and at most 1h")]
#[case::wake_timeout_number("spec.gateway.wakeTimeout", json!("120"), "should match")]
#[case::host_empty("spec.metadata.postgres.host", json!(""), "at least 1 char")]
#[case::host_too_long("spec.metadata.postgres.host", json!("h".repeat(254)), "may not be more than 253")]
#[case::host_markup("spec.metadata.postgres.host", json!("<host>"), "should match")]
#[case::port_zero("spec.metadata.postgres.port", json!(0), "greater than or equal to 1")]
#[case::port_high("spec.metadata.postgres.port", json!(65536), "less than or equal to 65535")]
#[case::database_empty("spec.metadata.postgres.database", json!(""), "at least 1 char")]
#[case::database_too_long("spec.metadata.postgres.database", json!("d".repeat(64)), "may not be more than 63")]
#[case::database_markup("spec.metadata.postgres.database", json!("a b"), "should match")]
#[case::schema_empty("spec.metadata.postgres.schema", json!(""), "at least 1 char")]
#[case::schema_too_long("spec.metadata.postgres.schema", json!("s".repeat(64)), "may not be more than 63")]
#[case::schema_markup("spec.metadata.postgres.schema", json!("a;b"), "should match")]
#[case::secret_too_long("spec.metadata.postgres.credentialsSecretRef.name", json!("s".repeat(254)), "may not be more than 253")]
#[case::secret_empty("spec.metadata.postgres.credentialsSecretRef.name", json!(""), "at least 1 char")]
#[tokio::test]
async fn rejects_invalid_values(#[case] path: &str, #[case] value: Value, #[case] message: &str) {
    assert_rejected(with_postgres(path).with(path, value), path, message).await;
}

#[rstest]
#[case::metadata("spec.metadata")]
#[case::gateway("spec.gateway")]
#[case::host("spec.metadata.postgres.host")]
#[case::database("spec.metadata.postgres.database")]
#[case::secret("spec.metadata.postgres.credentialsSecretRef")]
#[case::secret_name("spec.metadata.postgres.credentialsSecretRef.name")]
#[tokio::test]
async fn requires(#[case] path: &str) {
    assert_rejected(with_postgres(path).without(path), path, "Required value").await;
}

#[tokio::test]
async fn requires_a_spec() {
    let mut manifest = instance();
    manifest.as_object_mut().unwrap().remove("spec");
    assert_rejected(manifest, "spec", "Required value").await;
}

#[rstest]
#[case::too_long("i".repeat(41))]
#[case::starts_with_digit("3prod".to_owned())]
#[case::dotted("prod.eu".to_owned())]
#[tokio::test]
async fn rejects_names_that_are_invalid_for_derived_objects(#[case] name: String) {
    let manifest = instance().with("metadata.name", json!(name));
    assert_rejected(
        manifest,
        "metadata.name",
        "must have at most 40 characters, start with a lower-case letter",
    )
    .await;
}

#[tokio::test]
async fn accepts_the_longest_name() {
    kube()
        .await
        .try_create(&instance().with("metadata.name", json!("i".repeat(40))))
        .await
        .expect("accept");
}

#[tokio::test]
async fn sets_defaults() {
    let manifest = instance().with("spec.metadata.postgres", postgres());
    let stored = kube().await.try_create(&manifest).await.unwrap();
    assert_eq!(
        stored["spec"],
        json!({
            "metricScrapeMode": "PodIP",
            "metadata": { "configFormat": "xml", "postgres": postgres().with("port", json!(5432)).with("schema", json!("public")) },
            "gateway": { "metricsPort": 9090, "wakeTimeout": "2m" },
        })
    );
}

#[rstest]
#[case::absent(None)]
#[case::empty(Some(json!("")))]
#[tokio::test]
async fn the_id_can_be_set_once(#[case] before: Option<Value>) {
    let kube = kube().await;
    let manifest = match before {
        Some(id) => instance().with("spec.id", id),
        None => instance(),
    };
    let stored = kube.create(&manifest).await;
    let stored = kube
        .replace(&stored.with("spec.id", json!("01J0000000000000000000000A")))
        .await
        .expect("accept");
    for edited in [
        stored.clone().with("spec.id", json!("01J0000000000000000000000B")),
        stored.clone().with("spec.id", json!("")),
        stored.clone().without("spec.id"),
    ] {
        let refusal = kube.replace(&edited).await.expect_err("refuse");
        assert_message(
            &refusal,
            "spec.id",
            "id is immutable once set; restore the previous value",
        );
    }
    kube.replace(&stored.with("spec.gateway.replicas", json!(3)))
        .await
        .expect("accept another change");
}
