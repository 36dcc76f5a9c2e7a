use super::*;
use rstest::rstest;

pub(crate) const XML: &str = r#"<?xml version="1.0"?>
<config>
  <pensieve_lite>
    <default_account_id>01KA3V7J5T9PZ4X6Q8W2E0R1Y3</default_account_id>
    <host>0.0.0.0</host>
    <port>7000</port>
    <server_threads>0</server_threads>
    <log_level>information</log_level>
    <metadata_storage>
      <postgresql>
        <host>first-metadata-pg.analytics.svc.cluster.local</host>
        <port>5432</port>
        <database>firebolt_metadata</database>
        <schema>public</schema>
        <keepalive>
          <enabled>1</enabled>
          <idle_sec>120</idle_sec>
          <interval_sec>30</interval_sec>
          <count>5</count>
        </keepalive>
        <connect_timeout_sec>5</connect_timeout_sec>
      </postgresql>
      <garbage_collection>
        <enabled>true</enabled>
        <interval_ms>3600000</interval_ms>
        <time_horizon_sec>86400</time_horizon_sec>
      </garbage_collection>
    </metadata_storage>
  </pensieve_lite>
</config>
"#;

const YAML: &str = r#"pensieve_lite:
  default_account_id: "01KA3V7J5T9PZ4X6Q8W2E0R1Y3"
  host: "0.0.0.0"
  port: 7000
  server_threads: 0
  log_level: "information"
  metadata_storage:
    postgresql:
      host: "first-metadata-pg.analytics.svc.cluster.local"
      port: 5432
      database: "firebolt_metadata"
      schema: "public"
      keepalive:
        enabled: 1
        idle_sec: 120
        interval_sec: 30
        count: 5
      connect_timeout_sec: 5
    garbage_collection:
      enabled: true
      interval_ms: 3600000
      time_horizon_sec: 86400
"#;

/// The names of all values, as they appear in messages.
const LEAVES: [&str; 17] = [
    "pensieve_lite.default_account_id",
    "pensieve_lite.host",
    "pensieve_lite.port",
    "pensieve_lite.server_threads",
    "pensieve_lite.log_level",
    "pensieve_lite.metadata_storage.postgresql.host",
    "pensieve_lite.metadata_storage.postgresql.port",
    "pensieve_lite.metadata_storage.postgresql.database",
    "pensieve_lite.metadata_storage.postgresql.schema",
    "pensieve_lite.metadata_storage.postgresql.keepalive.enabled",
    "pensieve_lite.metadata_storage.postgresql.keepalive.idle_sec",
    "pensieve_lite.metadata_storage.postgresql.keepalive.interval_sec",
    "pensieve_lite.metadata_storage.postgresql.keepalive.count",
    "pensieve_lite.metadata_storage.postgresql.connect_timeout_sec",
    "pensieve_lite.metadata_storage.garbage_collection.enabled",
    "pensieve_lite.metadata_storage.garbage_collection.interval_ms",
    "pensieve_lite.metadata_storage.garbage_collection.time_horizon_sec",
];

