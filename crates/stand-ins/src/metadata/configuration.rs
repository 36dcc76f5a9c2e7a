//! The configuration of the metadata service: every value by its name, and nothing besides.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::tree::{self, Branch, Format, Leaf, Tree, TreeError};

/// The element that holds an XML configuration. YAML has no counterpart.
const XML_ROOT: &str = "config";
/// The name of the service in its configuration.
const SERVICE: &str = "pensieve_lite";

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not there, or is not for this user, or is not text.
    #[error("read the configuration {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is in neither format.
    #[error("read the configuration")]
    Tree(#[from] TreeError),
    /// The file is the configuration of something else.
    #[error("read the configuration: its root is {found} in place of {expected}")]
    Root {
        /// The names at the root.
        found: String,
        /// The one that has to be there.
        expected: &'static str,
    },
    /// A value is not there.
    #[error("read the configuration: {0} is missing")]
    Missing(String),
    /// A value is there that the service does not know.
    #[error("read the configuration: {0} is not known")]
    Unknown(String),
    /// A value is not what it has to be.
    #[error("read the configuration: {name} is {value:?}, which is not {expected}")]
    Invalid {
        /// Where the value stands.
        name: String,
        /// The value.
        value: String,
        /// What it has to be.
        expected: &'static str,
    },
}

type Result<T> = std::result::Result<T, ConfigurationError>;

/// All that configures the metadata service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The account to create unless it exists.
    pub account: String,
    /// Where to listen for gRPC.
    pub listen: SocketAddr,
    /// How many threads serve; 0 leaves it to the service.
    pub server_threads: u32,
    /// How much is logged.
    pub log_level: LogLevel,
    /// Where metadata is kept.
    pub postgres: PostgresSettings,
    /// When old metadata is removed.
    pub garbage_collection: GarbageCollection,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the name of a level, and nothing more")]
pub enum LogLevel {
    None,
    Fatal,
    Critical,
    Error,
    Warning,
    Notice,
    Information,
    Debug,
    Trace,
}

/// Where metadata is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The name of the database.
    pub database: String,
    /// The schema in the database.
    pub schema: String,
    /// How a dead connection is found out.
    pub keepalive: Keepalive,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
}

/// How a dead connection is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether it is looked for at all.
    pub enabled: bool,
    /// How long a connection may be idle before the first probe.
    pub idle: Duration,
    /// How long after an unanswered question the next one follows.
    pub interval: Duration,
    /// The maximum number of unanswered probes.
    pub count: u32,
}

/// When old metadata is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GarbageCollection {
    /// Whether it is removed at all.
    pub enabled: bool,
    /// How often.
    pub interval: Duration,
    /// How old it has to be.
    pub(crate) horizon: Duration,
}

impl Configuration {
    /// Reads a file, in the format that its name or else its text indicates.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| ConfigurationError::Unreadable(path.to_owned(), error))?;
        Self::parse(Format::of(path, &text), &text)
    }

    /// Reads a text.
    pub(crate) fn parse(format: Format, text: &str) -> Result<Self> {
        let mut tree = tree::read(format, text)?;
        if format == Format::Xml {
            tree = sole(tree, XML_ROOT)?;
        }
        let mut service = Reader::new(SERVICE, sole(tree, SERVICE)?);
        let mut storage = service.branch("metadata_storage")?;
        let configuration = Self {
            account: service.text("default_account_id")?,
            listen: SocketAddr::new(service.value::<IpAddr>("host", "an IP address")?, service.port("port")?),
            server_threads: service.value("server_threads", "a number of threads")?,
            log_level: service.value("log_level", "a log level")?,
            postgres: PostgresSettings::read(storage.branch("postgresql")?)?,
            garbage_collection: GarbageCollection::read(storage.branch("garbage_collection")?)?,
        };
        storage.finish()?;
        service.finish()?;
        Ok(configuration)
    }
}

impl PostgresSettings {
    fn read(mut reader: Reader) -> Result<Self> {
        let settings = Self {
            host: reader.text("host")?,
            port: reader.port("port")?,
            database: reader.text("database")?,
            schema: reader.text("schema")?,
            keepalive: Keepalive::read(reader.branch("keepalive")?)?,
            connect_timeout: reader.seconds("connect_timeout_sec")?,
        };
        reader.finish()?;
        Ok(settings)
    }
}

