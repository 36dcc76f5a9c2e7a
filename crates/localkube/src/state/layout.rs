//! What lies where in the folder of a cluster.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ports::Ports;
use crate::topology::{Component, Node};
use crate::{Error, Result};

const SHAPE: &str = "cluster.json";

/// What one cluster has and another has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) ports: Ports,
    pub(crate) nodes: Vec<Node>,
}

/// The paths of a cluster, its ports and its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    dir: PathBuf,
    shape: Shape,
}

impl Layout {
    /// The layout of a cluster that is yet to be made.
    pub(crate) fn new(dir: &Path, shape: Shape) -> Self {
        Self {
            dir: dir.to_owned(),
            shape,
        }
    }

    /// Makes the folders of a new cluster, in a folder that is empty, and writes down its shape.
    pub(crate) fn create(&self) -> Result<()> {
        for folder in [self.pki(""), self.kubeconfigs(), self.logs()] {
            fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        }
        for node in self.nodes() {
            let folder = self.node(*node, "");
            fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        }
        let shape = serde_json::to_vec(&self.shape).expect("a shape is numbers and names");
        write_private(&self.dir.join(SHAPE), &shape)
    }

    /// Reads the layout of a cluster that another process started.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(SHAPE);
        let shape = fs::read(&path).map_err(Error::io("read", &path))?;
        let shape = serde_json::from_slice(&shape).map_err(|error| Error::io("parse", &path)(error.into()))?;
        Ok(Self::new(dir, shape))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.shape.ports
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.shape.nodes
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn pki(&self, name: &str) -> PathBuf {
        self.dir.join("pki").join(name)
    }

    /// What belongs to one node.
    pub(crate) fn node(&self, node: Node, name: &str) -> PathBuf {
        self.dir.join(node.name()).join(name)
    }

    /// Where the volumes are that claims of the default class get.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.dir.join("volumes")
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

/// Writes a file that only its owner may read. A concurrent read returns the old text or the new, never a part.
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
