//! What lies where in the folder of a cluster.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::components::Component;
use crate::ports::Ports;
use crate::{Error, Result};

const PORTS: &str = "ports.json";

/// The paths of a cluster, and its ports.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    dir: PathBuf,
    pub(crate) ports: Ports,
}

impl Layout {
    /// The layout of a cluster that is yet to be made.
    pub(crate) fn new(dir: &Path, ports: Ports) -> Self {
        Self {
            dir: dir.to_owned(),
            ports,
        }
    }

    /// Makes the folders of a new cluster, in a folder that is empty, and writes down its ports.
    pub(crate) fn create(&self) -> Result<()> {
        for folder in [self.pki(""), self.kubeconfigs(), self.logs()] {
            fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        }
        let ports = serde_json::to_vec(&self.ports).expect("ports are plain numbers");
        write_private(&self.dir.join(PORTS), &ports)
    }

    /// Reads the layout of a cluster that another process started.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(PORTS);
        let ports = fs::read(&path).map_err(Error::io("read", &path))?;
        let ports = serde_json::from_slice(&ports).map_err(|error| Error::io("parse", &path)(error.into()))?;
        Ok(Self::new(dir, ports))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.dir.join("pki").join(name)
    }

    /// The administrator's.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    /// Those of every other identity.
    pub(crate) fn kubeconfigs(&self) -> PathBuf {
        self.dir.join("kubeconfigs")
    }

    pub(crate) fn audit_log(&self) -> PathBuf {
        self.logs().join("audit.log")
    }

    /// What the process called `name` writes.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The last lines that `component` wrote. Best effort: it goes into error texts, and must not hide the error.
    pub(crate) fn log_tail(&self, component: Component) -> String {
        const LINES: usize = 12;
        let text = fs::read(self.log(component.name())).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// Writes a file that only its owner may read. Whoever reads it meanwhile sees the old text or the new, never a part.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> Result<()> {
    let folder = path.parent().expect("a file is in a folder");
    let temporary = tempfile::Builder::new()
        .prefix(".writing-")
        .make_in(folder, |path| {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        })
        .map_err(Error::io("create a file in", folder))?;
    temporary
        .as_file()
        .write_all(contents)
        .map_err(Error::io("write", path))?;
    temporary
        .persist(path)
        .map_err(|error| Error::io("write", path)(error.error))?;
    Ok(())
}
