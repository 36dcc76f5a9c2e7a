//! What is measured, compiled as it is shipped.

use std::path::{Path, PathBuf};

use super::Result;

/// The crates that are measured, or that play what is closed-source.
const PACKAGES: [&str; 2] = ["firebolt-operator", "stand-ins"];

/// A folder with the programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    root: PathBuf,
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
        })
    }

    pub(super) fn operator(&self) -> PathBuf {
        self.folder.join("firebolt-operator")
    }

    /// A file of the repository.
    pub(super) fn source(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }
}
