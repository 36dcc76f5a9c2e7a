//! Metrics of the process itself, under the names that every Prometheus client uses. Read from `/proc` when they are exported;
//! one that cannot be read is left out.

use std::fmt;
use std::fs;
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// The metrics of this process.
#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    start_time: f64,
}

impl ProcessMetrics {
    /// Metrics of a process that was started at this time.
    pub(crate) fn new(started: SystemTime) -> Self {
        let start_time = started.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            start_time: start_time.unwrap_or(Duration::ZERO).as_secs_f64(),
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        gauge(
            &mut encoder,
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds",
            Some(self.start_time),
        )?;
        let usage = Usage::read();
        if let Some(seconds) = usage.as_ref().map(|usage| usage.cpu_seconds) {
            let metric = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds";
            let encoder = encoder.encode_descriptor("process_cpu_seconds", help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        gauge(
            &mut encoder,
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            usage.as_ref().map(|usage| usage.resident_bytes),
        )?;
        gauge(
            &mut encoder,
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes",
            usage.as_ref().map(|usage| usage.virtual_bytes),
        )?;
        gauge(
            &mut encoder,
            "process_open_fds",
            "Number of open file descriptors",
            open_files(),
        )?;
        gauge(
            &mut encoder,
            "process_max_fds",
            "Maximum number of open file descriptors",
            getrlimit(Resource::Nofile).current.map(as_f64),
        )
    }
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: Option<f64>) -> Result<(), fmt::Error> {
    let Some(value) = value else { return Ok(()) };
    let metric = ConstGauge::new(value);
    let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    metric.encode(encoder)
}

/// What `/proc/self/stat` shows.
#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Usage {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, clock_ticks_per_second(), page_size() as u64)
    }

    /// The fields are numbered in the manual page `proc_pid_stat(5)`. The second one, the name of the program, may contain spaces.
    fn parse(stat: &str, ticks_per_second: u64, page_size: u64) -> Option<Self> {
        let (_, after_name) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let (user, system) = (field(14)?, field(15)?);
        Some(Self {
            cpu_seconds: as_f64(user + system) / as_f64(ticks_per_second),
            virtual_bytes: as_f64(field(23)?),
            resident_bytes: as_f64(field(24)? * page_size),
        })
    }
}

fn open_files() -> Option<f64> {
    // Without the descriptor that lists the folder.
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(as_f64(listed.saturating_sub(1) as u64))
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn usage_is_read_whatever_the_program_is_called() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 1000 4096000 30 1844";
        let expected = Usage {
            cpu_seconds: 2.0,
            virtual_bytes: 4_096_000.0,
            resident_bytes: 122_880.0,
        };
        assert_eq!(Usage::parse(stat, 100, 4096), Some(expected));
        assert_eq!(Usage::parse("42 (short) S 1", 100, 4096), None);
    }

    #[test]
    fn this_process_has_every_metric() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(SystemTime::UNIX_EPOCH)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for name in [
            "process_start_time_seconds 0.0",
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_virtual_memory_bytes ",
            "process_open_fds ",
            "process_max_fds ",
        ] {
            let value = text.lines().find(|line| line.starts_with(name));
            assert!(value.is_some(), "{name} in {text}");
        }
        let resident = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(resident.unwrap().parse::<f64>().unwrap() > 1e6, "{text}");
    }
}
