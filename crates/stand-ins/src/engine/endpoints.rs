//! What is answered on which port.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};

use super::state::State;
use super::{EXECUTED_PATH, LIVE_PATH, METRICS_PATH, METRICS_SWITCH_PATH, READY_PATH, query};

/// Queries on every path but that of readiness.
pub(super) fn queries(state: Arc<State>) -> Router {
    let ready = Arc::clone(&state);
    let readiness = get(async move || readiness(&ready));
    Router::new()
        .route(READY_PATH, readiness)
        .fallback(async move |request| query::answer(&state, request).await)
}

pub(super) fn health(state: Arc<State>) -> Router {
    Router::new()
        .route(LIVE_PATH, get(async || "alive\n"))
        .route(READY_PATH, get(async move || readiness(&state)))
}

pub(super) fn metrics(state: Arc<State>) -> Router {
    let (executed, switched) = (Arc::clone(&state), Arc::clone(&state));
    let metrics = async move || {
        if state.has_broken_metrics() {
            return (StatusCode::INTERNAL_SERVER_ERROR, "the metrics are broken\n").into_response();
        }
        let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
        (content_type, gauges(state.running())).into_response()
    };
    let switch = async move |body: String| match body.trim() {
        "broken" => {
            switched.break_metrics(true);
            StatusCode::NO_CONTENT
        }
        "ok" => {
            switched.break_metrics(false);
            StatusCode::NO_CONTENT
        }
        _ => StatusCode::BAD_REQUEST,
    };
    Router::new()
        .route(METRICS_PATH, get(metrics))
        .route(METRICS_SWITCH_PATH, post(switch))
        .route(EXECUTED_PATH, get(async move || Json(executed.executed())))
}

fn readiness(state: &State) -> (StatusCode, &'static str) {
    if state.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

/// The gauges that drain checks and auto-stop read. This engine never suspends a query.
fn gauges(running: usize) -> String {
    format!(
        "# TYPE firebolt_running_queries gauge\nfirebolt_running_queries {running}\n\
         # TYPE firebolt_suspended_queries gauge\nfirebolt_suspended_queries 0\n"
    )
}
