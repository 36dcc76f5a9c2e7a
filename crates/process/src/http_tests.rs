use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match request.uri().path() {
        "/here" => (StatusCode::OK, "yes".to_owned()),
        "/much" => (StatusCode::OK, "much ".repeat(1_000_000)),
        _ => (StatusCode::NOT_FOUND, String::new()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    Ok(response)
}

async fn start() -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    start_up_to(CONNECTIONS).await
}

async fn start_up_to(connections: usize) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let server = tokio::spawn(serve_up_to(connections, listener, service_fn(respond), stop.clone()));
    (address, stop, server)
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A response may arrive before the whole request was read; the connection then ends with a reset.
    let _reset = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn requests_reach_the_service() {
    let (address, _stop, _server) = start().await;
    let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("yes"),
        "{answer}"
    );
    let answer = ask(address, "GET /there HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn a_request_head_that_is_too_large_is_rejected() {
    let (address, _stop, _server) = start().await;
    let request = format!(
        "GET /here HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(2 * HEADER_BYTES as usize)
    );
    let answer = ask(address, &request).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_request_is_disconnected() {
    let (address, _stop, _server) = start().await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"GET /here HTTP/1.1\r\n").await.unwrap();
    let closed = timeout(HEADER_TIMEOUT * 2, socket.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "the connection is still open");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_disconnected_for_a_new_one() {
    let (address, _stop, _server) = start_up_to(1).await;
    let mut greedy = TcpStream::connect(address).await.unwrap();
    // More than all buffers on the way hold.
    let requests = "GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    greedy.write_all(requests.as_bytes()).await.unwrap();
    // With a response under way, closing the connection has something to wait for.
    greedy.readable().await.unwrap();
    let start = Instant::now();
    let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = timeout(CONNECTION_TIMEOUT, answer).await;
    assert!(
        answer.is_ok_and(|answer| answer.ends_with("yes")),
        "the slot is still occupied"
    );
    assert!(
        start.elapsed() >= LAST_RESPONSE,
        "the connection was closed before the time for its last response had passed"
    );
}

#[tokio::test(start_paused = true)]
async fn the_oldest_connection_is_closed_for_a_new_one() {
    let (address, _stop, _server) = start_up_to(2).await;
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n";
        socket.write_all(request).await.unwrap();
        assert!(socket.read(&mut [0; 1024]).await.unwrap() > 0);
        idle.push(socket);
    }
    let start = Instant::now();
    let answer = ask(address, "GET /here HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(answer.ends_with("yes"), "{answer}");
    assert!(start.elapsed() < HEADER_TIMEOUT, "the server waited for idle clients");
    assert_eq!(
        idle[0].read(&mut [0]).await.unwrap(),
        0,
        "the oldest connection is still open"
    );
    let again = b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n";
    idle[1].write_all(again).await.unwrap();
    assert!(
        idle[1].read(&mut [0; 1024]).await.unwrap() > 0,
        "more than one connection was closed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_delays_the_stop_only_so_long() {
    let (address, stop, server) = start().await;
    let mut greedy = TcpStream::connect(address).await.unwrap();
    let requests = "GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(20);
    greedy.write_all(requests.as_bytes()).await.unwrap();
    greedy.readable().await.unwrap();
    stop.cancel();
    timeout(2 * LAST_RESPONSE, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_stop() {
    let (address, stop, server) = start().await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket
        .write_all(b"GET /here HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    assert!(socket.read(&mut [0; 1024]).await.unwrap() > 0);
    stop.cancel();
    timeout(HEADER_TIMEOUT / 2, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_connection_is_refused_if_open_ones_must_stay() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let hold = |socket: TcpStream, stop: CancellationToken| async move {
        stop.cancelled().await;
        drop(socket);
    };
    let server = tokio::spawn(accept(listener, 1, WhenFull::RefuseNew, stop.clone(), hold));
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0, "the second connection is open");
    let open = timeout(Duration::from_millis(50), first.read(&mut [0])).await;
    assert!(open.is_err(), "the first connection was closed");
    stop.cancel();
    server.await.unwrap();
    assert_eq!(first.read(&mut [0]).await.unwrap(), 0);
}
