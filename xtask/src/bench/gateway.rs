//! What the wake hook costs on a running engine. The measuring itself is `e2e/benches/gateway.rs`.

use std::fs;
use std::process::{Command, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::programs::Programs;
use super::table::{Below, Line};
use super::{Extent, Result};

/// At this many queries a second there are targets.
const RATE: u32 = 1_000;
const ADDED: Below = Below(1.0, "ms");
const COST: Below = Below(5.0, "%");
/// A network of its own, with a name server of its own behind the only address in it, and a route that leads nowhere: an API
/// server does not start without one. Processes keep their numbers: localkube finds the control plane by them.
const PREPARE: &str = r#"ip link set lo up && ip link add nowhere type bridge && ip link set nowhere up &&
ip address add 10.246.0.1/24 dev nowhere && ip route add default dev nowhere &&
mount --bind "$0" /etc/resolv.conf && exec "$@""#;
const NAMESPACES: [&str; 5] = ["--pdeathsig", "KILL", "unshare", "--net", "--mount"];

#[derive(Debug, Deserialize)]
struct Measured {
    rates: Vec<Rate>,
    processor_seconds: Pair<f64>,
}

#[derive(Debug, Deserialize)]
struct Rate {
    rate: u32,
    turns: Vec<Pair<Latency>>,
}

/// With the hook, and without.
#[derive(Debug, Deserialize)]
struct Pair<T> {
    on: T,
    off: T,
}

/// In milliseconds.
#[derive(Debug, Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

pub(super) fn measure(programs: &Programs, extent: Extent) -> Result<Vec<Line>> {
    let program = programs.gateway_bench()?;
    super::report("querying through gateways with and without the hook, in turns");
    let folder = TempDir::new()?;
    let resolv_conf = folder.path().join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 127.0.0.1\n")?;
    let mut command = Command::new("setpriv");
    command.args(NAMESPACES);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let (rounds, seconds) = (extent.rounds.to_string(), extent.seconds.to_string());
    command
        .args(["sh", "-c", PREPARE])
        .args([&resolv_conf, &program])
        .arg(programs.source("deploy/crds"))
        .arg(programs.agent())
        .args([rounds, seconds])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("query through gateways: {}", output.status).into());
    }
    Ok(lines(&serde_json::from_slice(&output.stdout)?))
}

fn lines(measured: &Measured) -> Vec<Line> {
    let mut lines: Vec<Line> = measured.rates.iter().map(Rate::line).collect();
    let Pair { on, off } = measured.processor_seconds;
    let cost = (on / off - 1.0) * 100.0;
    lines.push(Line::against(
        format!("wake hook, {RATE} queries/s: more processor time, Envoy and agent"),
        cost,
        format!("{cost:+.1} % ({on:.2} s over {off:.2} s)"),
        COST,
    ));
    lines
}

impl Rate {
    fn line(&self) -> Line {
        let over = |of: &dyn Fn(&Pair<Latency>) -> f64| median(self.turns.iter().map(of).collect());
        let (on, off) = (over(&|turn| turn.on.p99), over(&|turn| turn.off.p99));
        let added = over(&|turn| turn.on.p99 - turn.off.p99);
        let middle = over(&|turn| turn.on.p50 - turn.off.p50);
        let measure = format!("wake hook, {} queries/s: added latency, p99", self.rate);
        let text = format!("{added:+.2} ms (p99 {on:.2} over {off:.2}; p50 {middle:+.2})");
        if self.rate == RATE {
            Line::against(measure, added, text, ADDED)
        } else {
            Line::shown(measure, text)
        }
    }
}

/// The middle one; of an even number, the larger of the two.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table;

    #[test]
    fn turns_are_compared_one_by_one() {
        let turn = |on: f64, off: f64| {
            serde_json::json!({
                "on": { "queries": 5, "p50": on / 2.0, "p99": on }, "off": { "queries": 5, "p50": off / 2.0, "p99": off },
            })
        };
        let turns = [turn(2.0, 1.5), turn(9.0, 8.75), turn(3.0, 2.0)];
        let measured = serde_json::json!({
            "rates": [{ "rate": 1, "turns": turns }, { "rate": 1000, "turns": turns }],
            "processor_seconds": { "on": 1.1, "off": 1.0 },
        });
        let text = table::text(&lines(&serde_json::from_value(measured).unwrap()));
        let expected = "\
MEASURE                                                          MEASURED                                       TARGET  VERDICT
wake hook, 1 queries/s: added latency, p99                       +0.50 ms (p99 3.00 over 2.00; p50 +0.25)       -       -
wake hook, 1000 queries/s: added latency, p99                    +0.50 ms (p99 3.00 over 2.00; p50 +0.25)       < 1 ms  met
wake hook, 1000 queries/s: more processor time, Envoy and agent  +10.0 % (1.10 s over 1.00 s)                   < 5 %   MISSED
";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&text), squeezed(expected));
    }
}
