//! The table that is printed: what was measured, what it should be, and whether it is.

use std::fmt::Write as _;

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    measure: String,
    measured: String,
    target: String,
    result: TargetResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetResult {
    Met,
    Missed,
    /// There is no target; the number is there to be compared.
    Shown,
}

impl TargetResult {
    fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Shown => "-",
        }
    }
}

/// What a number should stay below, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Below(pub(super) f64, pub(super) &'static str);

impl Line {
    /// A number with a target. `measured` is its text, with details.
    pub(super) fn against(measure: impl Into<String>, number: f64, measured: impl Into<String>, target: Below) -> Self {
        let Below(limit, unit) = target;
        Self {
            measure: measure.into(),
            measured: measured.into(),
            target: format!("< {limit} {unit}"),
            result: if number < limit {
                TargetResult::Met
            } else {
                TargetResult::Missed
            },
        }
    }

    /// Something without a target.
    pub(super) fn shown(measure: impl Into<String>, measured: impl Into<String>) -> Self {
        Self {
            measure: measure.into(),
            measured: measured.into(),
            target: "-".to_owned(),
            result: TargetResult::Shown,
        }
    }

    fn cells(&self) -> [&str; 4] {
        [&self.measure, &self.measured, &self.target, self.result.text()]
    }
}

/// The whole table, with columns as wide as they have to be.
pub(super) fn text(lines: &[Line]) -> String {
    let head = ["MEASURE", "MEASURED", "TARGET", "VERDICT"];
    let rows = || std::iter::once(head).chain(lines.iter().map(Line::cells));
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [measure, measured, target, verdict] in rows() {
        let [first, second, third] = widths;
        let _infallible = writeln!(
            text,
            "{measure:<first$}  {measured:<second$}  {target:<third$}  {verdict}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_shows_the_measure_its_target_and_whether_it_is_met() {
        let lines = [
            Line::against("wake", 12.34, "p50 3.1 ms, p99 12.3 ms", Below(100.0, "ms")),
            Line::against("restart", 2.5, "2.5 s", Below(2.0, "s")),
            Line::shown("all at once", "1.0 s"),
        ];
        let expected = "\
MEASURE      MEASURED                 TARGET    VERDICT
wake         p50 3.1 ms, p99 12.3 ms  < 100 ms  met
restart      2.5 s                    < 2 s     MISSED
all at once  1.0 s                    -         -
";
        assert_eq!(text(&lines), expected);
    }

    #[test]
    fn a_number_that_is_just_the_limit_is_not_below_it() {
        let result = |number| Line::against("", number, "", Below(1.0, "ms")).result;
        assert_eq!((result(0.999), result(1.0)), (TargetResult::Met, TargetResult::Missed));
        assert_eq!(result(f64::NAN), TargetResult::Missed);
    }
}
