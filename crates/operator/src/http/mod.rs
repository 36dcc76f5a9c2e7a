//! The handlers of the health and metrics servers.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use firebolt_runtime::leader::{ElectionStatus, Role};
use tokio::sync::watch;

use crate::caches::Caches;
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::probe::Pool;
use crate::webhook::certificates::ServingCertificate;

/// `/healthz`: the process is alive. `/readyz`: its caches are synced, it can take part in leader election, and its webhook
/// server has a certificate.
pub(crate) fn health(
    caches: Arc<Caches>,
    election: watch::Receiver<ElectionStatus>,
    webhook: Option<Arc<ServingCertificate>>,
) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route(
        "/readyz",
        get(async move || {
            let mut missing: Vec<_> = caches.all().iter().flat_map(|cache| cache.missing()).collect();
            let (leads, election) = (election.borrow().role == Role::Leader, election.borrow().missing());
            missing.extend(election);
            missing.extend(webhook.as_ref().and_then(|served| served.missing(leads)));
            readiness(&missing)
        }),
    )
}

/// `/metrics`.
pub(crate) fn metrics(
    metrics: Arc<Metrics>,
    caches: Arc<Caches>,
    probes: Pool,
    election: watch::Receiver<ElectionStatus>,
    lease: String,
    webhook: Option<Arc<ServingCertificate>>,
) -> Router {
    let answer = async move || {
        let expires = webhook.as_ref().and_then(|served| served.expires());
        metrics.webhook().set_certificate_expiry(expires);
        let role = election.borrow().role;
        let text = metrics.render(&caches, &probes, role, &lease);
        ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)
    };
    Router::new().route("/metrics", get(answer))
}

fn readiness(missing: &[String]) -> (StatusCode, String) {
    if missing.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let mut text = missing.join("\n");
    text.push('\n');
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_lists_what_is_missing() {
        assert_eq!(readiness(&[]), (StatusCode::OK, "ok\n".to_owned()));
        let missing = ["waiting for A: a".to_owned(), "waiting for B: b".to_owned()];
        assert_eq!(
            readiness(&missing),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "waiting for A: a\nwaiting for B: b\n".to_owned()
            )
        );
    }
}
