use std::net::Ipv4Addr;

use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::response::IntoResponse;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use super::*;

const IDLE: &str = "firebolt_running_queries 0\nfirebolt_suspended_queries 0\n";
/// A timeout for what is expected to happen, however slow the machine.
const GENEROUS_TIMEOUT: Duration = Duration::from_mins(5);
/// A timeout for what is expected never to happen.
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);

fn client(router: Router) -> Client {
    Client::new(router, "default")
}

fn scraper(port: u16, timeout: Duration) -> Scraper {
    Scraper {
        port,
        connect_timeout: GENEROUS_TIMEOUT,
        timeout,
        ..Scraper::new(client(Router::new()))
    }
}

fn target(ip: impl Into<IpAddr>) -> Target {
    Target {
        namespace: "team".to_owned(),
        pod: "a-g0-0".to_owned(),
        ip: Some(ip.into()),
    }
}

async fn scrape_from(listener: &SocketAddr, timeout: Duration) -> Result<u64, ScrapeError> {
    let scraper = scraper(listener.port(), timeout);
    scraper.queries(&target(listener.ip()), Transport::PodIp).await
}

/// A pod that reads one request, responds with `answer`, and then closes the connection. Returns the request.
async fn pod_on(host: &str, answer: Vec<u8>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = head(&mut socket).await;
        // A client may disconnect before the end of the response.
        if socket.write_all(&answer).await.is_ok() {
            socket.shutdown().await.ok();
        }
        request
    });
    (address, served)
}

/// A pod that reads one request, responds with `beginning`, and then nothing more. Ends when the client disconnects.
async fn silent_pod(beginning: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        head(&mut socket).await;
        socket.write_all(beginning.as_bytes()).await.unwrap();
        let mut rest = [0; 1];
        assert_eq!(socket.read(&mut rest).await.unwrap_or(0), 0, "the client disconnects");
    });
    (address, served)
}

async fn head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

async fn scrape(answer: Vec<u8>) -> Result<u64, ScrapeError> {
    let (address, served) = pod_on("127.0.0.1", answer).await;
    let result = scrape_from(&address, GENEROUS_TIMEOUT).await;
    served.await.unwrap();
    result
}

#[tokio::test]
async fn the_series_of_both_gauges_are_added_up() {
    let body = "firebolt_running_queries{node=\"0\"} 1\nfirebolt_running_queries{node=\"1\"} 2\n\
                firebolt_suspended_queries 4\n";
    assert_eq!(scrape(ok(body)).await, Ok(7));
}

#[rstest]
#[case::chunked(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{IDLE}\r\n0\r\n\r\n", IDLE.len()))]
#[case::until_the_end_of_the_connection(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{IDLE}"))]
#[tokio::test]
async fn every_framing_of_a_body_is_understood(#[case] answer: String) {
    assert_eq!(scrape(answer.into_bytes()).await, Ok(0));
}

#[rstest]
#[case::error("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", "HTTP status 500")]
#[case::not_quite_ok("HTTP/1.1 204 No Content\r\n\r\n", "HTTP status 204")]
#[case::redirect(
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "HTTP status 302; redirects are not followed"
)]
#[case::empty(
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "the metric firebolt_running_queries is missing"
)]
#[case::hung_up("", "cannot read the response: connection closed before message completed")]
#[case::cut_short(
    "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfirebolt",
    "cannot read the response: "
)]
#[case::no_http("SSH-2.0-OpenSSH_9.9\r\n", "cannot read the response: ")]
#[tokio::test]
async fn a_response_other_than_ok_is_an_error(#[case] answer: &str, #[case] expected: &str) {
    let error = scrape(answer.as_bytes().to_vec()).await.unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case::nan("firebolt_running_queries NaN\nfirebolt_suspended_queries 0\n", "\"NaN\"")]
#[case::negative("firebolt_running_queries -1\nfirebolt_suspended_queries 0\n", "\"-1\"")]
#[case::missing("firebolt_running_queries 0\n", "firebolt_suspended_queries is missing")]
#[tokio::test]
async fn metrics_without_a_count_are_an_error(#[case] body: &str, #[case] expected: &str) {
    let error = scrape(ok(body)).await.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[rstest]
#[case::the_limit(0, Ok(0))]
#[case::one_byte_more(1, Err(ScrapeError::TooLarge))]
#[tokio::test]
async fn a_body_may_have_one_mebibyte(#[case] excess: usize, #[case] expected: Result<u64, ScrapeError>) {
    let padding = "#".repeat(LARGEST_BODY - IDLE.len() + excess);
    assert_eq!(scrape(ok(&format!("{IDLE}{padding}"))).await, expected);
}

#[tokio::test]
async fn an_endless_body_is_not_read_to_the_end() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        head(&mut socket).await;
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        socket.write_all(head).await.unwrap();
        while socket.write_all(&[b'#'; 4096]).await.is_ok() {}
    });
    assert_eq!(
        scrape_from(&address, GENEROUS_TIMEOUT).await,
        Err(ScrapeError::TooLarge)
    );
    served.await.expect("the client disconnected");
}