impl Keepalive {
    fn read(mut reader: Reader) -> Result<Self> {
        let keepalive = Self {
            enabled: reader.flag("enabled")?,
            idle: reader.seconds("idle_sec")?,
            interval: reader.seconds("interval_sec")?,
            count: reader.value("count", "a number")?,
        };
        reader.finish()?;
        Ok(keepalive)
    }
}

impl GarbageCollection {
    fn read(mut reader: Reader) -> Result<Self> {
        let collection = Self {
            enabled: reader.flag("enabled")?,
            interval: reader.duration("interval_ms", "a number of milliseconds above 0", Duration::from_millis)?,
            horizon: reader.seconds("time_horizon_sec")?,
        };
        reader.finish()?;
        Ok(collection)
    }
}

impl FromStr for LogLevel {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        match text {
            "none" => Ok(Self::None),
            "fatal" => Ok(Self::Fatal),
            "critical" => Ok(Self::Critical),
            "error" => Ok(Self::Error),
            "warning" => Ok(Self::Warning),
            "notice" => Ok(Self::Notice),
            "information" => Ok(Self::Information),
            "debug" => Ok(Self::Debug),
            "trace" => Ok(Self::Trace),
            _ => Err(()),
        }
    }
}

/// The branch called `expected`, if it is all that `tree` holds.
fn sole(mut tree: Branch, expected: &'static str) -> Result<Branch> {
    match tree.remove(expected) {
        Some(Tree::Branch(branch)) if tree.is_empty() => Ok(branch),
        found => {
            let mut names: Vec<String> = tree.into_keys().collect();
            match found {
                Some(Tree::Branch(_)) => names.push(expected.to_owned()),
                Some(Tree::Leaf(_)) => names.push(format!("{expected} without a tree below it")),
                None => {}
            }
            let found = names.join(" and ");
            Err(ConfigurationError::Root { found, expected })
        }
    }
}

/// Takes values out of a branch, so that unknown ones are left over in the end.
struct Reader {
    path: String,
    branch: Branch,
}

impl Reader {
    fn new(path: impl Into<String>, branch: Branch) -> Self {
        let path = path.into();
        Self { path, branch }
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    fn take(&mut self, name: &str) -> Result<Tree> {
        let found = self.branch.remove(name);
        found.ok_or_else(|| ConfigurationError::Missing(self.path_of(name)))
    }

    fn branch(&mut self, name: &str) -> Result<Self> {
        match self.take(name)? {
            Tree::Branch(branch) => Ok(Self::new(self.path_of(name), branch)),
            Tree::Leaf(leaf) => Err(self.invalid(name, leaf.text, "a tree of values")),
        }
    }

    fn leaf(&mut self, name: &str) -> Result<Leaf> {
        match self.take(name)? {
            Tree::Leaf(leaf) => Ok(leaf),
            Tree::Branch(_) => Err(self.invalid(name, "a tree of values".to_owned(), "a value")),
        }
    }

    fn text(&mut self, name: &str) -> Result<String> {
        let Leaf { text, is_text } = self.leaf(name)?;
        if text.is_empty() {
            return Err(self.invalid(name, text, "a text"));
        }
        if !is_text {
            return Err(self.invalid(name, text, "in quotes"));
        }
        Ok(text)
    }

    fn value<T: FromStr>(&mut self, name: &str, expected: &'static str) -> Result<T> {
        let text = self.leaf(name)?.text;
        text.parse().map_err(|_| self.invalid(name, text, expected))
    }

    fn port(&mut self, name: &str) -> Result<u16> {
        let port: std::num::NonZeroU16 = self.value(name, "a port")?;
        Ok(port.get())
    }

    fn seconds(&mut self, name: &str) -> Result<Duration> {
        self.duration(name, "a number of seconds above 0", Duration::from_secs)
    }

    fn duration(&mut self, name: &str, expected: &'static str, unit: fn(u64) -> Duration) -> Result<Duration> {
        let number: std::num::NonZeroU64 = self.value(name, expected)?;
        Ok(unit(number.get()))
    }

    fn flag(&mut self, name: &str) -> Result<bool> {
        let text = self.leaf(name)?.text;
        match text.as_str() {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(self.invalid(name, text, "0, 1, true or false")),
        }
    }

    /// Fails if a value was not read.
    fn finish(self) -> Result<()> {
        match self.branch.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(ConfigurationError::Unknown(self.path_of(name))),
        }
    }

    fn invalid(&self, name: &str, value: String, expected: &'static str) -> ConfigurationError {
        let name = self.path_of(name);
        ConfigurationError::Invalid { name, value, expected }
    }
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
pub(super) mod tests;
