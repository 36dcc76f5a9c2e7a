//! The way to the cluster, checked before anything is started on it.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cli::RunArguments;
use crate::error::Failure;

/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may be silent in the middle of an answer.
pub const LONGEST_SILENCE: Duration = Duration::from_mins(2);

/// A client that has had one answer from the API server.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The namespace of the pod or of the kubeconfig context.
    pub namespace: String,
}

/// Reads the configuration and asks the API server for its version.
pub async fn connect(arguments: &RunArguments) -> Result<Connection, Failure> {
    let mut config = configuration(arguments).await?;
    // On a watch the API server says something every minute or so, even if nothing changes. A connection that is silent
    // for longer is dead, and is noticed here long before the watch would time out by itself.
    config.read_timeout = Some(LONGEST_SILENCE);
    config.reset_reader_on_write = true;
    // The client would repeat a refused request by itself, for longer than a lease lasts. Whoever made the request decides
    // that: the next attempt is made from a new look, if this process still leads.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config).map_err(|source| Failure::Client {
        url: url.clone(),
        source,
    })?;
    match tokio::time::timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => Err(Failure::Unauthorized {
            url,
            message: status.message,
        }),
        // Any answer shows that the way is open; what matters is asked for by its own name later.
        Ok(Ok(_) | Err(kube::Error::Api(_))) => Ok(Connection { client, namespace }),
        Ok(Err(source)) => Err(Failure::Unreachable { url, source }),
        Err(_elapsed) => Err(Failure::Silent { url, limit: PATIENCE }),
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
