//! The smallest HTTP client: one request on a connection of its own, blocking.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// The response to a GET.
pub fn get(address: impl ToSocketAddrs, path: &str) -> io::Result<Response> {
    request(address, "GET", path, "", "")
}

/// The response to a request. Each of the headers ends with `\r\n`. A connection that closes before the end of the head
/// is an error.
pub fn request(
    address: impl ToSocketAddrs,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> io::Result<Response> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\nConnection: close\r\n");
    let mut stream = send(address, &format!("{head}{headers}\r\n{body}"))?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    let text = String::from_utf8_lossy(&received);
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, format!("no HTTP response: {text:?}")))
}

/// Opens a connection and sends a text, which may be a part of a request.
pub fn send(address: impl ToSocketAddrs, text: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(text.as_bytes())?;
    Ok(stream)
}

fn parse(text: &str) -> Option<Response> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Response {
        status: head.split(' ').nth(1)?.parse().ok()?,
        head: format!("{head}\r\n"),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What a server receives before the body, and what comes back when it answers with `answer`.
    fn exchange(answer: &'static str) -> (Vec<String>, io::Result<Response>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let head = lines.take_while(|line| !line.is_empty()).collect();
            stream.write_all(answer.as_bytes()).unwrap();
            head
        });
        let response = request(address, "POST", "/path", "x: y\r\n", "");
        (server.join().unwrap(), response)
    }

    #[test]
    fn a_response_is_taken_apart() {
        let (head, response) = exchange("HTTP/1.1 404 Not Found\r\na: b\r\n\r\nbody");
        assert_eq!(
            (head[0].as_str(), &*head[head.len() - 1]),
            ("POST /path HTTP/1.1", "x: y")
        );
        let response = response.unwrap();
        assert_eq!((response.status, response.body.as_str()), (404, "body"));
        assert!(response.head.ends_with("\r\na: b\r\n"), "{response:?}");
    }

    #[test]
    fn a_connection_that_closes_early_is_an_error() {
        let (_, response) = exchange("HTTP/1.1 200 OK\r\n");
        assert_eq!(response.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
