//! Kubernetes quantities as exact numbers: `1500m`, `1.5`, `2Gi`, `1e3`.
//!
//! Manifests keep the original text ([`Quantity`]). Where amounts are compared, [`Amount`] parses that text exactly, in
//! billionths, the resolution of Kubernetes itself. The crate `kube_quantity` is not used: it parses through floating
//! point, so that large byte counts and many decimals come out wrong.

use std::str::FromStr;

pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Pattern of the schema. The pattern of Kubernetes also accepts negative amounts, which no field supports, and
/// fractional exponents (`1e1.5`), which no parser understands; this one does not.
const PATTERN: &str = r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$";

/// Longer than any reasonable quantity.
const MAX_LENGTH: u32 = 64;

/// Schema of a quantity in a CRD: a number or a text, as in core types.
#[must_use]
pub fn schema() -> serde_json::Value {
    serde_json::json!({
        "pattern": PATTERN,
        "maxLength": MAX_LENGTH,
        "x-kubernetes-int-or-string": true,
    })
}

/// The value of a quantity, in billionths of its unit.
///
/// Amounts that Kubernetes cannot represent are handled as Kubernetes does: fractions of a billionth are rounded up,
/// amounts above 2^63-1 are reduced to that limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount {
    nanos: u128,
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a quantity: write a number and, if needed, a unit such as m, k, M, G, Ki, Mi or Gi, as in 500m or 16Gi"
)]
pub struct ParseError(String);

impl Amount {
    /// The amount in whole units, such as bytes, rounded down.
    #[must_use]
    pub fn whole(self) -> u64 {
        u64::try_from(self.nanos / NANOS).expect("an amount is cut to what fits 63 bits")
    }
}

const NANOS: u128 = 1_000_000_000;
const LIMIT: u128 = (i64::MAX as u128) * NANOS;

/// Factor that the suffix of a quantity stands for.
enum Multiplier {
    /// Ten to this power.
    Decimal(i32),
    /// Two to this power.
    Binary(u32),
}

impl TryFrom<&Quantity> for Amount {
    type Error = ParseError;

    fn try_from(quantity: &Quantity) -> Result<Self, ParseError> {
        quantity.0.parse()
    }
}

impl FromStr for Amount {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let nanos = parse(text).ok_or_else(|| ParseError(text.to_owned()))?;
        Ok(Self { nanos })
    }
}

fn parse(text: &str) -> Option<u128> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let nanos = match multiplier(suffix)? {
        Multiplier::Decimal(power) => decimal(whole, fraction, power),
        Multiplier::Binary(power) => binary(whole, fraction, power),
    };
    Some(nanos.min(LIMIT))
}

fn multiplier(suffix: &str) -> Option<Multiplier> {
    Some(match suffix {
        "" => Multiplier::Decimal(0),
        "n" => Multiplier::Decimal(-9),
        "u" => Multiplier::Decimal(-6),
        "m" => Multiplier::Decimal(-3),
        "k" => Multiplier::Decimal(3),
        "M" => Multiplier::Decimal(6),
        "G" => Multiplier::Decimal(9),
        "T" => Multiplier::Decimal(12),
        "P" => Multiplier::Decimal(15),
        "E" => Multiplier::Decimal(18),
        "Ki" => Multiplier::Binary(10),
        "Mi" => Multiplier::Binary(20),
        "Gi" => Multiplier::Binary(30),
        "Ti" => Multiplier::Binary(40),
        "Pi" => Multiplier::Binary(50),
        "Ei" => Multiplier::Binary(60),
        _ => Multiplier::Decimal(exponent(suffix.strip_prefix(['e', 'E'])?)?),
    })
}

