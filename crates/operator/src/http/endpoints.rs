//! What the servers answer.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::sync::watch;

use crate::leader::Report;
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::probe::Pool;
use crate::watches::Caches;

/// `/healthz`: the process answers. `/readyz`: its caches are complete and it can take part in the election, whether it
/// leads or not.
pub fn health(caches: Arc<Caches>, election: watch::Receiver<Report>) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route(
        "/readyz",
        get(async move || {
            let mut missing: Vec<_> = caches.all().iter().flat_map(|cache| cache.missing()).collect();
            missing.extend(election.borrow().missing());
            readiness(&missing)
        }),
    )
}

/// `/metrics`.
pub fn metrics(metrics: Arc<Metrics>, caches: Arc<Caches>, probes: Pool, election: watch::Receiver<Report>) -> Router {
    let answer = async move || {
        let role = election.borrow().role;
        let text = metrics.render(&caches, &probes, role);
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
