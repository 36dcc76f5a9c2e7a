//! Both formats against parsers that are not ours.

use std::collections::BTreeMap;

use firebolt_api::{ExternalPostgres, SecretReference};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::render::instance::tests::effective;

/// An instance with this identity and this external database.
fn instance(id: &str, host: &str, port: i32, database: &str, schema: &str) -> EffectiveInstance {
    EffectiveInstance {
        id: id.to_owned(),
        postgres: Postgres::External(ExternalPostgres {
            host: host.to_owned(),
            port,
            database: database.to_owned(),
            schema: schema.to_owned(),
            credentials_secret_ref: SecretReference {
                name: "credentials".to_owned(),
            },
        }),
        ..effective(&serde_json::json!({}))
    }
}

/// Every leaf of a document, as text under its path.
type Leaves = BTreeMap<String, String>;

fn leaves_of_json(path: &str, value: &Value, leaves: &mut Leaves) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                leaves_of_json(&format!("{path}/{key}"), field, leaves);
            }
        }
        Value::String(text) => drop(leaves.insert(path.to_owned(), text.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            leaves.insert(path.to_owned(), value.to_string());
        }
    }
}

fn leaves_of_xml(path: &str, node: roxmltree::Node, leaves: &mut Leaves) {
    let mut elements = node.children().filter(roxmltree::Node::is_element).peekable();
    if elements.peek().is_none() {
        let text: String = node.children().filter_map(|child| child.text()).collect();
        leaves.insert(path.to_owned(), text);
    }
    for element in elements {
        leaves_of_xml(&format!("{path}/{}", element.tag_name().name()), element, leaves);
    }
}

/// What a reader of the XML file finds.
fn read_xml(config: &Config) -> Leaves {
    let text = config.file(ConfigFormat::Xml);
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "config");
    let mut leaves = Leaves::new();
    leaves_of_xml("", root, &mut leaves);
    leaves
}

/// What a reader of the YAML file finds, with types.
fn read_yaml(config: &Config) -> Value {
    let text = config.file(ConfigFormat::Yaml);
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn leaves(value: &Value) -> Leaves {
    let mut leaves = Leaves::new();
    leaves_of_json("", value, &mut leaves);
    leaves
}

/// Asserts that both formats give the tree back, to the letter.
fn assert_readable(config: &Config) {
    let tree = canonical::to_json(config);
    assert_eq!(read_yaml(config), tree);
    assert_eq!(read_xml(config), leaves(&tree));
}

#[rstest]
#[case::markup("<a>&amp;</a>")]
#[case::quotes("\"it's\"")]
#[case::end_of_section("]]>")]
#[case::comment("<!-- -->")]
#[case::switch("on")]
#[case::no("no")]
#[case::nothing("null")]
#[case::tilde("~")]
#[case::number("1.0")]
#[case::octal("0o17")]
#[case::sexagesimal("12:30:45")]
#[case::time("2026-01-01")]
#[case::infinity(".inf")]
#[case::anchor("&a")]
#[case::alias("*a")]
#[case::tag("!!int 1")]
#[case::remark("a # b")]
#[case::colon("a: b")]
#[case::backslash(r"a\nb")]
#[case::spaces("  a  ")]
#[case::empty("")]
#[case::address("[2001:db8::1]")]
#[case::percent("%YAML")]
#[case::wide("ä🔥\u{a0}\u{2028}")]
fn texts_that_mean_something_elsewhere_stay_texts(#[case] text: &str) {
    assert_readable(&config(&instance(text, text, 5432, text, text)));
}

#[rstest]
#[case::null("a\0b")]
#[case::escape("\u{1b}")]
#[case::carriage_return("a\r\nb")]
#[case::no_character("\u{fffe}")]
fn a_character_that_admission_refuses_leaves_the_file_readable(#[case] id: &str) {
    let config = config(&instance(id, "h", 1, "d", "s"));
    assert_readable(&config);
    assert!(config.pensieve_lite.default_account_id.contains('\u{fffd}'));
}

#[test]
fn an_address_with_brackets_stays_as_written() {
    let found = read_yaml(&config(&instance("id", "[2001:db8::1]", 5432, "d", "s")));
    let database = &found["pensieve_lite"]["metadata_storage"]["postgresql"];
    assert_eq!(database["host"], "[2001:db8::1]");
}

/// Another text here restarts the metadata service of every instance at the next upgrade.
#[test]
fn the_config_hash_of_a_bare_instance_never_changes() {
    let config = config(&effective(&serde_json::json!({})));
    insta::assert_snapshot!(config.hash(ConfigFormat::Xml), @"633fe55571c611eb");
}

#[test]
fn the_config_hash_changes_with_the_content_of_the_file() {
    let original = instance("id", "h", 1, "d", "s");
    let hash = |instance: &EffectiveInstance| config(instance).hash(ConfigFormat::Xml);
    let others = [
        hash(&instance("other", "h", 1, "d", "s")),
        hash(&instance("id", "other", 1, "d", "s")),
        hash(&instance("id", "h", 2, "d", "s")),
        hash(&instance("id", "h", 1, "other", "s")),
        hash(&instance("id", "h", 1, "d", "other")),
    ];
    assert!(!others.contains(&hash(&original)), "{others:?}");
    assert_ne!(config(&original).hash(ConfigFormat::Yaml), hash(&original));
    let renamed = EffectiveInstance {
        uid: "another".to_owned(),
        ..original.clone()
    };
    assert_eq!(hash(&renamed), hash(&original));
}

/// What the schema allows for names of databases.
const DATABASE: &str = r"[A-Za-z0-9_.\-]{1,63}";

proptest! {
    #[test]
    fn both_formats_say_the_same_tree(
        id in "\\PC{0,253}",
        host in r"[A-Za-z0-9.\-:\[\]]{1,253}",
        port in 1..=65_535,
        database in DATABASE,
        schema in DATABASE,
    ) {
        let config = config(&instance(&id, &host, port, &database, &schema));
        prop_assert_eq!(&config.pensieve_lite.default_account_id, &id);
        assert_readable(&config);
    }

    #[test]
    fn no_text_makes_an_unreadable_file(text in any::<String>(), other in any::<String>()) {
        assert_readable(&config(&instance(&text, &other, 1, &other, &text)));
    }
}
