//! Requests to the API server: limits, and the metric that every client of client-go exports.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use kube::Client;
use kube::client::{Body, ClientBuilder};
use kube::config::Config;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tower::{Layer, Service};

/// How long a connection may be silent in the middle of a response. On a watch, the API server sends something every minute
/// or so even if nothing changes, so a connection that is silent for longer is dead.
pub const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// How long a read or write within a reconcile may take. The next reconcile decides again.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The `code` of requests without a response, as in client-go.
const NO_RESPONSE: &str = "<error>";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: String,
}

/// Counts requests to the API server, reads and watches included.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics {
    requests: Family<RequestLabels, Counter>,
}

impl RequestMetrics {
    /// Registers the metrics. The registry must not add a prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            metrics.requests.clone(),
        );
        metrics
    }
}

/// A client whose requests are counted.
pub fn client(config: Config, metrics: &RequestMetrics) -> kube::Result<Client> {
    let host = config
        .cluster_url
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    let layer = CountRequests {
        metrics: metrics.clone(),
        host,
    };
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// The layer that counts requests.
struct CountRequests {
    metrics: RequestMetrics,
    host: String,
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            metrics: self.metrics.clone(),
            host: self.host.clone(),
        }
    }
}

struct Counted<S> {
    inner: S,
    metrics: RequestMetrics,
    host: String,
}

impl<S, B> Service<http::Request<Body>> for Counted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (requests, host) = (self.metrics.requests.clone(), self.host.clone());
        let method = request.method().to_string();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            let code = match &response {
                Ok(response) => response.status().as_u16().to_string(),
                Err(_) => NO_RESPONSE.to_owned(),
            };
            requests.get_or_create(&RequestLabels { code, method, host }).inc();
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[tokio::test]
    async fn every_request_is_counted_by_code_method_and_host() {
        let mut registry = Registry::default();
        let layer = CountRequests {
            metrics: RequestMetrics::register(&mut registry),
            host: "api:443".to_owned(),
        };
        let api_server = Router::new().route("/version", get(async || StatusCode::FORBIDDEN));
        let client = ClientBuilder::new(api_server, "default").with_layer(&layer).build();
        for _ in 0..2 {
            assert!(client.apiserver_version().await.is_err());
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = r#"rest_client_requests_total{code="403",method="GET",host="api:443"} 2"#;
        assert!(text.lines().any(|known| known == line), "{text}");
    }

    #[tokio::test]
    async fn a_request_without_a_response_is_counted() {
        let mut registry = Registry::default();
        let metrics = RequestMetrics::register(&mut registry);
        // Nothing listens on this port.
        let config = Config::new("http://127.0.0.1:9".parse().unwrap());
        assert!(client(config, &metrics).unwrap().apiserver_version().await.is_err());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = r#"rest_client_requests_total{code="<error>",method="GET",host="127.0.0.1:9"}"#;
        assert!(text.contains(line), "{text}");
    }
}
