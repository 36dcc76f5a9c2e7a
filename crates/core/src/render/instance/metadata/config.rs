//! The configuration of the metadata service: one tree, which is written in either format.

use firebolt_api::ConfigFormat;
use quick_xml::se::{QuoteLevel, Serializer};
use serde::Serialize;
use serde_json::json;

use crate::canonical;
use crate::render::instance::postgres;
use crate::resolve::instance::{EffectiveInstance, METADATA_PORT, Postgres};

/// The root of the tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Config {
    pensieve_lite: PensieveLite,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PensieveLite {
    /// The account that the service creates at start.
    default_account_id: String,
    host: &'static str,
    port: u16,
    /// Zero: as many as the machine has processors.
    server_threads: u32,
    log_level: &'static str,
    metadata_storage: MetadataStorage,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct MetadataStorage {
    postgresql: PostgreSql,
    garbage_collection: GarbageCollection,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct PostgreSql {
    host: String,
    port: i32,
    database: String,
    schema: String,
    keepalive: Keepalive,
    connect_timeout_sec: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Keepalive {
    enabled: u32,
    idle_sec: u32,
    interval_sec: u32,
    count: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct GarbageCollection {
    enabled: bool,
    interval_ms: u32,
    time_horizon_sec: u32,
}

/// The configuration of this instance.
pub(super) fn config(instance: &EffectiveInstance) -> Config {
    Config {
        pensieve_lite: PensieveLite {
            default_account_id: plain(&instance.id),
            // For gRPC this stands for every address, those of IPv6 included.
            host: "0.0.0.0",
            port: METADATA_PORT,
            server_threads: 0,
            log_level: "information",
            metadata_storage: MetadataStorage {
                postgresql: database(instance),
                garbage_collection: GarbageCollection {
                    enabled: true,
                    interval_ms: 3_600_000,
                    time_horizon_sec: 86_400,
                },
            },
        },
    }
}

fn database(instance: &EffectiveInstance) -> PostgreSql {
    let (host, port, database, schema) = match &instance.postgres {
        Postgres::Internal { .. } => (
            instance.service_host(&instance.names().postgres()),
            postgres::PORT.into(),
            postgres::POSTGRES_DATABASE.to_owned(),
            "public".to_owned(),
        ),
        Postgres::External(external) => (
            plain(&external.host),
            external.port,
            plain(&external.database),
            plain(&external.schema),
        ),
    };
    PostgreSql {
        host,
        port,
        database,
        schema,
        keepalive: Keepalive {
            enabled: 1,
            idle_sec: 120,
            interval_sec: 30,
            count: 5,
        },
        connect_timeout_sec: 5,
    }
}

/// Whether a text of the configuration may have this character. Control characters have no place in a name, and XML
/// cannot say most of them, whatever the escape. Admission refuses the rest.
pub(crate) fn is_plain(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{FFFE}' | '\u{FFFF}')
}

/// The text, with a replacement for characters that admission rejects, so that the file is always valid.
fn plain(text: &str) -> String {
    let mark = |character| if is_plain(character) { character } else { '\u{FFFD}' };
    text.chars().map(mark).collect()
}

impl Config {
    /// The text of the file.
    pub(super) fn file(&self, format: ConfigFormat) -> String {
        match format {
            ConfigFormat::Xml => self.xml(),
            ConfigFormat::Yaml => self.yaml(),
        }
    }

    /// A hash of the file. It depends on the format as well: the service reads its file at start.
    pub(super) fn hash(&self, format: ConfigFormat) -> String {
        canonical::hash(&json!({ "format": format, "config": self }))
    }

    fn xml(&self) -> String {
        let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        let mut serializer =
            Serializer::with_root(&mut text, Some("config")).expect("the root is the name of an element");
        serializer.indent(' ', 2);
        serializer.set_quote_level(QuoteLevel::Full);
        self.serialize(serializer)
            .expect("a tree of plain values is representable as XML");
        text.push('\n');
        text
    }

    /// Strings are quoted, so that none is parsed as a number or a boolean.
    fn yaml(&self) -> String {
        let quoted = serde_saphyr::ser_options! { quote_all: true };
        serde_saphyr::to_string_with_options(self, quoted).expect("a tree of plain values is representable as YAML")
    }
}

#[cfg(test)]
mod tests;
