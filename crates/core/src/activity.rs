//! How many queries a pod is running, from its metrics.
//!
//! The drain of an old generation and auto-stop both read the same two gauges. The body comes from a pod and is not
//! trusted: a value that is not a count is an error, because "unknown" must never be taken for "idle".

/// The gauges that together count the queries of a pod.
const GAUGES: [&str; 2] = ["firebolt_running_queries", "firebolt_suspended_queries"];

/// Why the number of queries cannot be read from a body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The body is not text.
    #[error("the metrics are not UTF-8 text")]
    NotText,
    /// A gauge is missing.
    #[error("the metric {0} is missing")]
    Missing(&'static str),
    /// A line of a gauge does not follow the format.
    #[error("the metrics have a malformed line for {0}")]
    Malformed(&'static str),
    /// The value of a gauge is not a count.
    #[error("the metric {gauge} has the value {value:?}, which is not a count")]
    NotACount {
        /// The gauge.
        gauge: &'static str,
        /// The value, truncated to a readable length.
        value: String,
    },
}

/// The number of queries that a pod is running or has suspended, from a body in the Prometheus text format. Series that
/// differ in their labels are added up. A part of a query counts as one.
pub fn queries(body: &[u8]) -> Result<u64, Fault> {
    let text = std::str::from_utf8(body).map_err(|_| Fault::NotText)?;
    GAUGES
        .iter()
        .try_fold(0_u64, |sum, gauge| Ok(sum.saturating_add(total(text, gauge)?)))
}

fn total(text: &str, gauge: &'static str) -> Result<u64, Fault> {
    let mut series = text.lines().filter_map(|line| rest_of_sample(line, gauge)).peekable();
    series.peek().ok_or(Fault::Missing(gauge))?;
    series.try_fold(0_u64, |sum, rest| {
        let value = value(rest).ok_or(Fault::Malformed(gauge))?;
        Ok(sum.saturating_add(count(value, gauge)?))
    })
}

/// The rest of the line after the name of the gauge, if the line is a sample of it.
fn rest_of_sample<'a>(line: &'a str, gauge: &str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(gauge)?;
    // A longer name is that of another metric.
    (rest.is_empty() || rest.starts_with(['{', ' ', '\t'])).then_some(rest)
}

/// The value of a sample, after labels, if any, and before a timestamp, if any.
fn value(rest: &str) -> Option<&str> {
    let rest = match rest.strip_prefix('{') {
        Some(labels) => after_labels(labels)?,
        None => rest,
    };
    let mut words = rest.split_whitespace();
    let value = words.next()?;
    let timestamp_is_whole = words.next().is_none_or(|timestamp| timestamp.parse::<i64>().is_ok());
    (timestamp_is_whole && words.next().is_none()).then_some(value)
}

/// The rest of the line after the closing brace of the labels. Braces and escaped quotes inside values are skipped.
fn after_labels(text: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return text.get(index + 1..),
            _ => {}
        }
    }
    None
}

