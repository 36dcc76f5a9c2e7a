//! A namespace with an instance, and the validating webhook in this process in front of the real API server.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use clap::Parser;
use firebolt_api::FireboltInstance;
use firebolt_operator::cli::{Cli, Command};
use firebolt_operator::informers;
use firebolt_operator::metrics::Metrics;
use firebolt_operator::pending::Pending;
use firebolt_operator::settings::{Environment, Settings};
use firebolt_operator::webhook::{self, Validator};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use kube::core::response::Status;
use localkube::Cluster;
use serde_json::{Value, json};
use testkit::wait::SOON;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{OPERATOR_NAMESPACE, namespace, prepare};

/// The instance of all engines.
pub(super) const INSTANCE: &str = "main";
const ENGINES: &str = "apis/compute.firebolt.io/v1alpha1/namespaces";

/// Everything that a question needs.
pub(super) struct WebhookEnv {
    pub client: Client,
    pub namespace: String,
    pub settings: Arc<Settings>,
    pub instance: FireboltInstance,
    webhook: TowerToHyperService<Router>,
    _watches: JoinSet<()>,
}

/// Whether the validator can make dry runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRuns {
    Work,
    /// The API server rejects them for reasons of its own.
    Fail,
}

impl WebhookEnv {
    /// The validator has real caches and a real client.
    pub(super) async fn start(dry_runs: DryRuns) -> Self {
        let cluster = Cluster::attach();
        prepare(&cluster).await;
        let (client, namespace) = (cluster.client().await.unwrap(), namespace(&cluster).await);
        let settings = Arc::new(settings(&namespace));
        let instance =
            json!({ "metadata": { "name": INSTANCE }, "spec": { "id": "01JADMITTED", "metadata": {}, "gateway": {} } });
        let instance = post(&client, &namespace, "FireboltInstance", &instance, false)
            .await
            .unwrap();
        let metrics = Arc::new(Metrics::new("test", SystemTime::UNIX_EPOCH));
        let mut watches = JoinSet::new();
        let caches = informers::start(&client, &settings, &metrics, &mut watches, &Pending::default());
        timeout(SOON, caches.synced())
            .await
            .expect("the caches are complete soon");
        let of_validator = match dry_runs {
            DryRuns::Work => client.clone(),
            DryRuns::Fail => without_dry_runs(client.clone(), &namespace),
        };
        let metrics = Arc::clone(metrics.webhook());
        let validator = Validator::new(of_validator, Arc::clone(&settings), Arc::new(caches), metrics);
        Self {
            webhook: TowerToHyperService::new(webhook::router(validator)),
            instance: serde_json::from_value(instance).unwrap(),
            client,
            namespace,
            settings,
            _watches: watches,
        }
    }

    /// What the API server would store, with schema and defaults applied. None if the schema rejects it, so that the
    /// webhook is not called.
    pub(super) async fn store(&self, kind: &str, name: &str, specification: &Value, for_real: bool) -> Option<Value> {
        let object = json!({ "metadata": { "name": name }, "spec": specification });
        match post(&self.client, &self.namespace, kind, &object, !for_real).await {
            Ok(stored) => Some(stored),
            Err(status) => {
                assert_eq!(status.code, 422, "{status:?}");
                None
            }
        }
    }

    /// Calls the webhook with a request to create an object.
    pub(super) async fn ask(&self, kind: &str, object: &Value) -> AdmissionAnswer {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": object["metadata"]["uid"], "operation": "CREATE", "name": object["metadata"]["name"],
                "namespace": self.namespace, "object": object,
            },
        });
        let path = format!("/validate-compute-firebolt-io-v1alpha1-{}", kind.to_lowercase());
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Body::from(review.to_string())).unwrap();
        let response = self.webhook.call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["response"]["uid"], object["metadata"]["uid"]);
        let status = answer["response"]["status"].take();
        if answer["response"]["allowed"].as_bool().unwrap() {
            AdmissionAnswer::Accepted
        } else {
            AdmissionAnswer::Refused(causes(&status))
        }
    }
}

/// What the webhook says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AdmissionAnswer {
    Accepted,
    Refused(Vec<Cause>),
}

/// One reason of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub field: String,
    pub message: String,
}

fn causes(status: &Value) -> Vec<Cause> {
    assert_eq!(status["code"], 422, "the question could not be answered: {status}");
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = causes.map(|cause| Cause {
        field: text(&cause["field"]),
        message: text(&cause["message"]),
    });
    causes.collect()
}

fn settings(namespace: &str) -> Settings {
    let flags = [
        "firebolt-operator",
        "run",
        "--namespaces",
        namespace,
        "--engine-max-cpu=32",
    ];
    let Command::Run(arguments) = Cli::parse_from(flags).command else {
        panic!("parsed as another command");
    };
    let environment = Environment {
        namespace: OPERATOR_NAMESPACE.to_owned(),
        host_name: "test".to_owned(),
        nonce: 0,
    };
    arguments.into_settings(environment)
}

/// Sends an object of ours as it is, whatever our types can hold.
async fn post(
    client: &Client,
    namespace: &str,
    kind: &str,
    object: &Value,
    dry_run: bool,
) -> Result<Value, Box<Status>> {
    let (mut object, plural) = (
        object.clone(),
        format!("{}s", kind.to_lowercase()).replace("sss", "sses"),
    );
    object["apiVersion"] = json!("compute.firebolt.io/v1alpha1");
    object["kind"] = json!(kind);
    let dry_run = if dry_run { "?dryRun=All" } else { "" };
    let request = Request::post(format!("/{ENGINES}/{namespace}/{plural}{dry_run}"));
    let request = request.header("content-type", "application/json");
    match client
        .request(request.body(object.to_string().into_bytes()).unwrap())
        .await
    {
        Ok(stored) => Ok(stored),
        Err(kube::Error::Api(status)) => Err(status),
        Err(error) => panic!("cannot create {kind}: {error}"),
    }
}

/// The client, but everything that is to be tried is forbidden.
fn without_dry_runs(client: Client, namespace: &str) -> Client {
    let forward = async move |request: Request<Body>| -> Response {
        if request.uri().query().is_some_and(|query| query.contains("dryRun")) {
            let status =
                json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "no", "status": "Failure" });
            return (StatusCode::FORBIDDEN, status.to_string()).into_response();
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        let answer = client.send(Request::from_parts(parts, body.into())).await.unwrap();
        answer.map(Body::new)
    };
    Client::new(Router::new().fallback(forward), namespace)
}
