//! `cargo xtask deny`: licences, sources and duplicate versions of the crates that are linked, and on demand their known
//! vulnerabilities.

use std::path::Path;
use std::process::Command;

use localkube::tools::{Binary, Tool, Tools};

use crate::{Outcome, tools};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also check for known vulnerabilities (downloads the database)
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(root: &Path, arguments: &Arguments) -> Outcome {
    let tools = Tools::from_env()?;
    tools::ensure(&tools, Tool::CargoDeny)?;
    let mut command = Command::new(tools.binary(Binary::CargoDeny)?);
    command
        .args(["--locked", "check"])
        .args(checks(arguments))
        .current_dir(root);
    crate::finish(&mut command)
}

fn checks(arguments: &Arguments) -> Vec<&'static str> {
    let mut checks = vec!["bans", "licenses", "sources"];
    checks.extend(arguments.advisories.then_some("advisories"));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_advisories_needs_the_network() {
        let checks = |advisories| checks(&Arguments { advisories });
        assert_eq!(checks(false), ["bans", "licenses", "sources"]);
        assert_eq!(checks(true), ["bans", "licenses", "sources", "advisories"]);
    }
}
