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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use rstest::rstest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A listener that gives this answer once, and what it was asked.
    async fn says(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let length = socket.read(&mut head).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        (address, asked)
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
    async fn ours_follow_theirs_on_a_line_of_their_own(#[case] answer: &'static str, #[case] expected: &str) {
        let (address, _) = says(answer).await;
        assert_eq!(text(address, None).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn what_breaks_off_is_not_passed_off_as_whole() {
        let (address, _) = says("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ntheirs 1").await;
        assert!(text(address, None).await.is_err());
    }

    #[tokio::test]
    async fn without_envoy_there_are_ours() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert_eq!(text(unused, None).await.unwrap(), "ours 1\n");
    }

    #[tokio::test]
    async fn envoy_is_asked_what_we_are_asked() {
        let (address, asked) = says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        text(address, Some("usedonly")).await.unwrap();
        let asked = asked.await.unwrap();
        assert!(
            asked.starts_with("GET /stats/prometheus?usedonly HTTP/1.1\r\n"),
            "{asked}"
        );
    }
}
