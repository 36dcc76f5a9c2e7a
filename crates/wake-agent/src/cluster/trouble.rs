//! Trouble that lasts is told when it begins, when it changes, and when it is over: not with each attempt.

use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

/// What goes wrong with one thing that is done again and again.
#[derive(Debug)]
pub struct Trouble {
    /// What is done.
    what: &'static str,
    /// What was told last. None while all is well.
    told: Mutex<Option<String>>,
}

impl Trouble {
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            told: Mutex::new(None),
        }
    }

    /// It did not work, for a reason.
    pub fn is(&self, text: &str) {
        if self.change(Some(text)) {
            warn!("{text}");
        }
    }

    /// It did work.
    pub fn is_over(&self) {
        if self.change(None) {
            info!("can {} again", self.what);
        }
    }

    /// Returns whether that is news.
    fn change(&self, text: Option<&str>) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let news = told.as_deref() != text;
        if news {
            *told = text.map(str::to_owned);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_news_are_told() {
        let trouble = Trouble::new("count sheep");
        let attempts = [
            (None, false),
            (Some("one"), true),
            (Some("one"), false),
            (Some("two"), true),
            (None, true),
            (None, false),
            (Some("two"), true),
        ];
        for (text, news) in attempts {
            assert_eq!(trouble.change(text), news, "{text:?}");
        }
    }
}
