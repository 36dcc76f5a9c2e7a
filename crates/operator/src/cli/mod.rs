//! The command line. Each flag has an environment variable; a flag takes precedence over it.

mod into_settings;
mod run_arguments;

use clap::{Parser, Subcommand};

pub use self::run_arguments::RunArguments;

/// Part of both help texts.
macro_rules! exit_codes {
    () => {
        "\
Exit codes:
  0  stopped on request (SIGTERM or SIGINT)
  1  could not start, or failed while running; a second signal while stopping
  2  a flag is unknown or has an invalid value
  3  lost the lease; the process must be restarted"
    };
}

const RUN_HELP: &str = concat!(
    "\
Examples:
  Inside a cluster, watching everything:
    firebolt-operator run
  From a workstation, two namespaces, one replica:
    firebolt-operator run --context staging --namespaces sales,finance --leader-elect=false
  Only objects of one team:
    firebolt-operator run --watch-label-selector 'team=data,stage in (test,prod)'

",
    exit_codes!()
);

/// Runs Firebolt on Kubernetes
///
/// Reconciles the Firebolt instances, engines and engine classes of a cluster: provisions instances and rolls out changes
/// of engines.
#[derive(Debug, Parser)]
#[command(name = "firebolt-operator", version, propagate_version = true, max_term_width = 110, after_help = exit_codes!())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator
    ///
    /// Runs until it is stopped. Of several replicas, one is the leader and the others are on standby.
    // Of a flag that is given twice, the last one counts, so that a wrapper can append flags.
    #[command(after_help = RUN_HELP, args_override_self = true)]
    Run(Box<RunArguments>),
    /// Print the custom resource definitions as YAML
    ///
    /// Install or update them with: firebolt-operator crds | kubectl apply --server-side -f -
    Crds,
}

#[cfg(test)]
pub(crate) mod tests;
