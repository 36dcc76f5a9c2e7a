//! The same words within identifiers of Rust code. `git grep` finds only words that stand alone: `_` and the letters of a
//! CamelCase name are no boundary to it.

use std::error::Error;
use std::fs;
use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};

/// Sequences of words, and what to say instead.
const PHRASES: [(&[&str], &str); 12] = [
    (
        &["look", "looks", "looked", "looking"],
        "reconcile, observe, read or check",
    ),
    (
        &["wish", "wishes", "wished", "wanted"],
        "desired, expected or requested",
    ),
    (&["hold back", "holds back", "held back"], "throttle or delay"),
    (&["trouble", "troubles"], "error"),
    (&["term", "terms"], "leadership or lease"),
    (
        &["told", "tell", "tells", "telling", "said"],
        "report, emit, message or output",
    ),
    (&["judge", "judges", "judged"], "validator, validate"),
    (&["rehearse", "rehearsal", "rehearsals"], "dry run"),
    (&["objection", "objections"], "cause reported by the API server"),
    (
        &["agenda", "inbox", "belongings", "desk", "keeper", "sight"],
        "queue, pending set, owned objects, handler, controller or observed state",
    ),
    (
        &["scene", "follower", "followers", "spoilt", "spoiled"],
        "test environment, watch or invalid",
    ),
    (
        &["stamp", "stamps", "stamped", "stranger", "strangers", "seat", "seats"],
        "template-hash, unknown engine or waiter guard",
    ),
];

/// Honest uses of these words: with another meaning, or in names of others.
const HONEST: [&str; 6] = [
    "look up",
    "looks up",
    "looked up",
    "look like",
    "looks like",
    "term width",
];

/// Names of others that are one word: the signal.
const NAMES: [&str; 1] = ["TERM"];

/// An identifier with such a word.
#[derive(Debug, PartialEq)]
pub(super) struct IdentifierFinding {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) say: &'static str,
}

/// The identifiers in a source file that have such a word.
pub(super) fn search(file: &Path) -> Result<Vec<IdentifierFinding>, Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| format!("parse {}: {error}", file.display()))?;
    let mut found = Vec::new();
    collect(tokens, &mut found);
    Ok(found)
}

fn collect(tokens: TokenStream, found: &mut Vec<IdentifierFinding>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(ident) => found.extend(find(&ident)),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn find(ident: &Ident) -> Option<IdentifierFinding> {
    let name = ident.to_string();
    let say = to_replace(&name)?;
    let line = ident.span().start().line;
    Some(IdentifierFinding { line, name, say })
}

/// What to say instead of a word of the name.
fn to_replace(name: &str) -> Option<&'static str> {
    if NAMES.contains(&name) {
        return None;
    }
    let mut words = format!(" {} ", words(name).join(" "));
    for honest in HONEST {
        words = words.replace(&format!(" {honest} "), " ");
    }
    let has = |phrase: &&str| words.contains(&format!(" {phrase} "));
    let (_, say) = PHRASES.iter().find(|(phrases, _)| phrases.iter().any(has))?;
    Some(say)
}

/// The words of a name in `snake_case`, `CamelCase` or `UPPER_CASE`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = ' ';
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && last.is_lowercase()) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        last = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("snake_case"), ["snake", "case"]);
        assert_eq!(words("CamelCase"), ["camel", "case"]);
        assert_eq!(words("_UPPER_CASE"), ["upper", "case"]);
    }

    #[test]
    fn words_within_identifiers_are_found() {
        for name in [
            "a_newcomer_looks_first",
            "HoldBack",
            "term_ends",
            "TOLD",
            "LookAgain",
            "wanted",
        ] {
            assert!(to_replace(name).is_some(), "{name}");
        }
    }

    #[test]
    fn honest_uses_are_not() {
        for name in [
            "look_up",
            "two_that_look_like_one",
            "Lookup",
            "objects_are_looked_up_by_name",
            "TERM",
            "max_term_width",
            "Timestamp",
            "terminating",
            "hold_queue",
        ] {
            assert_eq!(to_replace(name), None, "{name}");
        }
    }

    #[test]
    fn comments_and_texts_are_left_to_the_search_of_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.rs");
        fs::write(&file, "// told\nfn f() {\n    g(\"told\", told);\n}\n").expect("a file");
        let (line, name) = (3, "told".to_owned());
        let say = to_replace("told").expect("a word to replace");
        assert_eq!(search(&file).expect("read it"), [IdentifierFinding { line, name, say }]);
    }
}
