//! The client of the API server.

use std::time::Duration;

use firebolt_process::error::chain;
use firebolt_process::user_agent;
use hyper::header::USER_AGENT;
use kube::{Client, Config};

use super::error::ApiError;

/// How long a connection may take to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may be silent. The engines are listed more often than that, so a connection that is silent for
/// longer is dead.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A client from the kubeconfig or, in a pod, from the service account. It sends no request yet.
pub(super) async fn connect() -> Result<Client, ApiError> {
    let config = Config::infer().await.map_err(|error| ApiError::Config(chain(&error)))?;
    client(config)
}

fn client(mut config: Config) -> Result<Client, ApiError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(IDLE_TIMEOUT);
    config.write_timeout = Some(IDLE_TIMEOUT);
    // The state machine retries a failed request if its result is still needed.
    config.default_retry = false;
    let user_agent = user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, user_agent));
    Client::try_from(config).map_err(|error| ApiError::Config(chain(&error)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn every_request_names_the_agent_and_its_version() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = client(Config::new(url.parse().unwrap())).unwrap();
        let request = tokio::spawn(async move { client.apiserver_version().await });
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = String::new();
        while !head.contains("\r\n\r\n") {
            let mut bytes = [0; 4096];
            let length = socket.read(&mut bytes).await.unwrap();
            assert_ne!(length, 0, "the connection ended after {head:?}");
            head.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        let sent: Vec<&str> = head
            .lines()
            .filter_map(|line| line.strip_prefix("user-agent: "))
            .collect();
        assert_eq!(sent, [user_agent("firebolt-wake-agent", env!("CARGO_PKG_VERSION"))]);
        let response = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        socket.write_all(response).await.unwrap();
        assert!(request.await.unwrap().is_err());
    }
}
