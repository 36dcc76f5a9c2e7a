//! Finds modules, imports and paths in the tokens of a source file.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream::IntoIter};

/// The names of a path, as it is written or from the root of the crate.
pub(super) type PathSegments = Vec<String>;

/// What a source file says about modules. Paths are as they are written.
pub(super) enum Found {
    /// Something with a name is defined.
    Item(String),
    /// Something is imported under this name.
    Import {
        name: String,
        path: PathSegments,
        line: usize,
    },
    /// Everything of a module is imported.
    Glob { path: PathSegments, line: usize },
    /// A path is mentioned.
    Path { path: PathSegments, line: usize },
    /// A module is declared, with its body if it is in the same file.
    Module { name: String, body: Option<TokenStream> },
}

/// What stands before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "static", "const"];
/// What may stand between such a word and the name.
const QUALIFIERS: [&str; 5] = ["fn", "unsafe", "async", "extern", "mut"];

type Tokens = Peekable<IntoIter>;

/// Reads the tokens of a module, test code left out.
pub(super) fn read(tokens: TokenStream) -> Vec<Found> {
    let mut found = Vec::new();
    read_tokens(tokens, true, &mut found);
    found
}

/// Reads tokens. At the top, what has a name belongs to the module.
fn read_tokens(tokens: TokenStream, top: bool, found: &mut Vec<Found>) {
    let mut tokens = tokens.into_iter().peekable();
    let mut last = [' ', ' '];
    let mut elsewhere = false;
    while let Some(token) = tokens.next() {
        // After `::` comes the rest of a path, and after a single dot a field or a method.
        let joined = last == [':', ':'] || (last[1] == '.' && last[0] != '.');
        last = [last[1], ' '];
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => match read_attribute(&mut tokens) {
                Attribute::Test => skip_item(&mut tokens),
                Attribute::Path => elsewhere = true,
                Attribute::Other => {}
            },
            TokenTree::Punct(punct) => last[1] = punct.as_char(),
            TokenTree::Group(group) => read_tokens(group.stream(), false, found),
            TokenTree::Ident(word) if !joined => {
                let line = word.span().start().line;
                read_word(&word.to_string(), line, &mut tokens, top, found);
                if word == "mod"
                    && std::mem::take(&mut elsewhere)
                    && let Some(Found::Module { body, .. }) = found.last_mut()
                {
                    *body = Some(TokenStream::new());
                }
            }
            TokenTree::Ident(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn read_word(word: &str, line: usize, tokens: &mut Tokens, top: bool, found: &mut Vec<Found>) {
    match word {
        "mod" => {
            let Some(TokenTree::Ident(name)) = tokens.next() else {
                return;
            };
            let body = match tokens.next() {
                Some(TokenTree::Group(body)) => Some(body.stream()),
                _ => None,
            };
            let name = name.to_string();
            found.push(Found::Module { name, body });
        }
        // `use<'a>` is a bound.
        "use" if !next_is(tokens, '<') => read_import(&Vec::new(), tokens, found),
        _ if ITEMS.contains(&word) => {
            if let (true, Some(TokenTree::Ident(name))) = (top, tokens.peek()) {
                let name = name.to_string();
                if !QUALIFIERS.contains(&name.as_str()) {
                    found.push(Found::Item(name));
                }
            }
        }
        _ => {
            let path = read_path(word, tokens);
            if path.len() > 1 {
                found.push(Found::Path { path, line });
            }
        }
    }
}

/// Reads the rest of a path that begins with this word.
fn read_path(first: &str, tokens: &mut Tokens) -> PathSegments {
    let mut path = vec![first.to_owned()];
    while next_is(tokens, ':') {
        // A single colon comes before a type.
        let mut ahead = tokens.clone();
        ahead.next();
        if !next_is(&mut ahead, ':') {
            break;
        }
        ahead.next();
        let Some(TokenTree::Ident(name)) = ahead.next() else {
            break;
        };
        path.push(name.to_string());
        *tokens = ahead;
    }
    path
}

/// Reads a tree of imports to its end: a comma, a semicolon, or the end of the braces.
fn read_import(prefix: &PathSegments, tokens: &mut Tokens, found: &mut Vec<Found>) {
    let mut path = prefix.clone();
    let mut alias = None;
    let mut line = 0;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => alias = tokens.next().map(|name| name.to_string()),
            TokenTree::Ident(word) => {
                line = word.span().start().line;
                path.push(word.to_string());
            }
            TokenTree::Punct(punct) if punct.as_char() == '*' => {
                let line = punct.span().start().line;
                let path = std::mem::take(&mut path);
                found.push(Found::Glob { path, line });
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let mut inner = group.stream().into_iter().peekable();
                while inner.peek().is_some() {
                    read_import(&path, &mut inner, found);
                }
                path.clear();
            }
            TokenTree::Punct(punct) if [',', ';'].contains(&punct.as_char()) => break,
            TokenTree::Punct(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {}
        }
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push(Found::Import { name, path, line });
    }
}

/// What an attribute says about the item after it.
enum Attribute {
    /// It is test code.
    Test,
    /// It is a module whose file is elsewhere.
    Path,
    Other,
}

/// Reads an attribute to its end.
fn read_attribute(tokens: &mut Tokens) -> Attribute {
    if next_is(tokens, '!') {
        tokens.next();
        tokens.next();
        return Attribute::Other;
    }
    let Some(TokenTree::Group(attribute)) = tokens.next() else {
        return Attribute::Other;
    };
    let mut words = attribute.stream().into_iter();
    match words.next() {
        Some(TokenTree::Ident(word)) if word == "path" => Attribute::Path,
        Some(TokenTree::Ident(word)) if word == "cfg" && words.any(|token| mentions_test(&token)) => Attribute::Test,
        _ => Attribute::Other,
    }
}

/// Whether the condition holds for tests alone, as far as we use conditions.
fn mentions_test(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word == "test",
        TokenTree::Group(group) => {
            let mut negated = false;
            group.stream().into_iter().any(|token| {
                let was_negated = std::mem::replace(&mut negated, token.to_string() == "not");
                !was_negated && mentions_test(&token)
            })
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    }
}

/// Passes over an item, or over a field or a variant, which end with a comma.
fn skip_item(tokens: &mut Tokens) {
    let mut item = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                item |= ["use", "mod", "impl"].iter().any(|other| word == other) || ITEMS.iter().any(|it| word == it);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(punct) if punct.as_char() == ';' || (!item && punct.as_char() == ',') => return,
            TokenTree::Punct(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn next_is(tokens: &mut Tokens, punct: char) -> bool {
    matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == punct)
}
