//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use firebolt_api::name::is_dns_label;
use firebolt_process::logs::{self, LogFormat};

const AFTER_HELP: &str = "\
Example:
  For the gateway of instance 'main' in namespace 'sales':
    firebolt-wake-agent --namespace sales --instance main \\
        --engine-suffix -service.sales.svc.cluster.local:3473 \\
        --hold-timeout 2m --hold-memory 134217728

Exit codes:
  0  stopped on request (SIGTERM or SIGINT)
  1  could not start; a second signal while stopping
  2  a flag is missing, unknown or invalid";

/// Holds queries for stopped engines and wakes the engines
///
/// Runs beside Envoy in each gateway pod. Envoy asks it before it routes a query. A query for a stopped engine is held
/// until the engine has been woken and can be reached. If the agent or the API server is down, Envoy routes queries as
/// it would without the agent.
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

    /// Suffix that completes an engine name to the host and port of its Service
    #[arg(
        long,
        value_name = "SUFFIX",
        allow_hyphen_values = true,
        value_parser = parse_suffix,
        help_heading = "Gateway"
    )]
    pub(crate) engine_suffix: String,

    /// Maximum time that a query is held, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_hold_timeout, help_heading = "Limits")]
    pub hold_timeout: Duration,

    /// Maximum memory in bytes that held queries may occupy in Envoy
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "134217728",
        allow_negative_numbers = true,
        value_parser = parse_bytes,
        help_heading = "Limits"
    )]
    pub hold_memory: u64,

    /// Termination grace period of the pod, from 1s to 1h
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_grace_period, help_heading = "Limits")]
    pub grace_period: Duration,

    /// Loopback address to listen on for requests from Envoy
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
    pub(crate) envoy_admin: SocketAddr,

    /// Address of Envoy's listener for readiness probes of engines
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9903",
        value_parser = parse_address,
        help_heading = "Addresses"
    )]
    pub(crate) envoy_probe: SocketAddr,

    /// Format of log lines [default: text on a terminal, json elsewhere]
    #[arg(long, value_name = "FORMAT", help_heading = "Logs")]
    pub log_format: Option<LogFormat>,

    /// Log level: error, warn, info, debug or trace, or per module as in `info,firebolt_wake_agent::probe=debug`
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info",
        value_parser = logs::parse_filter,
        help_heading = "Logs"
    )]
    pub log_level: String,
}

/// The maximum of both durations.
const MAX_DURATION: Duration = Duration::from_hours(1);

fn parse_hold_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text, "2m")
}

fn parse_grace_period(text: &str) -> Result<Duration, String> {
    parse_duration(text, "15s")
}

fn parse_duration(text: &str, example: &str) -> Result<Duration, String> {
    let duration: firebolt_api::duration::Duration = text.parse().map_err(|error| format!("{error}"))?;
    let length = duration.get();
    if length < Duration::from_secs(1) || length > MAX_DURATION {
        return Err(format!("{text:?} is out of range: use 1s to 1h, as in {example}"));
    }
    Ok(length)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number of bytes: use digits only, as in 134217728 for 128 MiB"))
}

/// A DNS label, which the names of namespaces and instances are.
fn parse_label(text: &str) -> Result<String, String> {
    if !is_dns_label(text) {
        return Err(format!(
            "{text:?} is not a name: use at most 63 lower-case letters, digits and hyphens, as in main"
        ));
    }
    Ok(text.to_owned())
}

/// The suffix of a host and a port. It is used in requests unchanged, so it is validated.
fn parse_suffix(text: &str) -> Result<String, String> {
    let host_and_port = text.rsplit_once(':').filter(|(host, port)| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        !host.is_empty() && host.bytes().all(inner) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    host_and_port.map(|_| text.to_owned()).ok_or_else(|| {
        format!("{text:?} is not the suffix of a host and port: write it as in -service.sales.svc.cluster.local:3473")
    })
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an address: write an IP address and a port, as in 127.0.0.1:9901"))
}

/// The agent does not authenticate its clients, so only containers of the same pod may reach it.
fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address = parse_address(text)?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "{text:?} can be reached from outside the pod: use a loopback address, as in 127.0.0.1:9902"
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
    fn a_suffix_may_be_a_separate_argument() {
        let cli = parse(&["--engine-suffix", "-service.a.svc:1"]).unwrap();
        assert_eq!(cli.engine_suffix, "-service.a.svc:1");
    }

    #[rstest]
    #[case("--namespace", "Sales", "\"Sales\" is not a name: use at most 63 lower-case letters")]
    #[case("--namespace", "", "\"\" is not a name")]
    #[case("--instance", "a.b", "\"a.b\" is not a name")]
    #[case("--engine-suffix", "-service.sales.svc", "is not the suffix of a host and port")]
    #[case("--engine-suffix", ":3473", "is not the suffix of a host and port")]
    #[case("--engine-suffix", "/x:1", "is not the suffix of a host and port")]
    #[case("--engine-suffix", "-service.a:0", "is not the suffix of a host and port")]
    #[case("--hold-timeout", "120", "\"120\" is not a duration: write a number and a unit")]
    #[case("--hold-timeout", "2h", "\"2h\" is out of range: use 1s to 1h, as in 2m")]
    #[case("--grace-period", "0s", "\"0s\" is out of range: use 1s to 1h, as in 15s")]
    #[case("--hold-memory", "128Mi", "\"128Mi\" is not a number of bytes: use digits only")]
    #[case("--hold-memory", "-1", "\"-1\" is not a number of bytes")]
    #[case("--listen", "0.0.0.0:9902", "\"0.0.0.0:9902\" can be reached from outside the pod")]
    #[case("--listen", "[::]:9902", "use a loopback address, as in 127.0.0.1:9902")]
    #[case("--listen", "9902", "\"9902\" is not an address: write an IP address and a port")]
    #[case("--envoy-admin", "localhost:9901", "\"localhost:9901\" is not an address")]
    #[case("--envoy-probe", "127.0.0.1", "\"127.0.0.1\" is not an address")]
    #[case("--log-format", "xml", "[possible values: text, json]")]
    #[case("--log-level", "info,x=loud", "\"info,x=loud\" is not a log filter")]
    fn an_invalid_value_is_rejected_with_the_flag_and_the_remedy(
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
