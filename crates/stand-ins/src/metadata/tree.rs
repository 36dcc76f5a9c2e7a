//! The tree of texts that a configuration is, whichever format it is written in.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// How a configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Elements below `config`.
    Xml,
    /// A mapping.
    Yaml,
}

impl Format {
    /// The format that the name of the file claims, else the one that its text looks like.
    pub(super) fn of(path: &Path, text: &str) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("xml") => Self::Xml,
            Some("yaml" | "yml") => Self::Yaml,
            Some(_) | None if text.trim_start().starts_with('<') => Self::Xml,
            Some(_) | None => Self::Yaml,
        }
    }
}

/// Why a text is no tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The text is not XML.
    #[error("read the XML")]
    Xml(#[from] roxmltree::Error),
    /// The text is not YAML, or holds something other than mappings and scalars.
    #[error("read the YAML")]
    Yaml(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// XML can say what a tree of texts cannot hold.
    #[error("read the XML element {element}: {fault}")]
    Element {
        /// The name of the element.
        element: String,
        /// What is wrong with it.
        fault: &'static str,
    },
}

/// A text, or more trees by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Leaf(Leaf),
    Branch(Branch),
}

pub(super) type Branch = BTreeMap<String, Tree>;

/// The text at the end of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) text: String,
    /// False for a YAML scalar that is a number, a truth value or nothing: its text may differ from what was meant.
    pub(super) is_text: bool,
}

/// Reads the text into the branch that it is. In XML, that is what the element at the root holds, by its name.
pub(super) fn read(format: Format, text: &str) -> Result<Branch, TreeError> {
    match format {
        Format::Xml => {
            let document = roxmltree::Document::parse(text)?;
            let root = document.root_element();
            let name = root.tag_name().name().to_owned();
            Ok(Branch::from([(name, from_element(root)?)]))
        }
        Format::Yaml => match serde_saphyr::from_str(text).map_err(|error| TreeError::Yaml(error.into()))? {
            Tree::Branch(branch) => Ok(branch),
            Tree::Leaf(_) => Err(TreeError::Yaml("the root is not a mapping".into())),
        },
    }
}

fn from_element(element: roxmltree::Node) -> Result<Tree, TreeError> {
    let fault = |fault| {
        let element = element.tag_name().name().to_owned();
        Err(TreeError::Element { element, fault })
    };
    if element.attributes().len() > 0 {
        return fault("it has attributes");
    }
    let text: String = element
        .children()
        .filter(roxmltree::Node::is_text)
        .filter_map(|child| child.text())
        .collect();
    let mut branch = Branch::new();
    for child in element.children().filter(roxmltree::Node::is_element) {
        let name = child.tag_name().name().to_owned();
        if branch.insert(name, from_element(child)?).is_some() {
            return fault("it holds two elements of one name");
        }
    }
    if branch.is_empty() {
        return Ok(Tree::Leaf(Leaf { text, is_text: true }));
    }
    if !text.trim().is_empty() {
        return fault("it holds both text and elements");
    }
    Ok(Tree::Branch(branch))
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

/// A scalar that is no text.
fn scalar(value: &impl ToString) -> Tree {
    let (text, is_text) = (value.to_string(), false);
    Tree::Leaf(Leaf { text, is_text })
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a mapping or a scalar")
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        let (text, is_text) = (text.to_owned(), true);
        Ok(Tree::Leaf(Leaf { text, is_text }))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(scalar(&value))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(scalar(&""))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut branch = Branch::new();
        // The parser refuses a name that stands there twice.
        while let Some((name, tree)) = entries.next_entry()? {
            branch.insert(name, tree);
        }
        Ok(Tree::Branch(branch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn leaf(text: &str, is_text: bool) -> Tree {
        let text = text.to_owned();
        Tree::Leaf(Leaf { text, is_text })
    }

    #[rstest]
    #[case("config.xml", "root: 1", Format::Xml)]
    #[case("config.yaml", "<root/>", Format::Yaml)]
    #[case("config.yml", "", Format::Yaml)]
    #[case("config", "\n <?xml version='1.0'?><root/>", Format::Xml)]
    #[case("config.conf", "root: 1", Format::Yaml)]
    fn the_extension_of_the_file_decides_the_format_before_its_content(
        #[case] path: &str,
        #[case] text: &str,
        #[case] format: Format,
    ) {
        assert_eq!(Format::of(Path::new(path), text), format);
    }

    #[test]
    fn xml_is_unescaped_and_its_layout_ignored() {
        let text = "<?xml version=\"1.0\"?>\n<a>\n  <!-- why -->\n  <b>x &lt;&amp;&gt; y</b>\n  <c></c>\n</a>\n";
        let inner = Branch::from([("b".into(), leaf("x <&> y", true)), ("c".into(), leaf("", true))]);
        let expected = Branch::from([("a".into(), Tree::Branch(inner))]);
        assert_eq!(read(Format::Xml, text).expect("a tree"), expected);
    }

    #[test]
    fn yaml_keeps_what_is_a_text_apart_from_what_is_not() {
        let text = "a:\n  b: \"1\"\n  c: 1\n  d: true\n  e: one\n  f:\n";
        let inner = [
            ("b", leaf("1", true)),
            ("c", leaf("1", false)),
            ("d", leaf("true", false)),
            ("e", leaf("one", true)),
            ("f", leaf("", false)),
        ];
        let inner = inner.into_iter().map(|(name, tree)| (name.to_owned(), tree)).collect();
        let expected = Branch::from([("a".into(), Tree::Branch(inner))]);
        assert_eq!(read(Format::Yaml, text).expect("a tree"), expected);
    }

    #[rstest]
    #[case(Format::Xml, "<a b='c'/>", "it has attributes")]
    #[case(Format::Xml, "<a><b/><b/></a>", "two elements of one name")]
    #[case(Format::Xml, "<a>text<b/></a>", "both text and elements")]
    #[case(Format::Xml, "a: b", "read the XML")]
    #[case(Format::Yaml, "a: [1]", "a mapping or a scalar")]
    #[case(Format::Yaml, "a: 1\na: 2", "duplicate")]
    #[case(Format::Yaml, "<a/>", "the root is not a mapping")]
    fn what_is_no_tree_is_refused(#[case] format: Format, #[case] text: &str, #[case] fault: &str) {
        let error = firebolt_process::error::chain(&read(format, text).expect_err("no tree"));
        assert!(error.contains(fault), "{error}");
    }
}
