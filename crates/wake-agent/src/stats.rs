//! `/stats/prometheus`: what Envoy counts, and what we count, as one.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::{Method, StatusCode};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::envoy::{self, Exchange};

/// How long Envoy may take to begin its answer. With many thousand statistics it takes a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Envoy's part as it comes, and then ours.
pub struct Merged {
    /// None once it has come to its end, or if it cannot be had.
    theirs: Option<(Incoming, AbortOnDropHandle<()>)>,
    /// Whether what came last ends in the middle of a line.
    unfinished: bool,
    /// None once it is sent.
    ours: Option<String>,
}

/// Asks the admin interface of Envoy for its part. `query` is what follows the path.
pub async fn merged(admin: SocketAddr, query: Option<&str>, ours: String) -> Merged {
    let path = match query {
        None => "/stats/prometheus".to_owned(),
        Some(query) => format!("/stats/prometheus?{query}"),
    };
    let asked = timeout(PATIENCE, envoy::send(admin, Method::GET, &path, "localhost")).await;
    let theirs = match asked {
        Ok(Ok(Exchange { response, connection })) if response.status() == StatusCode::OK => {
            Some((response.into_body(), connection))
        }
        Ok(Ok(exchange)) => {
            debug!(status = %exchange.response.status(), "Envoy does not tell its statistics");
            None
        }
        Ok(Err(error)) => {
            debug!(%error, "Envoy does not tell its statistics");
            None
        }
        Err(_elapsed) => {
            debug!("Envoy does not tell its statistics in time");
            None
        }
    };
    Merged {
        theirs,
        unfinished: false,
        ours: Some(ours),
    }
}

impl Body for Merged {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while let Some((body, _)) = &mut self.theirs {
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data()
                        && let Some(last) = data.last()
                    {
                        self.unfinished = *last != b'\n';
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                // Half a statistic could be read as another one: better no answer than a wrong one.
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.theirs = None,
            }
        }
        let Some(mut ours) = self.ours.take() else {
            return Poll::Ready(None);
        };
        if self.unfinished {
            ours.insert(0, '\n');
        }
        Poll::Ready(Some(Ok(Frame::data(ours.into()))))
    }
}
