//! Lists all engines of a namespace.
//!
//! The list is consistent: no `resourceVersion` is sent, so that the API server does not respond from its cache. It is
//! read in pages, each of which is parsed and dropped before the next one is requested.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};

use firebolt_api::FireboltEngine;
use http_body_util::BodyExt;
use hyper::header::DATE;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Resource};

use super::decode::{self, Page, UnreadableEngines};
use super::error::ApiError;
use crate::clock::Clock;
use crate::hold::Engine;

/// The number of engines on a page, which limits the memory that a listing needs in the API server and here.
const PAGE: u32 = 500;
/// The maximum size of a page. If it is larger, because of large templates, the next pages have fewer engines.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of an error response.
const ERROR_BYTES: usize = 64 * 1024;

/// Lists the engines in pages.
#[derive(Debug)]
pub(super) struct Pages {
    size: AtomicU32,
    /// The maximum size of a page.
    bytes: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            size: AtomicU32::new(PAGE),
            bytes: PAGE_BYTES,
        }
    }
}

impl Pages {
    /// All engines that can be parsed.
    pub(super) async fn all(
        &self,
        client: &Client,
        namespace: &str,
        clock: &Clock,
        unreadable: &UnreadableEngines,
    ) -> Result<Vec<Engine>, ApiError> {
        let path = FireboltEngine::url_path(&(), Some(namespace));
        let bytes = self.bytes;
        let mut engines = Vec::new();
        let mut failed = BTreeMap::new();
        let mut next: Option<String> = None;
        let mut largest = 0;
        loop {
            let size = self.size.load(Ordering::Relaxed);
            let request = request(&path, size, next.as_deref())?;
            let Some(page) = page(client, request, bytes, clock).await? else {
                if size == 1 {
                    return Err(ApiError::Transport(format!("an engine has more than {bytes} bytes")));
                }
                self.size.store((size / 4).max(1), Ordering::Relaxed);
                continue;
            };
            largest = largest.max(page.len());
            let page: Page = serde_json::from_slice(&page)
                .map_err(|error| ApiError::Transport(format!("cannot parse the list: {}", decode::reason(&error))))?;
            for item in page.items {
                match decode::engine(item) {
                    Ok(engine) => engines.push(engine),
                    Err(error) => {
                        failed.insert(decode::name(item), decode::reason(&error));
                    }
                }
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                unreadable.log(namespace, &failed);
                // The large engines may be gone, and many small pages take longer than few.
                if largest < bytes / 4 {
                    self.size.store((size * 2).min(PAGE), Ordering::Relaxed);
                }
                return Ok(engines);
            }
        }
    }
}

fn request(path: &str, size: u32, next: Option<&str>) -> Result<hyper::Request<Body>, ApiError> {
    let mut parameters = ListParams::default().limit(size);
    parameters.continue_token = next.map(str::to_owned);
    let request = Request::new(path).list(&parameters);
    let request = request.map_err(|error| ApiError::Transport(error.to_string()))?;
    Ok(request.map(Body::from))
}

/// Requests one page. None if it has more than `limit` bytes.
async fn page(
    client: &Client,
    request: hyper::Request<Body>,
    limit: usize,
    clock: &Clock,
) -> Result<Option<Vec<u8>>, ApiError> {
    let sent = Timestamp::now();
    let response = client.send(request).await?;
    if let Some(date) = response.headers().get(DATE).and_then(|date| date.to_str().ok()) {
        clock.correct_from(date, sent);
    }
    let status = response.status();
    if status.is_success() {
        return read(response.into_body(), limit).await;
    }
    let body = read(response.into_body(), ERROR_BYTES).await?.unwrap_or_default();
    let status_object: Option<Status> = serde_json::from_slice(&body).ok();
    let message = status_object.map_or_else(|| "no message".to_owned(), |status| status.message);
    Err(ApiError::status(status.as_u16(), &message))
}

/// Reads a body. None if it has more than `limit` bytes.
async fn read(body: Body, limit: usize) -> Result<Option<Vec<u8>>, ApiError> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
