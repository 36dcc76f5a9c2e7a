//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::logs;

const AFTER_HELP: &str = "\
Example:
  Beside the gateway of the instance 'main' in the namespace 'sales':
    firebolt-wake-agent --namespace sales --instance main \\
        --engine-suffix -service.sales.svc.cluster.local:3473 \\
        --hold-timeout 2m --hold-memory 134217728

Exit codes:
  0  stopped on request (SIGTERM or SIGINT)
  1  could not start; a second signal while stopping
  2  a flag is missing or unknown, or has an unusable value";

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Holds queries for stopped engines and wakes the engines
///
/// Runs beside Envoy in each gateway pod. Envoy asks it before a query is passed on; a query for a stopped engine waits
/// here until the engine that it asked for can be reached. Without the agent, or without the API server, queries pass as if
/// it were not there.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "firebolt-wake-agent",
    version,
    max_term_width = 110,
    after_help = AFTER_HELP,
    args_override_self = true
)]
pub struct Cli {
    /// Namespace of the instance and its engines
    #[arg(long, value_name = "NAME", value_parser = parse_label, help_heading = "Gateway")]
    pub namespace: String,

    /// Instance whose gateway this is
    #[arg(long, value_name = "NAME", value_parser = parse_label, help_heading = "Gateway")]
    pub instance: String,

    /// What follows the name of an engine in the host and port of its Service
    #[arg(
        long,
        value_name = "SUFFIX",
        allow_hyphen_values = true,
        value_parser = parse_suffix,
        help_heading = "Gateway"
    )]
    pub engine_suffix: String,

    /// How long a query waits at most, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_hold_timeout, help_heading = "Limits")]
    pub hold_timeout: Duration,

    /// How many bytes of Envoy's memory the queries that wait may take up
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "134217728",
        allow_negative_numbers = true,
        value_parser = parse_bytes,
        help_heading = "Limits"
    )]
    pub hold_memory: u64,

    /// The pod's termination grace period: how long stopping may take, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_grace_period, help_heading = "Limits")]
    pub grace_period: Duration,

    /// Loopback address that Envoy asks
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9902",
        value_parser = parse_loopback,
        help_heading = "Addresses"
    )]
    pub listen: SocketAddr,

    /// Address of Envoy's admin interface
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9901",
        value_parser = parse_address,
        help_heading = "Addresses"
    )]
    pub envoy_admin: SocketAddr,

    /// Address of Envoy's listener that leads to the readiness of engines
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9903",
        value_parser = parse_address,
        help_heading = "Addresses"
    )]
    pub envoy_probe: SocketAddr,

    /// Form of log lines [default: text on a terminal, json elsewhere]
    #[arg(long, value_name = "FORMAT", help_heading = "Logs")]
    pub log_format: Option<LogFormat>,

    /// What to log: error, warn, info, debug or trace, or per module as in `info,firebolt_wake_agent::probe=debug`
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info",
        value_parser = logs::parse_filter,
        help_heading = "Logs"
    )]
    pub log_level: String,
}

/// The longest wait and the longest stop.
const LONGEST: Duration = Duration::from_hours(1);

fn parse_hold_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text, "2m")
}

fn parse_grace_period(text: &str) -> Result<Duration, String> {
    parse_duration(text, "15s")
}

fn parse_duration(text: &str, example: &str) -> Result<Duration, String> {
    let duration: firebolt_api::duration::Duration = text.parse().map_err(|error| format!("{error}"))?;
    let length = duration.get();
    if length < Duration::from_secs(1) || length > LONGEST {
        return Err(format!("{text:?} is out of range: use 1s to 1h, as in {example}"));
    }
    Ok(length)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number of bytes: write digits alone, as in 134217728 for 128 MiB"))
}

/// A DNS label, as namespaces and instances have for a name.
fn parse_label(text: &str) -> Result<String, String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !text.starts_with('-') && !text.ends_with('-');
    if text.is_empty() || text.len() > 63 || !edges || !text.bytes().all(inner) {
        return Err(format!(
            "{text:?} is not a name: use at most 63 lower-case letters, digits and dashes, as in main"
        ));
    }
    Ok(text.to_owned())
}

