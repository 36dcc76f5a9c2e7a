//! Errors as text for logs and messages.

use std::error::Error;

/// An error and its causes in one line. A cause that the text already contains is not repeated.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// At most `limit` characters of a text that comes from outside, so that it cannot flood the log.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn a_chain_has_every_cause_once() {
        let cause = || io::Error::other("no route");
        assert_eq!(chain(&Outer("cannot connect", cause())), "cannot connect: no route");
        assert_eq!(
            chain(&Outer("cannot connect (no route)", cause())),
            "cannot connect (no route)"
        );
    }

    #[test]
    fn only_a_text_that_is_too_long_is_shortened() {
        assert_eq!(shortened("größe", 5), "größe");
        assert_eq!(shortened("größer", 5), "größ…");
        assert_eq!(shortened("", 5), "");
    }
}
