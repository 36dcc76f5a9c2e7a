//! The few statements that this engine understands, as a person would type them.

use std::time::Duration;

use serde_json::{Value, json};

/// No longer text is a statement that is understood.
pub(super) const LIMIT: usize = 1024;

/// A statement that is understood. Keywords are in any case, and a semicolon may be at the end.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    /// `SELECT 42`: a row with that number.
    Number(i64),
    /// `SELECT sleep(1.5)`: a row with a zero, after that many seconds.
    Sleep(Duration),
    /// `INSERT INTO events VALUES ('id')`: no row. The first text in quotes is the identifier of the query.
    Insert(String),
}

impl Statement {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_suffix(';').unwrap_or(text).trim_end();
        let (keyword, rest) = text.split_once(char::is_whitespace)?;
        let rest = rest.trim_start();
        if keyword.eq_ignore_ascii_case("insert") {
            let (_, quoted) = rest.split_once('\'')?;
            let (id, _) = quoted.split_once('\'')?;
            return (!id.is_empty()).then(|| Self::Insert(id.to_owned()));
        }
        if !keyword.eq_ignore_ascii_case("select") {
            return None;
        }
        if let Ok(number) = rest.parse() {
            return Some(Self::Number(number));
        }
        let (function, argument) = rest.split_once('(')?;
        let seconds: f64 = argument.strip_suffix(')')?.trim().parse().ok()?;
        let is_sleep = function.trim_end().eq_ignore_ascii_case("sleep");
        let length = Duration::try_from_secs_f64(seconds).ok().filter(|_| is_sleep)?;
        Some(Self::Sleep(length))
    }

    /// The identifier of the query, if the statement has one.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Self::Insert(id) => Some(id),
            Self::Number(_) | Self::Sleep(_) => None,
        }
    }

    /// How long the statement runs, if it says so.
    pub(super) fn length(&self) -> Option<Duration> {
        match self {
            Self::Sleep(length) => Some(*length),
            Self::Number(_) | Self::Insert(_) => None,
        }
    }

    /// The answer, in the default format of engines.
    pub(super) fn answer(&self, query_id: &str, elapsed: Duration) -> Value {
        let (meta, data) = match self {
            Self::Number(number) => {
                let kind = if i32::try_from(*number).is_ok() { "int" } else { "long" };
                (json!([{ "name": "?column?", "type": kind }]), json!([[number]]))
            }
            Self::Sleep(_) => (json!([{ "name": "sleep", "type": "int" }]), json!([[0]])),
            Self::Insert(_) => (json!([]), json!([])),
        };
        json!({
            "query": { "query_id": query_id },
            "meta": meta,
            "rows": data.as_array().map_or(0, Vec::len),
            "data": data,
            "statistics": { "elapsed": elapsed.as_secs_f64() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("SELECT 42", Statement::Number(42))]
    #[case(" select  -1 ;\n", Statement::Number(-1))]
    #[case("SELECT sleep(2)", Statement::Sleep(Duration::from_secs(2)))]
    #[case("select SLEEP( 0.25 );", Statement::Sleep(Duration::from_millis(250)))]
    #[case("INSERT INTO events VALUES ('a-1')", Statement::Insert("a-1".to_owned()))]
    #[case("insert into events\nvalues ('a', 'b');", Statement::Insert("a".to_owned()))]
    fn a_statement_is_understood(#[case] text: &str, #[case] statement: Statement) {
        assert_eq!(Statement::parse(text), Some(statement));
    }

    #[rstest]
    #[case("")]
    #[case("SELECT")]
    #[case("SELECT42")]
    #[case("SELECT name FROM cities")]
    #[case("SELECT count(42)")]
    #[case("SELECT sleep(-1)")]
    #[case("SELECT sleep(NaN)")]
    #[case("SELECT sleep(1")]
    #[case("INSERT INTO events VALUES ('')")]
    #[case("INSERT INTO events VALUES ('open)")]
    #[case("DELETE FROM events WHERE id = 'a'")]
    fn anything_else_is_not(#[case] text: &str) {
        assert_eq!(Statement::parse(text), None);
    }

    #[test]
    fn a_number_comes_back_in_a_table() {
        let answer = Statement::Number(42).answer("q", Duration::ZERO);
        assert_eq!(answer["data"], json!([[42]]));
        assert_eq!(answer["rows"], json!(1));
        assert_eq!(answer["meta"], json!([{ "name": "?column?", "type": "int" }]));
        assert_eq!(answer["query"]["query_id"], json!("q"));
    }
}