/// The end of a host and a port. It goes into requests as it is, so nothing else is let through.
fn parse_suffix(text: &str) -> Result<String, String> {
    let host_and_port = text.rsplit_once(':').filter(|(host, port)| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        !host.is_empty() && host.bytes().all(inner) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host_and_port.map(|_| text.to_owned()).ok_or_else(|| {
        format!("{text:?} is not the end of a host and a port: write it as in -service.sales.svc.cluster.local:3473")
    })
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an address: write an IP address and a port, as in 127.0.0.1:9901"))
}

/// The agent does what whoever reaches it asks for, so only what runs in the same pod may.
fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "{text:?} can be reached from outside of the pod: use a loopback address, as in 127.0.0.1:9902"
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use rstest::rstest;

    use super::*;

    const REQUIRED: [&str; 3] = [
        "--namespace=sales",
        "--instance=main",
        "--engine-suffix=-service.sales.svc.cluster.local:3473",
    ];

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        let program = ["firebolt-wake-agent"];
        Cli::try_parse_from(program.iter().chain(&REQUIRED).chain(arguments))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_but_the_gateway_has_a_default() {
        let cli = parse(&[]).unwrap();
        assert_eq!(cli.hold_timeout, Duration::from_mins(2));
        assert_eq!(cli.hold_memory, 128 << 20);
        assert_eq!(cli.grace_period, Duration::from_secs(15));
        assert_eq!(cli.listen, "127.0.0.1:9902".parse().unwrap());
        assert_eq!(cli.envoy_admin, "127.0.0.1:9901".parse().unwrap());
        assert_eq!(cli.envoy_probe, "127.0.0.1:9903".parse().unwrap());
        for missing in 0..REQUIRED.len() {
            let mut arguments = REQUIRED.to_vec();
            let flag = arguments.remove(missing).split('=').next().unwrap();
            let error = Cli::try_parse_from(["firebolt-wake-agent"].iter().chain(&arguments)).unwrap_err();
            assert!(error.to_string().contains(flag), "{error}");
        }
    }

    #[test]
    fn a_suffix_may_stand_apart_from_its_flag() {
        let cli = parse(&["--engine-suffix", "-service.a.svc:1"]).unwrap();
        assert_eq!(cli.engine_suffix, "-service.a.svc:1");
    }

    #[rstest]
    #[case("--namespace", "Sales", "\"Sales\" is not a name: use at most 63 lower-case letters")]
    #[case("--namespace", "", "\"\" is not a name")]
    #[case("--instance", "a.b", "\"a.b\" is not a name")]
    #[case("--engine-suffix", "-service.sales.svc", "is not the end of a host and a port")]
    #[case("--engine-suffix", ":3473", "is not the end of a host and a port")]
    #[case("--engine-suffix", "/x:1", "is not the end of a host and a port")]
    #[case("--engine-suffix", "-service.a:0", "is not the end of a host and a port")]
    #[case("--hold-timeout", "120", "\"120\" is not a duration: write a number and a unit")]
    #[case("--hold-timeout", "2h", "\"2h\" is out of range: use 1s to 1h, as in 2m")]
    #[case("--grace-period", "0s", "\"0s\" is out of range: use 1s to 1h, as in 15s")]
    #[case("--hold-memory", "128Mi", "\"128Mi\" is not a number of bytes: write digits alone")]
    #[case("--hold-memory", "-1", "\"-1\" is not a number of bytes")]
    #[case(
        "--listen",
        "0.0.0.0:9902",
        "\"0.0.0.0:9902\" can be reached from outside of the pod"
    )]
    #[case("--listen", "[::]:9902", "use a loopback address, as in 127.0.0.1:9902")]
    #[case("--listen", "9902", "\"9902\" is not an address: write an IP address and a port")]
    #[case("--envoy-admin", "localhost:9901", "\"localhost:9901\" is not an address")]
    #[case("--envoy-probe", "127.0.0.1", "\"127.0.0.1\" is not an address")]
    #[case("--log-format", "xml", "[possible values: text, json]")]
    #[case("--log-level", "info,x=loud", "\"info,x=loud\" is not a log filter")]
    fn an_unusable_value_is_refused_with_the_flag_and_the_remedy(
        #[case] flag: &str,
        #[case] value: &str,
        #[case] reason: &str,
    ) {
        let error = parse(&[flag, value]).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2);
        assert!(text.contains(flag), "{text}");
        assert!(text.contains(reason), "{text}");
    }
}
