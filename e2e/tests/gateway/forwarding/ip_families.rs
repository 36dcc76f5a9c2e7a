//! Clusters whose pods have IPv6 addresses, alone or beside IPv4 ones.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::process::Command;

use e2e::isolation::isolated;
use e2e::wait::eventually;
use stand_ins::engine::{Engine, Settings};

use crate::testenv::client::{ask, raw_to};
use crate::testenv::{METRICS_PORT, TestEnv, address, pod};

/// An address of a pod, given to this host for as long as its network lives.
fn add_address(last: u16) -> IpAddr {
    let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
    let added = Command::new("ip")
        .args(["address", "add", &format!("{address}/128"), "dev", "lo", "nodad"])
        .status();
    assert!(added.expect("run ip").success());
    IpAddr::V6(address)
}

async fn pod_at(name: &str, address: IpAddr) -> Engine {
    Engine::start(&Settings::of_pod(name, address))
        .await
        .expect("start an engine")
}

#[test]
fn an_engine_with_ipv6_pods_is_reached() {
    isolated(async {
        let mut env = TestEnv::start_with_ipv6().await;
        let addresses = [add_address(1), add_address(2)];
        let pods = [pod_at("a", addresses[0]).await, pod_at("b", addresses[1]).await];
        env.route_to("one", addresses).await;
        eventually("both pods are asked", async || {
            ask("one").await.answer();
            pods.iter().all(|pod| !pod.executed().is_empty())
        })
        .await;
    });
}

/// In a cluster with both families, a Service may still have one of them.
#[test]
fn an_engine_with_ipv4_pods_is_reached_beside_others() {
    isolated(async {
        let mut env = TestEnv::start_with_ipv6().await;
        let (_four, six) = (env.engine("four", 11).await, add_address(1));
        let _six = pod_at("six", six).await;
        env.route_to("six", [six]).await;
        assert_eq!(ask("four").await.answer().pod, "four");
        assert_eq!(ask("six").await.answer().pod, "six");
    });
}

#[test]
fn an_engine_whose_pods_have_addresses_of_both_families_is_reached() {
    isolated(async {
        let mut env = TestEnv::start_with_ipv6().await;
        let six = add_address(1);
        let sockets = [pod("one", 11).await, pod_at("one", six).await];
        env.route_to("one", [address(11), six]).await;
        for _ in 0..10 {
            ask("one").await.answer();
        }
        assert_eq!(sockets.iter().map(|socket| socket.executed().len()).sum::<usize>(), 10);
    });
}

#[test]
fn clients_and_probes_of_both_families_are_served() {
    isolated(async {
        let _env = TestEnv::start_with_ipv6().await;
        for host in [IpAddr::V6(Ipv6Addr::LOCALHOST), address(2)] {
            for port in [8080, METRICS_PORT] {
                let health = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                let reply = raw_to(SocketAddr::new(host, port), health).await;
                assert_eq!(reply.status(), Some(200), "{host} {port}");
            }
        }
    });
}
