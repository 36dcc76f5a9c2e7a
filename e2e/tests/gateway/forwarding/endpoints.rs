//! The gateway follows changes to the pods of an engine.

use std::time::Duration;

use e2e::isolation::isolated;
use e2e::wait::eventually;
use stand_ins::engine::{Engine, QUERY_PORT};

use crate::testenv::client::ask;
use crate::testenv::load::{Executed, Load};
use crate::testenv::{TestEnv, address, pod};

/// The gateway resolves once a second. The rest is for a busy machine.
const SECONDS: Duration = Duration::from_secs(10);

/// The name server sets a TTL of 30 seconds. Pods change faster than that.
#[test]
fn a_new_pod_is_used_and_a_removed_one_is_not_within_seconds() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let (old, new) = (env.engine("one", 11).await, pod("new", 12).await);
        assert_eq!(ask("one").await.answer().pod, "one");
        env.route("one", [11, 12]).await;
        let found = eventually("the new pod is asked", async || ask("one").await.answer().pod == "new").await;
        // The old one is well, but it is not in the Service any more: it may be drained, and must get no new queries.
        env.route("one", [12]).await;
        let left = eventually("the old pod is left", async || {
            !env.envoy.hosts().await.contains_key(&address(11))
        })
        .await;
        let before = old.executed().len();
        for _ in 0..20 {
            assert_eq!(ask("one").await.answer().pod, "new");
        }
        assert_eq!(old.executed().len(), before);
        assert_eq!(new.executed().len(), 20 + 1);
        assert!(
            found < SECONDS && left < SECONDS,
            "found after {found:?}, left after {left:?}"
        );
    });
}

#[test]
fn queries_are_spread_over_all_pods() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let mut pods = Vec::new();
        for last in 11..15 {
            pods.push(pod(&format!("pod-{last}"), last).await);
        }
        env.route("one", 11..15).await;
        ask("one").await.answer();
        eventually("all pods are known", async || env.envoy.hosts().await.len() == 4).await;
        eventually("all pods are asked", async || {
            ask("one").await.answer();
            pods.iter().all(|pod| !pod.executed().is_empty())
        })
        .await;
        let healthy = async || env.envoy.hosts().await.values().filter(|healthy| **healthy).count() == 4;
        // Those of engines: no other cluster of the gateway has this port.
        let failures = format!("_{QUERY_PORT}.health_check.failure");
        let failed_checks = async || env.envoy.statistic(&failures).await;
        let mut shares: Vec<usize> = Vec::new();
        // On a busy machine a check may time out. The pod then gets no queries until the next one.
        eventually("all pods stay healthy while 200 queries are sent", async || {
            let failed_before = failed_checks().await;
            let healthy_before = healthy().await;
            let before: Vec<usize> = pods.iter().map(|pod| pod.executed().len()).collect();
            for _ in 0..200 {
                ask("one").await.answer();
            }
            let executed = pods.iter().map(|pod| pod.executed().len());
            shares = executed.zip(before).map(|(after, before)| after - before).collect();
            healthy_before && healthy().await && failed_checks().await == failed_before
        })
        .await;
        for share in shares {
            assert!(
                (40..=60).contains(&share),
                "one of four pods got {share} of 200 queries"
            );
        }
    });
}

/// Scaling up, scaling down and rescheduling under load: pods are shut down in an orderly way, and no query fails.
#[test]
fn no_query_is_lost_while_pods_change_under_load() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let mut executed = Executed::default();
        let name = |last: u8| format!("pod-{last}");
        let mut pods: Vec<(u8, Engine)> = vec![(11, pod(&name(11), 11).await)];
        env.route("one", [11]).await;
        let load = Load::start("one", 8);
        for desired in [
            &[11, 12, 13][..],
            &[12, 13],
            &[13],
            &[13, 14, 15, 16],
            &[17, 18],
            &[18],
            &[18, 19, 20],
        ] {
            for last in desired {
                if !pods.iter().any(|(there, _)| there == last) {
                    pods.push((*last, pod(&name(*last), *last).await));
                }
            }
            // Pods are terminated in the same moment in which they leave the Service.
            let going: Vec<_> = pods.extract_if(.., |(last, _)| !desired.contains(last)).collect();
            env.route("one", desired.iter().copied()).await;
            for (_, pod) in &going {
                pod.begin_shutdown();
            }
            load.answers(300).await;
            eventually("the gateway knows the pods", async || {
                let known: Vec<_> = env.envoy.hosts().await.into_keys().collect();
                known == desired.iter().copied().map(address).collect::<Vec<_>>()
            })
            .await;
            for (last, pod) in going {
                pod.finished().await;
                executed.add(&name(last), &pod);
                pod.shut_down().await;
            }
        }
        let record = load.finish().await;
        for (last, pod) in &pods {
            executed.add(&name(*last), pod);
        }
        record.assert_each_executed_once(&executed);
    });
}

#[test]
fn an_outage_of_the_name_server_affects_no_engine() {
    isolated(async {
        let mut env = TestEnv::start().await;
        let _engine = env.engine("one", 11).await;
        ask("one").await.answer();
        let TestEnv { envoy, dns } = env;
        let before = envoy.statistic(".update_failure").await;
        drop(dns);
        eventually("looking up the name has failed", async || {
            envoy.statistic(".update_failure").await > before + 1
        })
        .await;
        for _ in 0..20 {
            ask("one").await.answer();
        }
    });
}