fn texts() -> [(Format, &'static str); 2] {
    [(Format::Xml, XML), (Format::Yaml, YAML)]
}

fn refusal(format: Format, text: &str) -> String {
    firebolt_process::error::chain(&Configuration::parse(format, text).expect_err("a refusal"))
}

/// The lines of the text, without the one that says `leaf`. Both samples have their values in the order of [`LEAVES`],
/// one to a line.
fn without(text: &str, leaf: &str) -> String {
    let name = leaf.rsplit('.').next().expect("a last name");
    let earlier = LEAVES
        .iter()
        .take_while(|other| **other != leaf)
        .filter(|other| other.ends_with(&format!(".{name}")))
        .count();
    let says = |line: &str| {
        let line = line.trim_start();
        line.starts_with(&format!("<{name}>")) || line.starts_with(&format!("{name}: "))
    };
    let mut lines: Vec<&str> = text.lines().collect();
    let mut places = (0..lines.len()).filter(|place| says(lines[*place]));
    let place = places.nth(earlier).expect("the value is there");
    lines.remove(place);
    lines.join("\n")
}

#[test]
fn both_formats_say_the_same() {
    let expected = Configuration {
        account: "01KA3V7J5T9PZ4X6Q8W2E0R1Y3".to_owned(),
        listen: SocketAddr::from(([0, 0, 0, 0], 7000)),
        server_threads: 0,
        log_level: LogLevel::Information,
        postgres: PostgresSettings {
            host: "first-metadata-pg.analytics.svc.cluster.local".to_owned(),
            port: 5432,
            database: "firebolt_metadata".to_owned(),
            schema: "public".to_owned(),
            keepalive: Keepalive {
                enabled: true,
                idle: Duration::from_mins(2),
                interval: Duration::from_secs(30),
                count: 5,
            },
            connect_timeout: Duration::from_secs(5),
        },
        garbage_collection: GarbageCollection {
            enabled: true,
            interval: Duration::from_hours(1),
            horizon: Duration::from_hours(24),
        },
    };
    for (format, text) in texts() {
        assert_eq!(Configuration::parse(format, text).expect("a configuration"), expected);
    }
}

#[test]
fn each_missing_value_is_named() {
    for leaf in LEAVES {
        for (format, text) in texts() {
            let refusal = refusal(format, &without(text, leaf));
            assert_eq!(refusal, format!("read the configuration: {leaf} is missing"));
        }
    }
}

#[rstest]
#[case("keepalive", "pensieve_lite.metadata_storage.postgresql.keepalive")]
#[case("garbage_collection", "pensieve_lite.metadata_storage.garbage_collection")]
fn a_whole_branch_that_goes_by_another_name_is_missing(#[case] name: &str, #[case] path: &str) {
    for (format, text) in texts() {
        let refusal = refusal(format, &text.replace(name, "other"));
        assert_eq!(refusal, format!("read the configuration: {path} is missing"));
    }
}

#[rstest]
#[case(
    "<count>5</count>",
    "<count>5</count><extra>1</extra>",
    "postgresql.keepalive.extra is not known"
)]
#[case(
    "<interval_ms>",
    "<interval_seconds>1</interval_seconds><interval_ms>",
    "interval_seconds is not known"
)]
#[case(
    "</metadata_storage>",
    "<other/></metadata_storage>",
    "metadata_storage.other is not known"
)]
#[case("</pensieve_lite>", "<other/></pensieve_lite>", "pensieve_lite.other is not known")]
#[case("<port>7000", "<port>0", r#"pensieve_lite.port is "0", which is not a port"#)]
#[case("<port>5432", "<port>65536", r#"postgresql.port is "65536", which is not a port"#)]
#[case(
    "<host>0.0.0.0",
    "<host>localhost",
    r#"pensieve_lite.host is "localhost", which is not an IP address"#
)]
#[case("information", "chatty", r#"log_level is "chatty", which is not a log level"#)]
#[case(
    "<enabled>1",
    "<enabled>yes",
    r#"keepalive.enabled is "yes", which is not 0, 1, true or false"#
)]
#[case(
    "<idle_sec>120",
    "<idle_sec>2m",
    r#"idle_sec is "2m", which is not a number of seconds above 0"#
)]
#[case("<connect_timeout_sec>5", "<connect_timeout_sec>0", "connect_timeout_sec is \"0\"")]
#[case("<schema>public", "<schema>", r#"schema is "", which is not a text"#)]
#[case(
    "<schema>public",
    "<schema><name>public</name>",
    "schema is \"a tree of values\", which is not a value"
)]
fn what_does_not_belong_is_named(#[case] from: &str, #[case] to: &str, #[case] fault: &str) {
    let refusal = refusal(Format::Xml, &XML.replacen(from, to, 1));
    assert!(refusal.contains(fault), "{refusal}");
}

#[test]
fn a_text_that_yaml_takes_for_a_number_has_to_be_quoted() {
    let digits = "01234567890123456789012345";
    let account = "\"01KA3V7J5T9PZ4X6Q8W2E0R1Y3\"";
    let refusal = refusal(Format::Yaml, &YAML.replace(account, digits));
    assert!(refusal.contains("default_account_id"), "{refusal}");
    assert!(refusal.ends_with("which is not in quotes"), "{refusal}");
    let quoted = YAML.replace(account, &format!("{digits:?}"));
    let configuration = Configuration::parse(Format::Yaml, &quoted).expect("a configuration");
    assert_eq!(configuration.account, digits);
}

#[rstest]
#[case(
    Format::Xml,
    "<pensieve_lite><port>1</port></pensieve_lite>",
    "its root is pensieve_lite in place of config"
)]
#[case(
    Format::Xml,
    "<config><engine><a/></engine></config>",
    "its root is engine in place of pensieve_lite"
)]
#[case(
    Format::Xml,
    "<config/>",
    "its root is config without a tree below it in place of config"
)]
#[case(
    Format::Yaml,
    "config:\n  pensieve_lite:\n    port: 1\n",
    "its root is config in place of pensieve_lite"
)]
#[case(
    Format::Yaml,
    "pensieve_lite:\n  port: 1\nother: 1\n",
    "its root is other and pensieve_lite"
)]
fn another_root_is_refused(#[case] format: Format, #[case] text: &str, #[case] fault: &str) {
    let refusal = refusal(format, text);
    assert!(refusal.contains(fault), "{refusal}");
}
