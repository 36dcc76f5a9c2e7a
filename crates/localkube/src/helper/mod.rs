//! Helper processes of a cluster with nodes, for work that no existing program does. They outlive the process that
//! started the cluster, and run the same executable.

pub(crate) mod provisioner;
mod relay;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use firebolt_process::error::chain;

use crate::Error;

/// The first argument of a helper process.
const ARGUMENT: &str = "localkube-helper";

/// What a helper does.
pub(crate) enum Task {
    /// Leads ports of the machine into a network namespace.
    Relay {
        /// The file of the namespace.
        namespace: PathBuf,
        /// Each port with the address inside.
        ports: Vec<(u16, String)>,
    },
    /// Makes volumes for claims.
    Provision {
        /// How to reach the API server.
        kubeconfig: PathBuf,
        /// Where the volumes are.
        volumes: PathBuf,
    },
}

impl Task {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![ARGUMENT.to_owned()];
        match self {
            Self::Relay { namespace, ports } => {
                arguments.extend(["relay".to_owned(), namespace.display().to_string()]);
                arguments.extend(ports.iter().map(|(port, inside)| format!("{port}={inside}")));
            }
            Self::Provision { kubeconfig, volumes } => {
                arguments.push("provision".to_owned());
                arguments.extend([kubeconfig, volumes].map(|path| path.display().to_string()));
            }
        }
        arguments
    }

    fn parse(arguments: &[String]) -> Option<Self> {
        match arguments {
            [relay, namespace, ports @ ..] if relay == "relay" => {
                let pair = |text: &String| {
                    let (port, inside) = text.split_once('=')?;
                    Some((port.parse().ok()?, inside.to_owned()))
                };
                Some(Self::Relay {
                    namespace: namespace.into(),
                    ports: ports.iter().map(pair).collect::<Option<_>>()?,
                })
            }
            [provision, kubeconfig, volumes] if provision == "provision" => Some(Self::Provision {
                kubeconfig: kubeconfig.into(),
                volumes: volumes.into(),
            }),
            _ => None,
        }
    }
}

/// The executable of helpers: this one, even if another build has replaced its file.
pub(crate) fn program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

/// Runs a helper if this process was started as one, and returns its exit code. A program that starts clusters with
/// nodes must call this first, while it has a single thread.
#[must_use]
pub fn serve_as_helper() -> Option<ExitCode> {
    let arguments: Vec<OsString> = env::args_os().collect();
    if arguments.get(1)? != ARGUMENT {
        return None;
    }
    let arguments: Vec<String> = arguments[2..]
        .iter()
        .map(|argument| argument.to_string_lossy().into())
        .collect();
    let outcome = match Task::parse(&arguments) {
        Some(Task::Relay { namespace, ports }) => relay::run(&namespace, &ports),
        Some(Task::Provision { kubeconfig, volumes }) => provisioner::run(&kubeconfig, &volumes),
        None => Err(Error::Impossible(format!("no helper does {arguments:?}"))),
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_the_command_line() {
        let relay = Task::Relay {
            namespace: "/proc/1/ns/net".into(),
            ports: vec![(1, "127.0.0.1:1".to_owned()), (2, "10.0.0.1:53".to_owned())],
        };
        let provision = Task::Provision {
            kubeconfig: "/a b/kubeconfig".into(),
            volumes: "/volumes".into(),
        };
        for task in [relay, provision] {
            let arguments = task.arguments();
            let parsed = Task::parse(&arguments[1..]).expect("a task");
            assert_eq!(parsed.arguments(), arguments);
        }
        assert!(Task::parse(&["relay".to_owned(), "/n".to_owned(), "x=1".to_owned()]).is_none());
        assert!(Task::parse(&[]).is_none());
    }
}
