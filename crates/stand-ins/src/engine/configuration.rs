//! The configuration of an engine: each value that the operator sets is present and valid.
//!
//! Users may add sections and settings of their own, which only the real engine can validate. Unknown settings are
//! rejected in sections that belong to the operator alone.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::Deserialize;
use serde_json::Value;

const SCHEMA_VERSION: &str = "1.0";
const INSTANCE_TYPE: &str = "multi_engine";
/// The most nodes that an engine has.
const MAX_NODES: usize = 128;
/// The longest name of a host.
const MAX_HOST: usize = 253;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not there, or is not for this user, or is not text.
    #[error("read the configuration {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is not YAML.
    #[error("read the configuration: it is not YAML: {0}")]
    Malformed(String),
    /// A value is missing, unknown or of the wrong kind.
    #[error("read the configuration: {path}: {fault}")]
    Schema {
        /// Where the value stands.
        path: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A value is not what it has to be.
    #[error("read the configuration: {name} is {value:?}, which is not {expected}")]
    Invalid {
        /// Where the value stands.
        name: String,
        /// The value.
        value: String,
        /// What it has to be.
        expected: String,
    },
}

type Result<T> = std::result::Result<T, ConfigurationError>;

/// All that configures an engine, as far as this one needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The name of the engine.
    pub engine: String,
    /// The instance that it belongs to.
    pub instance: String,
    /// The address of the metadata service.
    pub metadata_endpoint: String,
    /// The hosts of all nodes, this one included.
    pub hosts: Vec<String>,
    /// How long running queries may take from the beginning of the shutdown.
    pub termination_grace_period: Duration,
}

#[derive(Deserialize)]
struct File {
    schema_version: String,
    instance: InstanceSection,
    engine: EngineSection,
}

#[derive(Deserialize)]
struct InstanceSection {
    id: String,
    r#type: String,
    multi_engine: MultiEngineSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MultiEngineSection {
    metadata_endpoint: String,
}

#[derive(Deserialize)]
struct EngineSection {
    id: String,
    nodes: Vec<Node>,
    termination_grace_period: firebolt_api::Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    host: String,
}

impl Configuration {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| ConfigurationError::Unreadable(path.to_owned(), error))?;
        Self::parse(&text)
    }

    /// Reads a text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // In two steps: first that it is YAML, in which no name stands twice, then what it says.
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            // The first line says what is wrong, the others show it.
            let text = error.to_string();
            ConfigurationError::Malformed(text.lines().next().unwrap_or_default().to_owned())
        })?;
        let file: File = serde_path_to_error::deserialize(value).map_err(|error| ConfigurationError::Schema {
            path: error.path().to_string(),
            fault: error.inner().to_string(),
        })?;
        file.check()
    }

    /// Checks that the node of this number is there, and is the pod of this name.
    pub(crate) fn check_node(&self, node: usize, pod: &str) -> Result<()> {
        let Some(host) = self.hosts.get(node) else {
            let count = self.hosts.len();
            return invalid("--node", &node.to_string(), format!("one of the {count} engine.nodes"));
        };
        if host.split('.').next() != Some(pod) {
            let name = format!("engine.nodes[{node}].host");
            return invalid(name, host, format!("a host in this pod, {pod}"));
        }
        Ok(())
    }
}

impl File {
    fn check(self) -> Result<Configuration> {
        let Self {
            schema_version,
            instance,
            engine,
        } = self;
        let require = |holds: bool, name: &str, value: &str, expected: &str| {
            if holds { Ok(()) } else { invalid(name, value, expected) }
        };
        require(
            schema_version == SCHEMA_VERSION,
            "schema_version",
            &schema_version,
            SCHEMA_VERSION,
        )?;
        require(
            instance.r#type == INSTANCE_TYPE,
            "instance.type",
            &instance.r#type,
            INSTANCE_TYPE,
        )?;
        require(
            !instance.id.is_empty(),
            "instance.id",
            &instance.id,
            "the identity of an instance",
        )?;
        let endpoint = instance.multi_engine.metadata_endpoint;
        let name = "instance.multi_engine.metadata_endpoint";
        require(is_endpoint(&endpoint), name, &endpoint, "a host and a port")?;
        require(is_label(&engine.id), "engine.id", &engine.id, "the name of an engine")?;
        let hosts: Vec<String> = engine.nodes.into_iter().map(|node| node.host).collect();
        let count = hosts.len();
        let expected = "a list of 1 to 128 nodes";
        require(
            (1..=MAX_NODES).contains(&count),
            "engine.nodes",
            &format!("{count} nodes"),
            expected,
        )?;
        let mut known = BTreeSet::new();
        for (number, host) in hosts.iter().enumerate() {
            let name = format!("engine.nodes[{number}].host");
            require(is_host(host), &name, host, "the name of a host")?;
            require(known.insert(host), &name, host, "the host of one node only")?;
        }
        let grace = engine.termination_grace_period;
        let name = "engine.termination_grace_period";
        require(!grace.get().is_zero(), name, &grace.to_string(), "longer than nothing")?;
        Ok(Configuration {
            engine: engine.id,
            instance: instance.id,
            metadata_endpoint: endpoint,
            hosts,
            termination_grace_period: grace.get(),
        })
    }
}

fn invalid<T>(name: impl Into<String>, value: &str, expected: impl Into<String>) -> Result<T> {
    let (name, value, expected) = (name.into(), value.to_owned(), expected.into());
    Err(ConfigurationError::Invalid { name, value, expected })
}

/// A host or an address, and a port that is not 0.
fn is_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = bracketed.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    (is_address || is_host(host)) && port.parse::<std::num::NonZeroU16>().is_ok()
}

fn is_host(text: &str) -> bool {
    text.len() <= MAX_HOST && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