/// A decimal exponent of at most two digits; anything larger is far outside the range of a quantity.
fn exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// `whole.fraction` times ten to the `power`, in nanos: the digits are kept and the decimal point is moved.
fn decimal(whole: &str, fraction: &str, power: i32) -> u128 {
    let digits = || whole.bytes().chain(fraction.bytes()).map(|b| u128::from(b - b'0'));
    let shift = i64::from(power) + 9 - i64::try_from(fraction.len()).expect("a text is shorter than that");
    if shift >= 0 {
        let value = digits().fold(0, append_digit);
        return (0..shift).fold(value, |value, _| append_digit(value, 0));
    }
    let kept = (whole.len() + fraction.len()).saturating_sub(usize::try_from(-shift).expect("negated above"));
    let value = digits().take(kept).fold(0, append_digit);
    let finer = digits().skip(kept).any(|digit| digit != 0);
    value.saturating_add(u128::from(finer))
}

/// `whole.fraction` times two to the `power`, in nanos.
fn binary(whole: &str, fraction: &str, power: u32) -> u128 {
    let unit = NANOS << power;
    let whole = whole
        .bytes()
        .fold(0, |value, b| append_digit(value, u128::from(b - b'0')));
    // Horner's scheme, starting from the last digit: dividing the floor of a sum of whole numbers by ten loses nothing
    // that the remainders do not show.
    let mut finer = false;
    let below = fraction.bytes().rev().fold(0, |value, b| {
        let sum = u128::from(b - b'0') * unit + value;
        finer |= !sum.is_multiple_of(10);
        sum / 10
    });
    whole
        .saturating_mul(unit)
        .saturating_add(below)
        .saturating_add(u128::from(finer))
}

fn append_digit(value: u128, digit: u128) -> u128 {
    value.saturating_mul(10).saturating_add(digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn amount(text: &str) -> Amount {
        text.parse().unwrap()
    }

    #[rstest]
    #[case("1", "1000m")]
    #[case("1.5", "1500m")]
    #[case(".5", "500m")]
    #[case("5.", "5")]
    #[case("+5", "5")]
    #[case("1k", "1000")]
    #[case("1Ki", "1024")]
    #[case("1.5Gi", "1536Mi")]
    #[case("0.1Ki", "102.4")]
    #[case("1e3", "1k")]
    #[case("1E3", "1k")]
    #[case("12E", "12e18")]
    #[case("25e-1", "2500m")]
    #[case("16777217Gi", "18014399583223808")]
    #[case("0.000000001", "1n")]
    #[case("0.0000000001", "1n")]
    #[case("1.0000000000000000000000000000000001Ki", "1024.000000001")]
    #[case("9223372036854775808", "9223372036854775807")]
    #[case("100Ei", "9223372036854775807")]
    #[case("1e99", "9223372036854775807")]
    #[case("0e99", "0")]
    #[case("9999999999999999999999999999999999999999.0000000001", "9223372036854775807")]
    #[case("9999999999999999999999999999999999999999.9Ei", "9223372036854775807")]
    fn equal_amounts_are_equal_however_they_are_written(#[case] left: &str, #[case] right: &str) {
        assert_eq!(amount(left), amount(right));
    }

    #[rstest]
    #[case("0", 0)]
    #[case("999m", 0)]
    #[case("1.5Ki", 1536)]
    #[case("512Mi", 536_870_912)]
    #[case("1e99", 9_223_372_036_854_775_807)]
    fn an_amount_has_whole_units(#[case] text: &str, #[case] whole: u64) {
        assert_eq!(amount(text).whole(), whole);
    }

    #[rstest]
    #[case("999m", "1")]
    #[case("1023", "1Ki")]
    #[case("1G", "1Gi")]
    fn amounts_are_ordered_by_value(#[case] smaller: &str, #[case] larger: &str) {
        assert!(amount(smaller) < amount(larger));
    }

    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("Gi")]
    #[case("16GB")]
    #[case("1 Gi")]
    #[case("1..5")]
    #[case("1e1.5")]
    #[case("1e")]
    #[case("1e+")]
    #[case("1e100")]
    #[case("1K")]
    #[case("0x10")]
    #[case("-1")]
    #[case("++1")]
    #[case("a lot")]
    fn an_invalid_quantity_is_rejected_with_the_format(#[case] text: &str) {
        let error = text.parse::<Amount>().unwrap_err().to_string();
        assert!(error.contains("is not a quantity") && error.contains("16Gi"), "{error}");
    }
}
