//! `cargo xtask kube`: a cluster that runs in the background.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use localkube::{Cluster, Options, Status, Up};

use crate::Outcome;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a cluster, wait until it is ready, and leave it running
    Up(UpArguments),
    /// Stop the cluster and remove its directory
    Down(Place),
    /// Show the components of the cluster; exits with 0 only if all are healthy
    Status(Place),
}

#[derive(Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    place: Place,
    /// Add a node that runs pods (requires root); without it, the cluster is only a control plane
    #[arg(long)]
    node: bool,
    /// Add this many nodes: 1 or 2
    #[arg(long, value_name = "N", conflicts_with = "node", value_parser = clap::value_parser!(u8).range(1..=2))]
    nodes: Option<u8>,
}

#[derive(Args)]
pub(crate) struct Place {
    /// The directory of the cluster [default: .local/kube in the repository]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    fn dir(self) -> PathBuf {
        self.dir.unwrap_or_else(localkube::default_dir)
    }
}

pub(crate) fn run(command: Command) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Up(arguments) => {
                let nodes = arguments.nodes.unwrap_or(arguments.node.into());
                up(arguments.place.dir(), nodes).await
            }
            Command::Down(place) => down(place.dir()).await,
            Command::Status(place) => status(place.dir()).await,
        }
    })
}

async fn up(dir: PathBuf, nodes: u8) -> Outcome {
    let options = Options {
        nodes,
        ..Options::default()
    };
    let (cluster, news) = match Cluster::up(&dir, options).await? {
        Up::Started(cluster, took) => (cluster, format!("ready in {:.1} s", took.as_secs_f64())),
        Up::AlreadyRunning(cluster) => {
            let news = format!("already running in {}", cluster.dir().display());
            (cluster, news)
        }
    };
    println!("{news}\nexport KUBECONFIG={}", cluster.kubeconfig_admin().display());
    Ok(ExitCode::SUCCESS)
}

async fn down(dir: PathBuf) -> Outcome {
    if localkube::down(&dir).await? {
        println!("removed {}", dir.display());
    } else {
        println!("nothing to remove in {}", dir.display());
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(dir: PathBuf) -> Outcome {
    let Some(status) = localkube::status(&dir).await? else {
        println!("not running in {}: start one with `cargo xtask kube up`", dir.display());
        return Ok(ExitCode::FAILURE);
    };
    print!("{}", table(&status));
    Ok(if status.is_healthy() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn table(status: &Status) -> String {
    let mut rows = vec![["COMPONENT", "PID", "HEALTHY", "ADDRESS"].map(str::to_owned)];
    for part in &status.components {
        let pid = part.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let healthy = part
            .error
            .as_ref()
            .map_or_else(|| "yes".to_owned(), |error| format!("no: {error}"));
        rows.push([part.component.to_string(), pid, healthy, part.address.clone()]);
    }
    let widths: [usize; 4] = std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let version = status.version.as_deref().unwrap_or("unknown");
    text + &format!("version     {version}\nkubeconfig  {}\n", status.kubeconfig.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use localkube::{Component, ComponentStatus};

    #[test]
    fn the_table_is_aligned_and_shows_errors() {
        let component = |component, pid, error: Option<&str>| ComponentStatus {
            component,
            pid,
            error: error.map(str::to_owned),
            address: "https://127.0.0.1:20000".to_owned(),
        };
        let status = Status {
            dir: "/d".into(),
            kubeconfig: "/d/kubeconfig".into(),
            version: Some("v1.2.3".to_owned()),
            components: vec![
                component(Component::Etcd, Some(7), None),
                component(Component::KubeScheduler, None, Some("not running")),
            ],
        };
        let expected = "\
COMPONENT       PID  HEALTHY          ADDRESS
etcd            7    yes              https://127.0.0.1:20000
kube-scheduler  -    no: not running  https://127.0.0.1:20000
version     v1.2.3
kubeconfig  /d/kubeconfig
";
        assert_eq!(table(&status), expected);
        assert!(!status.is_healthy());
    }
}
