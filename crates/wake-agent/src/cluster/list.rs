//! All engines of a namespace.
//!
//! The list is exact: no `resourceVersion` is sent, so that the API server does not answer from what it knew some time ago.
//! It comes in pages, each of which is read, used and thrown away before the next.

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

use super::decode::{self, Page, Skipped};
use super::fault::Fault;
use crate::clock::Clock;
use crate::table::Engine;

/// How many engines a page has. The API server keeps no more than this in memory for us, and neither do we.
const PAGE: u32 = 500;
/// How many bytes a page may have. If it has more, because of large templates, pages get smaller.
const PAGE_BYTES: usize = 16 * 1024 * 1024;
/// How many bytes of a refusal are read.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Lists page by page.
#[derive(Debug)]
pub struct Pages {
    size: AtomicU32,
    /// The most bytes that a page may have.
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
    /// Every engine that can be read.
    pub async fn all(
        &self,
        client: &Client,
        namespace: &str,
        clock: &Clock,
        skipped: &Skipped,
    ) -> Result<Vec<Engine>, Fault> {
        let path = FireboltEngine::url_path(&(), Some(namespace));
        let bytes = self.bytes;
        let mut engines = Vec::new();
        let mut unread = BTreeMap::new();
        let mut next: Option<String> = None;
        let mut largest = 0;
        loop {
            let size = self.size.load(Ordering::Relaxed);
            let request = request(&path, size, next.as_deref())?;
            let Some(page) = page(client, request, bytes, clock).await? else {
                if size == 1 {
                    return Err(Fault::Unreachable(format!("an engine has more than {bytes} bytes")));
                }
                self.size.store((size / 4).max(1), Ordering::Relaxed);
                continue;
            };
            largest = largest.max(page.len());
            let page: Page = serde_json::from_slice(&page)
                .map_err(|error| Fault::Unreachable(format!("the list cannot be read: {}", decode::reason(&error))))?;
            for item in page.items {
                match decode::engine(item) {
                    Ok(engine) => engines.push(engine),
                    Err(error) => {
                        unread.insert(decode::name(item), decode::reason(&error));
                    }
                }
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                skipped.are(&unread);
                // What was too large may be gone: many small pages take longer than few.
                if largest < bytes / 4 {
                    self.size.store((size * 2).min(PAGE), Ordering::Relaxed);
                }
                return Ok(engines);
            }
        }
    }
}

fn request(path: &str, size: u32, next: Option<&str>) -> Result<hyper::Request<Body>, Fault> {
    let mut parameters = ListParams::default().limit(size);
    parameters.continue_token = next.map(str::to_owned);
    let request = Request::new(path).list(&parameters);
    let request = request.map_err(|error| Fault::Unreachable(error.to_string()))?;
    Ok(request.map(Body::from))
}

/// One page. None if it has more than `limit` bytes.
async fn page(
    client: &Client,
    request: hyper::Request<Body>,
    limit: usize,
    clock: &Clock,
) -> Result<Option<Vec<u8>>, Fault> {
    let sent = Timestamp::now();
    let response = client.send(request).await?;
    if let Some(date) = response.headers().get(DATE).and_then(|date| date.to_str().ok()) {
        clock.learn(date, sent);
    }
    let status = response.status();
    if status.is_success() {
        return read(response.into_body(), limit).await;
    }
    let refusal = read(response.into_body(), REFUSAL_BYTES).await?.unwrap_or_default();
    let refusal: Option<Status> = serde_json::from_slice(&refusal).ok();
    let message = refusal.map_or_else(|| "it does not say why".to_owned(), |refusal| refusal.message);
    Err(Fault::answered(status.as_u16(), &message))
}

/// A whole body. None if it has more than `limit` bytes.
async fn read(body: Body, limit: usize) -> Result<Option<Vec<u8>>, Fault> {
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
