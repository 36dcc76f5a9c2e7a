//! Durations in the format of Go: `30m`, `1h30m`, `500ms`.
//!
//! Kubernetes manifests use this format, so it is parsed exactly as Go's `time.ParseDuration` does.
//! `kube::core::Duration` is not used: it computes in floating point, and panics on values that are out of range.

use std::fmt;
use std::str::FromStr;
use std::time;

use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rule;

/// A duration of zero or more nanoseconds, serialized as a Go-style string.
///
/// The original text is kept and written back unchanged. Two durations are equal if their lengths are.
#[derive(Clone, Debug)]
pub struct Duration {
    text: String,
    length: time::Duration,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not follow the format.
    #[error("{0:?} is not a duration: write a number and a unit of ns, us, ms, s, m or h, as in 30s, 5m or 1h30m")]
    Malformed(String),
    /// The length exceeds 63 bits of nanoseconds, the range of a Go duration.
    #[error("{0:?} is too long a duration: the limit is about 292 years")]
    OutOfRange(String),
}

/// Pattern of the schema: the format of Go without negative lengths, which no field supports.
pub(crate) const PATTERN: &str = r"^\+?((\d+\.?\d*|\.\d+)([nuµμm]?s|m|h))+$";
/// Longer than any reasonable duration, and a limit for the cost of evaluating rules on it.
pub(crate) const MAX_LENGTH: u32 = 64;

impl Duration {
    /// A duration of whole seconds.
    #[must_use]
    pub fn from_secs(seconds: u64) -> Self {
        Self {
            text: format!("{seconds}s"),
            length: time::Duration::from_secs(seconds),
        }
    }

    /// The length.
    #[must_use]
    pub fn get(&self) -> time::Duration {
        self.length
    }
}

impl From<Duration> for time::Duration {
    fn from(duration: Duration) -> Self {
        duration.length
    }
}

impl PartialEq for Duration {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length
    }
}

impl Eq for Duration {}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Duration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let malformed = || ParseError::Malformed(text.to_owned());
        let out_of_range = || ParseError::OutOfRange(text.to_owned());
        let mut total: u64 = 0;
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest.is_empty() {
            return Err(malformed());
        }
        while !rest.is_empty() {
            let (number, after_number) = rest.split_at(rest.find(|c: char| !is_number_part(c)).unwrap_or(rest.len()));
            let (unit, after_unit) =
                after_number.split_at(after_number.find(is_number_part).unwrap_or(after_number.len()));
            let nanoseconds_per_unit = unit_length(unit).ok_or_else(malformed)?;
            let (whole, fraction) = split_number(number).ok_or_else(malformed)?;
            let length = scale(whole, fraction, nanoseconds_per_unit).ok_or_else(out_of_range)?;
            total = total
                .checked_add(length)
                .filter(|&sum| i64::try_from(sum).is_ok())
                .ok_or_else(out_of_range)?;
            rest = after_unit;
        }
        Ok(Self {
            text: text.to_owned(),
            length: time::Duration::from_nanos(total),
        })
    }
}

fn is_number_part(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn unit_length(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Go accepts the micro sign (U+00B5) and the Greek letter mu (U+03BC).
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Splits `1.5` into `1` and `5`. At least one of the two must hold a digit.
fn split_number(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    (has_digits && !fraction.contains('.')).then_some((whole, fraction))
}

/// `whole.fraction` units in nanoseconds, or `None` on overflow.
///
/// Fractions of a nanosecond are truncated. Go does this last step in floating point and may differ by one nanosecond
/// for fractions of many digits, which does not matter here.
fn scale(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Starting from the last digit, each counts a tenth of the one before it.
    let below = fraction
        .bytes()
        .rev()
        .fold(0, |value, digit| (u64::from(digit - b'0') * unit + value) / 10);
    whole.checked_mul(unit)?.checked_add(below)
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        within(rule::duration_range())
    }
}

/// Schema of the maximum time that a query is held.
pub(crate) fn wake_timeout(_: &mut SchemaGenerator) -> Schema {
    within(rule::wake_timeout_range())
}

fn within(range: Rule) -> Schema {
    let mut schema = json_schema!({ "type": "string", "maxLength": MAX_LENGTH, "pattern": PATTERN });
    rule::attach(&mut schema, range);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0s", 0)]
    #[case("1ns", 1)]
    #[case("500ms", 500_000_000)]
    #[case("30m", 1_800_000_000_000)]
    #[case("1h30m", 5_400_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.s", 1_000_000_000)]
    #[case("1s1s", 2_000_000_000)]
    #[case("+1s", 1_000_000_000)]
    #[case("3\u{b5}s", 3_000)]
    #[case("3\u{3bc}s", 3_000)]
    #[case("0.333333333333333333333333333s", 333_333_333)]
    #[case("9223372036854775807ns", 9_223_372_036_854_775_807)]
    fn go_durations_are_read_exactly(#[case] text: &str, #[case] nanoseconds: u64) {
        assert_eq!(
            text.parse::<Duration>().unwrap().get(),
            time::Duration::from_nanos(nanoseconds)
        );
    }

    #[rstest]
    #[case("")]
    #[case("30")]
    #[case("m")]
    #[case(".s")]
    #[case("1..5s")]
    #[case("1 s")]
    #[case("-1s")]
    #[case("++1s")]
    #[case("+")]
    #[case("1d")]
    #[case("1S")]
    #[case("1hr")]
    #[case("1e3s")]
    #[case("infs")]
    #[case("half an hour")]
    fn an_invalid_duration_is_rejected_with_the_format(#[case] text: &str) {
        let error = text.parse::<Duration>().unwrap_err();
        assert_eq!(error, ParseError::Malformed(text.to_owned()));
        assert!(error.to_string().contains("as in 30s"), "{error}");
    }

    #[rstest]
    #[case("9223372036854775808ns")]
    #[case("2562048h")]
    #[case("2562047h2562047h")]
    #[case("99999999999999999999999h")]
    fn a_duration_beyond_the_range_of_go_is_out_of_range(#[case] text: &str) {
        assert_eq!(
            text.parse::<Duration>().unwrap_err(),
            ParseError::OutOfRange(text.to_owned())
        );
    }

    #[test]
    fn the_original_text_is_kept() {
        let duration: Duration = serde_json::from_str("\"90m\"").unwrap();
        assert_eq!(serde_json::to_string(&duration).unwrap(), "\"90m\"");
        assert_eq!(duration, "1h30m".parse().unwrap());
    }
}
