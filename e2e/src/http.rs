//! A minimal HTTP client.

use std::error::Error;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The body of the response to a GET.
pub(crate) async fn get(address: &str, path: &str) -> Result<String, Box<dyn Error>> {
    ask(address, "GET", path).await
}

/// The body of the response to a request without a body, on a new connection.
pub(crate) async fn ask(address: &str, method: &str, path: &str) -> Result<String, Box<dyn Error>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(TcpStream::connect(address).await?)).await?;
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header(header::HOST, "pod");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}
