//! A namespace with an instance, the webhook's judge beside it, and the real API server behind both.

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
use firebolt_operator::metrics::Metrics;
use firebolt_operator::queue::Inboxes;
use firebolt_operator::settings::{Settings, Surroundings};
use firebolt_operator::watches::Caches;
use firebolt_operator::webhook::{self, Judge};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use kube::Client;
use kube::core::response::Status;
use localkube::Cluster;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{OPERATOR_NAMESPACE, SOON, install_definitions, namespace};

/// The instance of all engines.
pub const INSTANCE: &str = "main";
const ENGINES: &str = "apis/compute.firebolt.io/v1alpha1/namespaces";

/// Everything that a question needs.
pub struct Stage {
    pub client: Client,
    pub namespace: String,
    pub settings: Arc<Settings>,
    pub instance: FireboltInstance,
    webhook: TowerToHyperService<Router>,
    _watches: JoinSet<()>,
}

/// Whether the judge can let the API server try what would be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsals {
    Work,
    /// They come to nothing, as they do while the API server refuses them for reasons of its own.
    ComeToNothing,
}

impl Stage {
    /// Sets everything up. The judge has real caches and a real client.
    pub async fn begin(rehearsals: Rehearsals) -> Self {
        let cluster = Cluster::attach();
        install_definitions(&cluster);
        let (client, namespace) = (cluster.client().await.unwrap(), namespace(&cluster));
        let settings = Arc::new(settings(&namespace));
        let instance = json!({ "metadata": { "name": INSTANCE }, "spec": { "id": "01JREHEARSAL", "metadata": {}, "gateway": {} } });
        let instance = post(&client, &namespace, "FireboltInstance", &instance, false)
            .await
            .unwrap();
        let metrics = Arc::new(Metrics::new("test", SystemTime::UNIX_EPOCH));
        let mut watches = JoinSet::new();
        let caches = Caches::start(&client, &settings, &metrics, &mut watches, &Inboxes::default());
        timeout(SOON, caches.synced())
            .await
            .expect("the caches are complete soon");
        let of_judge = match rehearsals {
            Rehearsals::Work => client.clone(),
            Rehearsals::ComeToNothing => without_rehearsals(client.clone(), &namespace),
        };
        let judge = Judge::new(of_judge, Arc::clone(&settings), Arc::new(caches), metrics);
        Self {
            webhook: TowerToHyperService::new(webhook::router(judge)),
            instance: serde_json::from_value(instance).unwrap(),
            client,
            namespace,
            settings,
            _watches: watches,
        }
    }

    /// What the API server would store: schema and defaults have been applied. None if the schema refuses it, and with
    /// it the question.
    pub async fn store(&self, kind: &str, name: &str, specification: &Value, for_real: bool) -> Option<Value> {
        let object = json!({ "metadata": { "name": name }, "spec": specification });
        match post(&self.client, &self.namespace, kind, &object, !for_real).await {
            Ok(stored) => Some(stored),
            Err(status) => {
                assert_eq!(status.code, 422, "{status:?}");
                None
            }
        }
    }

    /// Puts the question to the webhook whether an object may be created.
    pub async fn ask(&self, kind: &str, object: &Value) -> Answer {
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
            Answer::Accepted
        } else {
            Answer::Refused(causes(&status))
        }
    }
}

/// What the webhook says.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    Refused(Vec<Cause>),
}

/// One reason of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
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
    let surroundings = Surroundings {
        namespace: OPERATOR_NAMESPACE.to_owned(),
        host_name: "test".to_owned(),
        nonce: 0,
    };
    Settings::resolve(*arguments, surroundings)
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
fn without_rehearsals(client: Client, namespace: &str) -> Client {
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