fn count(value: &str, gauge: &'static str) -> Result<u64, Fault> {
    let number: f64 = value.parse().unwrap_or(f64::NAN);
    if !number.is_finite() || number < 0.0 {
        let value = value.chars().take(40).collect();
        return Err(Fault::NotACount { gauge, value });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "finite and not negative; what exceeds the range is cut to its end"
    )]
    Ok(number.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::idle("firebolt_running_queries 0\nfirebolt_suspended_queries 0\n", 0)]
    #[case::both_count("firebolt_running_queries 2\nfirebolt_suspended_queries 3\n", 5)]
    #[case::any_order("firebolt_suspended_queries 3\nfirebolt_running_queries 2", 5)]
    #[case::comments(
        "# HELP firebolt_running_queries x\n# TYPE firebolt_running_queries gauge\nfirebolt_running_queries 1\nfirebolt_suspended_queries 0\n",
        1
    )]
    #[case::labels(
        "firebolt_running_queries{node=\"0\"} 1\nfirebolt_running_queries{node=\"1\"} 2\nfirebolt_suspended_queries{} 0\n",
        3
    )]
    #[case::braces_in_labels("firebolt_running_queries{q=\"a} 9 \\\" {\"} 1\nfirebolt_suspended_queries 0\n", 1)]
    #[case::timestamp("firebolt_running_queries 1 1700000000000\nfirebolt_suspended_queries\t0\n", 1)]
    #[case::carriage_returns("firebolt_running_queries 1\r\nfirebolt_suspended_queries 0\r\n", 1)]
    #[case::float("firebolt_running_queries 1.0\nfirebolt_suspended_queries 0e0\n", 1)]
    #[case::part_of_a_query("firebolt_running_queries 0.5\nfirebolt_suspended_queries 0\n", 1)]
    #[case::longer_names(
        "firebolt_running_queries_total 9\nfirebolt_running_queries 0\nfirebolt_suspended_queries 0\n",
        0
    )]
    #[case::beyond_all_bounds("firebolt_running_queries 1e300\nfirebolt_suspended_queries 1\n", u64::MAX)]
    fn counts(#[case] body: &str, #[case] expected: u64) {
        assert_eq!(queries(body.as_bytes()), Ok(expected));
    }

    #[rstest]
    #[case::empty("", "firebolt_running_queries is missing")]
    #[case::one_missing("firebolt_running_queries 0\n", "firebolt_suspended_queries is missing")]
    #[case::only_in_a_comment("# firebolt_running_queries 0\n", "firebolt_running_queries is missing")]
    #[case::nan("firebolt_running_queries NaN\n", "\"NaN\"")]
    #[case::infinite("firebolt_running_queries +Inf\n", "\"+Inf\"")]
    #[case::negative("firebolt_running_queries -1\n", "\"-1\"")]
    #[case::word("firebolt_running_queries many\n", "\"many\"")]
    #[case::one_bad_series(
        "firebolt_running_queries{a=\"1\"} 0\nfirebolt_running_queries{a=\"2\"} NaN\n",
        "\"NaN\""
    )]
    #[case::no_value("firebolt_running_queries\n", "malformed line for firebolt_running_queries")]
    #[case::open_labels("firebolt_running_queries{a=\"1\n", "malformed line")]
    #[case::too_many_words("firebolt_running_queries 0 1 2\n", "malformed line")]
    #[case::bad_timestamp("firebolt_running_queries 0 soon\n", "malformed line")]
    fn metrics_without_the_gauges_are_a_fault(#[case] body: &str, #[case] message: &str) {
        let fault = queries(body.as_bytes()).expect_err("a fault").to_string();
        assert!(fault.contains(message), "{fault}");
    }

    #[test]
    fn a_body_that_is_not_text_is_an_error() {
        assert_eq!(queries(b"\xff\xfe"), Err(Fault::NotText));
    }

    proptest! {
        #[test]
        fn only_a_body_with_zero_queries_counts_as_idle(body in any::<Vec<u8>>()) {
            if let Ok(0) = queries(&body) {
                let text = String::from_utf8(body).expect("text");
                prop_assert!(GAUGES.iter().all(|gauge| text.contains(gauge)));
            }
        }

        #[test]
        fn the_sum_over_series_is_exact(running in prop::collection::vec(0_u32..1000, 1..5), suspended in 0_u32..1000) {
            let series = running.iter().enumerate();
            let series = series.map(|(node, count)| format!("firebolt_running_queries{{node=\"{node}\"}} {count}"));
            let suspended_series = format!("firebolt_suspended_queries {suspended}");
            let body = series.chain([suspended_series]).collect::<Vec<_>>().join("\n");
            let expected = u64::from(running.iter().sum::<u32>() + suspended);
            prop_assert_eq!(queries(body.as_bytes()), Ok(expected));
        }
    }
}
