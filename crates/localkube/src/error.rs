//! What can go wrong with a local cluster.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::tools::ToolError;

/// Why something about a local cluster failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, folder or process could not be used.
    #[error("{action} {path}")]
    Io {
        /// The verb.
        action: &'static str,
        /// The object.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A tool is missing.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A certificate could not be made.
    #[error("make a certificate for {name}")]
    Certificate {
        /// Whom the certificate names.
        name: String,
        /// The message of the library.
        source: rcgen::Error,
    },
    /// A component ended while the cluster was starting.
    #[error("start {name}: it ended with {status}; its last lines:\n{log}")]
    Exited {
        /// The component.
        name: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A component did not become ready in time.
    #[error("wait for {name}: not ready after {waited:?} ({reason}); its last lines:\n{log}")]
    NotReady {
        /// The component.
        name: &'static str,
        /// How long it was given.
        waited: Duration,
        /// What its last answer was.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// The cluster is being torn down, so nothing may be started in it.
    #[error("start {0}: the cluster is being torn down")]
    Closing(String),
    /// The folder is not one of ours.
    #[error("use {0} for a cluster: it holds files of something else; choose a new or an empty folder")]
    ForeignFolder(PathBuf),
    /// The folder for clusters is one that another user may have prepared.
    #[error("keep clusters in {path}: {fault}; choose a folder that is yours alone, or one that does not exist yet")]
    UnsafeBase {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Another process holds the folder for too long.
    #[error("lock {path}: another process has held it for {waited:?}")]
    Locked {
        /// The folder.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// Processes outlived every signal.
    #[error("end the processes of {path}: still running: {pids:?}")]
    WontEnd {
        /// The folder of the cluster.
        path: PathBuf,
        /// The processes.
        pids: Vec<i32>,
    },
    /// A request to the API server failed.
    #[error("{action}")]
    Api {
        /// Verb and object.
        action: String,
        /// The output of the client.
        source: Box<kube::Error>,
    },
    /// A kubeconfig could not be read.
    #[error("read kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The output of the client.
        source: Box<kube::config::KubeconfigError>,
    },
    /// kubectl refused.
    #[error("run kubectl {arguments}: {status}: {stderr}")]
    Kubectl {
        /// What it was called with.
        arguments: String,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// A command inside a node failed.
    #[error("set up {node}: {status}: {stderr}")]
    SetUp {
        /// The node.
        node: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// An image could not be imported.
    #[error("import {path}: {status}: {stderr}")]
    Import {
        /// The archive.
        path: PathBuf,
        /// How the importer ended.
        status: ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// The cluster has no such node.
    #[error("find {node} of the cluster in {path}: it is not there; start a cluster with `cargo xtask kube up --node`")]
    NoNode {
        /// The folder of the cluster.
        path: PathBuf,
        /// The node.
        node: &'static str,
    },
    /// A cluster with fewer nodes is in the way.
    #[error(
        "start a cluster in {0}: one with fewer nodes runs there; remove it first with `cargo xtask kube down --dir {0}`"
    )]
    FewerNodes(PathBuf),
    /// This machine cannot run a node.
    #[error("start a node: {0}")]
    Impossible(String),
    /// There is no such cluster.
    #[error("find a cluster in {0}: none is running there")]
    NotRunning(PathBuf),
}

impl Error {
    /// For `map_err` on operations on files, folders and processes.
    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err` on requests to the API server.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api {
            action,
            source: Box::new(source),
        }
    }

    /// Whether other ports would help. A port is free when it is chosen and may be taken when it is used: no call
    /// reserves a port for a process that is yet to start.
    pub(crate) fn is_port_clash(&self) -> bool {
        matches!(self, Self::Exited { log, .. } if log.to_lowercase().contains("address already in use"))
    }
}

#[cfg(test)]
mod tests {
    use firebolt_process::error::chain;

    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn exited(log: &str) -> Error {
        Error::Exited {
            name: "kube-apiserver",
            status: ExitStatus::from_raw(256),
            log: log.to_owned(),
        }
    }

    #[test]
    fn only_a_taken_port_asks_for_other_ports() {
        assert!(exited("listen tcp 127.0.0.1:20000: bind: address already in use").is_port_clash());
        assert!(!exited("unknown flag: --nonsense").is_port_clash());
        assert!(!Error::Closing("etcd".to_owned()).is_port_clash());
    }

    #[test]
    fn a_chain_contains_every_cause_once() {
        let denied = || io::Error::new(io::ErrorKind::PermissionDenied, "permission denied");
        let plain = Error::io("open", "/a/file")(denied());
        assert_eq!(chain(&plain), "open /a/file: permission denied");
        let repeating = Error::Kubeconfig {
            path: "/a/file".into(),
            source: Box::new(kube::config::KubeconfigError::ReadConfig(denied(), "/a/file".into())),
        };
        assert_eq!(chain(&repeating).matches("permission denied").count(), 1);
    }
}
