use prometheus_client::encoding::text::encode;

use super::*;

const WEBHOOK: &str = "/validate-a";

fn rendered(use_metrics: impl FnOnce(&WebhookMetrics)) -> Vec<String> {
    let mut registry = Registry::default();
    let metrics = WebhookMetrics::register(&mut registry);
    use_metrics(&metrics);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_has(lines: &[String], line: &str) {
    assert!(lines.iter().any(|one| one == line), "no {line} in {lines:#?}");
}

#[test]
fn requests_are_exported_under_the_names_of_controller_runtime() {
    let lines = rendered(|metrics| {
        let _in_flight = metrics.start_request(WEBHOOK);
        std::mem::forget(metrics.start_request(WEBHOOK));
        metrics.finish_request(WEBHOOK, 200, Duration::from_millis(7));
        metrics.finish_request(WEBHOOK, 415, Duration::from_secs(20));
    });
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/validate-a",code="200"} 1"#,
        r#"controller_runtime_webhook_requests_total{webhook="/validate-a",code="415"} 1"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate-a"} 1"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate-a"} 2"#,
        r#"controller_runtime_webhook_latency_seconds_bucket{le="0.005",webhook="/validate-a"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_bucket{le="0.01",webhook="/validate-a"} 1"#,
        r#"controller_runtime_webhook_latency_seconds_bucket{le="10.0",webhook="/validate-a"} 1"#,
        r#"controller_runtime_webhook_latency_seconds_bucket{le="+Inf",webhook="/validate-a"} 2"#,
    ] {
        assert_has(&lines, line);
    }
}

#[test]
fn a_webhook_without_requests_is_exported_too() {
    let lines = rendered(|metrics| metrics.initialize(WEBHOOK));
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/validate-a",code="200"} 0"#,
        r#"controller_runtime_webhook_requests_total{webhook="/validate-a",code="500"} 0"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate-a"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate-a"} 0"#,
    ] {
        assert_has(&lines, line);
    }
}

#[test]
fn responses_and_dry_runs_are_counted_by_outcome() {
    let lines = rendered(|metrics| {
        metrics.responded("FireboltEngine", Some(Operation::Update), AdmissionResult::Denied);
        metrics.responded("FireboltEngine", None, AdmissionResult::Error);
        metrics.dry_run(DryRunResult::Accepted);
        metrics.dry_run(DryRunResult::Rejected);
    });
    for line in [
        r#"firebolt_operator_webhook_responses_total{kind="FireboltEngine",operation="update",outcome="denied"} 1"#,
        r#"firebolt_operator_webhook_responses_total{kind="FireboltEngine",operation="",outcome="error"} 1"#,
        r#"firebolt_operator_webhook_dry_runs_total{outcome="accepted"} 1"#,
        r#"firebolt_operator_webhook_dry_runs_total{outcome="rejected"} 1"#,
    ] {
        assert_has(&lines, line);
    }
}

#[test]
fn only_the_first_of_several_unknown_dry_runs_is_reported() {
    rendered(|metrics| {
        let results = [
            DryRunResult::Unknown,
            DryRunResult::Unknown,
            DryRunResult::Accepted,
            DryRunResult::Unknown,
        ];
        let reported = results.map(|result| metrics.dry_run(result));
        assert_eq!(reported, [true, false, false, true]);
    });
}

#[test]
fn the_expiry_is_exported_only_while_there_is_a_certificate() {
    const EXPIRY: &str = "firebolt_operator_webhook_certificate_expiry_timestamp_seconds";
    let expiry = Timestamp::from_second(1_800_000_000).unwrap();
    let lines = rendered(|metrics| metrics.set_certificate_expiry(Some(expiry)));
    assert_has(&lines, &format!("{EXPIRY}{{}} 1800000000"));
    let lines = rendered(|metrics| {
        metrics.set_certificate_expiry(Some(expiry));
        metrics.set_certificate_expiry(None);
    });
    assert!(!lines.iter().any(|line| line.starts_with(EXPIRY)), "{lines:#?}");
}
