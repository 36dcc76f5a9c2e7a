//! Connects to the API server, before anything else is started.

use std::time::Duration;

use axum::http::header::USER_AGENT;
use firebolt_process::user_agent;
use firebolt_runtime::client::{READ_TIMEOUT, RequestMetrics, client};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cli::RunArguments;
use crate::error::Failure;

/// The timeout of the first request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that has had a response from the API server.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The client.
    pub(crate) client: Client,
    /// The namespace of the pod or of the kubeconfig context.
    pub(crate) namespace: String,
}

/// Reads the configuration and requests the version of the API server.
pub(crate) async fn connect(arguments: &RunArguments, metrics: &RequestMetrics) -> Result<Connection, Failure> {
    let mut config = configuration(arguments).await?;
    let user_agent = user_agent(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, user_agent));
    // Detects a dead connection long before a watch would time out.
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // The client itself would retry a request for longer than the lease duration. The caller retries: with a new plan,
    // if this process is still the leader.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let client = client(config, metrics).map_err(|source| Failure::Client {
        url: url.clone(),
        source,
    })?;
    match tokio::time::timeout(CONNECT_TIMEOUT, client.apiserver_version()).await {
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => Err(Failure::Unauthorized {
            url,
            message: status.message,
        }),
        // Any response shows that the API server is reachable; permissions are checked by the requests that need them.
        Ok(Ok(_) | Err(kube::Error::Api(_))) => Ok(Connection { client, namespace }),
        Ok(Err(source)) => Err(Failure::Unreachable { url, source }),
        Err(_elapsed) => Err(Failure::Silent {
            url,
            limit: CONNECT_TIMEOUT,
        }),
    }
}

async fn configuration(arguments: &RunArguments) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: arguments.context.clone(),
        ..KubeConfigOptions::default()
    };
    match (&arguments.kubeconfig, &arguments.context) {
        (Some(path), _) => {
            let failure = |source| Failure::Kubeconfig {
                path: path.clone(),
                source,
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(failure)?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(failure)
        }
        (None, Some(context)) => Config::from_kubeconfig(&options)
            .await
            .map_err(|source| Failure::Context {
                context: context.clone(),
                source,
            }),
        (None, None) => Config::infer().await.map_err(Failure::NoCluster),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use axum::Router;
    use axum::extract::State;
    use axum::http::HeaderMap;
    use clap::Parser;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::cli::{Cli, Command};

    #[tokio::test]
    async fn every_request_names_the_operator_and_its_version() {
        let (sender, mut requests) = unbounded_channel();
        let respond = async |State(sender): State<UnboundedSender<HeaderMap>>, headers: HeaderMap| {
            sender.send(headers).unwrap();
            axum::http::StatusCode::NOT_FOUND
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api_server = Router::new().fallback(respond).with_state(sender);
        let server = tokio::spawn(async { axum::serve(listener, api_server).await });
        let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
        write!(
            kubeconfig,
            "clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{}}}}]\n\
             current-context: c\n"
        )
        .unwrap();
        let path = kubeconfig.path().to_str().unwrap();
        let Command::Run(arguments) = Cli::parse_from(["firebolt-operator", "run", "--kubeconfig", path]).command
        else {
            panic!("parsed as another command");
        };
        let Connection { client, .. } = connect(&arguments, &RequestMetrics::default()).await.unwrap();
        assert!(client.list_core_api_versions().await.is_err());
        let expected = user_agent("firebolt-operator", env!("CARGO_PKG_VERSION"));
        for _ in 0..2 {
            let headers = requests.recv().await.unwrap();
            let sent: Vec<_> = headers.get_all(USER_AGENT).iter().collect();
            assert_eq!(sent, [&expected]);
        }
        server.abort();
    }
}