#[rstest]
#[case::no_response("")]
#[case::half_a_head("HTTP/1.1 200 OK\r\nContent-Le")]
#[case::half_a_body("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfirebolt")]
#[tokio::test]
async fn an_unresponsive_pod_times_out(#[case] beginning: &'static str) {
    let (address, served) = silent_pod(beginning).await;
    let error = scrape_from(&address, SHORT_TIMEOUT).await.unwrap_err();
    assert_eq!(error.to_string(), "no response within 50ms");
    // The scrape may have timed out before its request arrived.
    served.abort();
}

#[tokio::test]
async fn a_connection_that_is_never_made_times_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the backlog: further attempts to connect get no response.
    let _first = TcpStream::connect(address).await.unwrap();
    let scraper = Scraper {
        connect_timeout: SHORT_TIMEOUT,
        ..scraper(address.port(), GENEROUS_TIMEOUT)
    };
    let error = scraper
        .queries(&target(address.ip()), Transport::PodIp)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("timed out connecting to {address} after 50ms")
    );
}

#[tokio::test]
async fn a_refused_connection_names_the_address() {
    // Bound, so that no other process gets the port, but not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    let error = scrape_from(&address, GENEROUS_TIMEOUT).await.unwrap_err();
    assert_eq!(error.to_string(), format!("connection refused at {address}"));
}

#[tokio::test]
async fn a_pod_without_an_ip_address_is_an_error() {
    let nowhere = Target {
        ip: None,
        ..target(Ipv4Addr::LOCALHOST)
    };
    let error = scraper(1, GENEROUS_TIMEOUT)
        .queries(&nowhere, Transport::PodIp)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the pod has no IP address");
}

#[rstest]
#[case::ipv4("127.0.0.1")]
#[case::ipv6("::1")]
#[tokio::test]
async fn the_request_has_a_host_and_closes_the_connection(#[case] host: &str) {
    let (address, served) = pod_on(host, ok(IDLE)).await;
    assert_eq!(scrape_from(&address, GENEROUS_TIMEOUT).await, Ok(0));
    let request = served.await.unwrap();
    assert!(request.starts_with("GET /metrics HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {address}\r\n")), "{request}");
    assert!(request.contains("connection: close\r\n"), "{request}");
    assert!(request.contains("user-agent: firebolt-operator/"), "{request}");
}

async fn scrape_through(router: Router, timeout: Duration) -> Result<u64, ScrapeError> {
    let scraper = Scraper {
        timeout,
        ..Scraper::new(client(router))
    };
    scraper
        .queries(&target(Ipv4Addr::LOCALHOST), Transport::ApiserverProxy)
        .await
}

fn status(code: u16, message: &str) -> (StatusCode, String) {
    let body = serde_json::json!({ "kind": "Status", "status": "Failure", "message": message, "code": code });
    (StatusCode::from_u16(code).unwrap(), body.to_string())
}

#[tokio::test]
async fn the_api_server_proxies_to_the_metrics_port_of_the_pod() {
    let router = Router::new().fallback(|request: HttpRequest| async move {
        assert_eq!(
            request.uri().path(),
            "/api/v1/namespaces/team/pods/a-g0-0:9090/proxy/metrics"
        );
        IDLE
    });
    assert_eq!(scrape_through(router, GENEROUS_TIMEOUT).await, Ok(0));
}

#[rstest]
#[case::forbidden(
    status(403, "pods \"a-g0-0\" is forbidden"),
    "the operator lacks the permission to get pods/proxy in namespace team"
)]
#[case::forbidden_by_the_pod((StatusCode::FORBIDDEN, "go away".to_owned()), "HTTP status 403")]
#[case::unreachable(
    status(
        503,
        "error trying to reach service: dial tcp 10.0.0.7:9090: connect: connection refused"
    ),
    "error from the API server: error trying to reach service: dial tcp 10.0.0.7:9090: connect: connection refused (503)"
)]
#[case::long_message(status(500, &"a".repeat(300)), &format!("error from the API server: {}… (500)", "a".repeat(199)))]
#[case::error_of_the_pod((StatusCode::INTERNAL_SERVER_ERROR, "{}".to_owned()), "HTTP status 500")]
#[case::redirect((StatusCode::FOUND, String::new()), "HTTP status 302; redirects are not followed")]
#[case::too_large((StatusCode::OK, "#".repeat(LARGEST_BODY + 1)), "the metrics are larger than 1 MiB")]
#[case::no_count((StatusCode::OK, String::new()), "the metric firebolt_running_queries is missing")]
#[tokio::test]
async fn an_error_through_the_api_server_names_its_source(
    #[case] answer: (StatusCode, String),
    #[case] expected: &str,
) {
    let router = Router::new().fallback(|| async move { answer.into_response() });
    let error = scrape_through(router, GENEROUS_TIMEOUT).await.unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn an_unresponsive_api_server_times_out() {
    let router = Router::new().fallback(std::future::pending::<String>);
    assert_eq!(
        scrape_through(router, SHORT_TIMEOUT).await,
        Err(ScrapeError::Deadline(SHORT_TIMEOUT))
    );
}
