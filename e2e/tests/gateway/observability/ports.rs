//! What each port of the gateway serves.

use e2e::isolation::isolated;
use e2e::wait::eventually;

use crate::testenv::client::{GATEWAY, ask, raw_to};
use crate::testenv::{DOMAIN, METRICS_PORT, NAMESPACE, TestEnv, address};

async fn get(port: u16, path: &str) -> (Option<u16>, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n");
    let reply = raw_to(([127, 0, 0, 1], port).into(), request).await;
    (reply.status(), reply.text())
}

#[test]
fn health_needs_no_engine_and_fails_while_the_gateway_drains() {
    isolated(async {
        let env = TestEnv::start().await;
        for port in [GATEWAY.port(), METRICS_PORT] {
            assert_eq!(get(port, "/healthz").await.0, Some(200));
        }
        env.envoy.admin("POST", "/healthcheck/fail").await.unwrap();
        for port in [GATEWAY.port(), METRICS_PORT] {
            assert_eq!(get(port, "/healthz").await.0, Some(503));
        }
    });
}

#[test]
fn only_the_exact_path_of_health_is_answered_without_an_engine() {
    isolated(async {
        let _env = TestEnv::start().await;
        for path in [
            "/healthz/",
            "/healthz?engine=",
            "/Healthz",
            "//healthz",
            "/healthz%00",
            "/a/../healthz/x",
        ] {
            assert_eq!(get(GATEWAY.port(), path).await.0, Some(400), "{path}");
        }
    });
}

#[test]
fn the_metrics_port_serves_statistics_and_health_and_nothing_else() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        ask("one").await.answer();
        let (status, text) = get(METRICS_PORT, "/stats/prometheus").await;
        assert_eq!(status, Some(200));
        assert!(text.contains("envoy_http_downstream_rq_total"), "{text}");
        let admin_paths = [
            "/",
            "/stats",
            "/stats/prometheus/",
            "/stats/prometheus/../../config_dump",
            "/stats/prometheus/..%2f..%2fquitquitquit",
            "/stats/prometheus%2f..%2fclusters",
            "/config_dump",
            "/clusters",
            "/server_info",
            "/ready",
            "/quitquitquit",
            "/healthcheck/fail",
            "/?engine=one",
            "//stats/prometheus",
        ];
        for path in admin_paths {
            let (status, text) = get(METRICS_PORT, path).await;
            assert!(matches!(status, Some(400 | 404)), "{path}: {text}");
        }
        let post = "POST /stats/prometheus HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let posted = raw_to(([127, 0, 0, 1], METRICS_PORT).into(), post).await;
        assert_ne!(posted.status(), Some(200), "nothing can be changed: {}", posted.text());
        assert_eq!(get(GATEWAY.port(), "/healthz").await.0, Some(200), "it still runs");
    });
}

#[test]
fn statistics_are_reported_per_engine() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _one = env.engine("one", 11).await;
        ask("one").await.answer();
        let series = |text: &str| {
            let mut lines = text.lines();
            let of_engine = |line: &&str| {
                line.starts_with("envoy_cluster_upstream_rq_total{") && line.contains("firebolt_engine=\"one\"")
            };
            lines.find(of_engine).map(str::to_owned)
        };
        eventually(
            "the engine has statistics, under a name that is the same for all",
            async || {
                let text = get(METRICS_PORT, "/stats/prometheus").await.1;
                series(&text).is_some_and(|line| line.ends_with(" 1"))
            },
        )
        .await;
    });
}

/// The listener for probes of the agent.
const PROBE_PORT: u16 = 9903;

async fn probe(method: &str, authority: &str, path: &str) -> Option<u16> {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    raw_to(([127, 0, 0, 1], PROBE_PORT).into(), request).await.status()
}

#[test]
fn the_probe_port_serves_the_readiness_of_engines_and_nothing_else() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let one = env.engine("one", 11).await;
        env.route("gone", [12]).await;
        let service = |name: &str| format!("{name}-service.{NAMESPACE}.svc.{DOMAIN}:3473");
        assert_eq!(probe("GET", &service("one"), "/health/ready").await, Some(200));
        one.set_ready(false);
        assert_eq!(probe("GET", &service("one"), "/health/ready").await, Some(503));
        for absent in ["gone", "unknown"] {
            assert_eq!(
                probe("GET", &service(absent), "/health/ready").await,
                Some(503),
                "{absent}"
            );
        }
        for (method, authority, path) in [
            ("GET", service("one"), "/"),
            ("GET", service("one"), "/health/ready/"),
            ("GET", service("one"), "/health/ready/../../"),
            ("POST", service("one"), "/health/ready"),
            ("GET", "127.0.0.11:3473".to_owned(), "/health/ready"),
            (
                "GET",
                format!("one-service.{NAMESPACE}.svc.{DOMAIN}:80"),
                "/health/ready",
            ),
            ("GET", format!("one-service.other.svc.{DOMAIN}:3473"), "/health/ready"),
        ] {
            assert_eq!(
                probe(method, &authority, path).await,
                Some(404),
                "{method} {authority}{path}"
            );
        }
        assert_eq!(one.executed().len(), 0, "no query came this way");
        assert!(env.envoy.access_log().is_empty(), "probes are not logged");
    });
}

#[test]
fn ports_for_the_pod_itself_are_not_reachable_from_outside() {
    isolated(async {
        let _env = TestEnv::start().await;
        for port in [PROBE_PORT, 9901] {
            let elsewhere = tokio::net::TcpStream::connect((address(2), port)).await;
            assert!(elsewhere.is_err(), "port {port} listens on other addresses");
        }
    });
}
