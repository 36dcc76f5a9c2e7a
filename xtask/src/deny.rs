//! `cargo xtask deny`: licences, sources and duplicate versions of the crates that are linked.

use std::path::Path;

use localkube::tools::{Binary, Tool, Tools};

use crate::{Outcome, tools};

pub(crate) fn run(root: &Path) -> Outcome {
    tools::ensure(&Tools::from_env()?, Tool::CargoDeny)?;
    let mut command = std::process::Command::new(Tools::from_env()?.binary(Binary::CargoDeny)?);
    command
        .args(["--locked", "check", "bans", "licenses", "sources"])
        .current_dir(root);
    crate::finish(&mut command)
}
