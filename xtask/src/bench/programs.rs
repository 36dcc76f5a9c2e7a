//! What is measured, compiled as it is shipped.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::Result;

/// The crates that are measured, or that play what is closed-source.
const PACKAGES: [&str; 2] = ["firebolt-operator", "firebolt-wake-agent"];
/// The program that measures gateways, which is compiled as what it measures.
const GATEWAY_BENCH: [&str; 4] = ["--package", "e2e", "--bench", "gateway"];

/// A folder with the programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    root: PathBuf,
    profile: String,
}

impl Programs {
    /// Compiles them.
    pub(super) fn build(root: &Path, profile: &str) -> Result<Self> {
        let mut command = crate::cargo(root);
        command.args(["build", "--locked", "--profile", profile]);
        command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
        if !command.status()?.success() {
            return Err("compile what is measured".into());
        }
        // Cargo calls the folder of the profile `dev` by its older name.
        let folder = if profile == "dev" { "debug" } else { profile };
        // This program lies in a folder of the same tree, whichever that is.
        let own = std::env::current_exe()?;
        let target = own.parent().and_then(Path::parent).ok_or("find the target folder")?;
        Ok(Self {
            folder: target.join(folder),
            root: root.to_owned(),
            profile: profile.to_owned(),
        })
    }

    /// Compiles the program that measures gateways.
    pub(super) fn gateway_bench(&self) -> Result<PathBuf> {
        let mut command = crate::cargo(&self.root);
        command.args(["bench", "--locked", "--no-run", "--profile", &self.profile]);
        command
            .args(GATEWAY_BENCH)
            .arg("--message-format=json-render-diagnostics");
        let output = command.stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8(output.stdout)?;
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut programs = messages.filter(|message| message["target"]["name"] == "gateway");
        let program = programs.find_map(|message| message["executable"].as_str().map(PathBuf::from));
        program.ok_or_else(|| "compile what measures gateways".into())
    }

    pub(super) fn operator(&self) -> PathBuf {
        self.folder.join("firebolt-operator")
    }

    pub(super) fn agent(&self) -> PathBuf {
        self.folder.join("firebolt-wake-agent")
    }

    /// A file of the repository.
    pub(super) fn source(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }
}
