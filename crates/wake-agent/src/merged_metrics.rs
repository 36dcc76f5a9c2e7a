//! `/stats/prometheus`: the metrics of Envoy, followed by those of the agent.

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

/// How long Envoy may take to start its response. With many thousand statistics it takes a second.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The metrics of Envoy, streamed, and then those of the agent.
pub(crate) struct MergedMetrics {
    /// None once it is complete, or if Envoy does not respond.
    theirs: Option<(Incoming, AbortOnDropHandle<()>)>,
    /// Whether the last chunk ended in the middle of a line.
    unfinished: bool,
    /// None once it is sent.
    ours: Option<String>,
}

/// Requests the metrics of Envoy from its admin interface, with the query of the request.
pub(crate) async fn merged(admin: SocketAddr, query: Option<&str>, ours: String) -> MergedMetrics {
    let path = match query {
        None => "/stats/prometheus".to_owned(),
        Some(query) => format!("/stats/prometheus?{query}"),
    };
    let sent = timeout(TIMEOUT, envoy::send(admin, Method::GET, &path, "localhost")).await;
    let theirs = match sent {
        Ok(Ok(Exchange { response, connection })) if response.status() == StatusCode::OK => {
            Some((response.into_body(), connection))
        }
        Ok(Ok(exchange)) => {
            debug!(status = %exchange.response.status(), "cannot read the metrics of Envoy");
            None
        }
        Ok(Err(error)) => {
            debug!(%error, "cannot read the metrics of Envoy");
            None
        }
        Err(_elapsed) => {
            debug!("timed out reading the metrics of Envoy");
            None
        }
    };
    MergedMetrics {
        theirs,
        unfinished: false,
        ours: Some(ours),
    }
}

impl Body for MergedMetrics {
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
                // A truncated line could be read as a different value: fail the response instead.
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rstest::rstest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A listener that sends this response once, and the request that it received.
    async fn respond(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let request = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let length = socket.read(&mut head).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        (address, request)
    }

    async fn text(address: SocketAddr, query: Option<&str>) -> Result<String, hyper::Error> {
        let body = merged(address, query, "ours 1\n".to_owned()).await.collect().await?;
        Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    #[rstest]
    #[case::whole_lines("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntheirs 1\n", "theirs 1\nours 1\n")]
    #[case::no_last_newline("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ntheirs 1", "theirs 1\nours 1\n")]
    #[case::nothing("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "ours 1\n")]
    #[case::trailers(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n",
        "a\nours 1\n"
    )]
    #[case::refused("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nsorry", "ours 1\n")]
    #[case::not_http("what?", "ours 1\n")]
    #[tokio::test]
    async fn metrics_of_the_agent_follow_those_of_envoy_on_a_new_line(
        #[case] answer: &'static str,
        #[case] expected: &str,
    ) {
        let (address, _) = respond(answer).await;
        assert_eq!(text(address, None).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn a_truncated_response_fails() {
        let (address, _) = respond("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ntheirs 1").await;
        assert!(text(address, None).await.is_err());
    }

    #[tokio::test]
    async fn without_envoy_there_are_the_metrics_of_the_agent() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert_eq!(text(unused, None).await.unwrap(), "ours 1\n");
    }

    #[tokio::test]
    async fn the_query_is_passed_on_to_envoy() {
        let (address, request) = respond("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        text(address, Some("usedonly")).await.unwrap();
        let request = request.await.unwrap();
        assert!(
            request.starts_with("GET /stats/prometheus?usedonly HTTP/1.1\r\n"),
            "{request}"
        );
    }
}
