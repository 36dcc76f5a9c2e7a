//! The real CoreDNS, serving the names of headless Services as a cluster does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use localkube::tools::{Binary, Tools};
use tempfile::TempDir;
use testkit::program::Program;
use tokio::net::lookup_host;

use crate::wait::eventually;

/// The lifetime of an answer that kubeadm configures. What follows a change sooner must not rely on it.
const TIME_TO_LIVE_SECONDS: u32 = 30;

/// A name server that listens where `/etc/resolv.conf` of an isolated test points.
#[derive(Debug)]
pub struct Dns {
    zone: PathBuf,
    domain: String,
    records: BTreeMap<String, BTreeSet<IpAddr>>,
    serial: u32,
    // Before the folder, so that it ends before its files go.
    program: Program,
    _folder: TempDir,
}

impl Dns {
    /// Starts a server for `domain`, without any name in it.
    pub async fn start(domain: &str) -> Self {
        let folder = TempDir::new().expect("create a folder");
        let (zone, corefile) = (folder.path().join("zone"), folder.path().join("Corefile"));
        let text = format!(
            ".:53 {{\n  bind 127.0.0.1\n  errors\n  file {} {domain} {{\n    reload 20ms\n  }}\n}}\n",
            zone.display()
        );
        fs::write(&corefile, text).expect("write the Corefile");
        fs::write(&zone, zone_text(domain, 1, &BTreeMap::new())).expect("write the zone");
        let binary = Tools::from_env().and_then(|tools| tools.binary(Binary::CoreDns));
        let mut command = Command::new(binary.unwrap_or_else(|error| panic!("{error}")));
        command.arg("-conf").arg(&corefile);
        let mut dns = Self {
            zone,
            domain: domain.to_owned(),
            records: BTreeMap::new(),
            serial: 1,
            program: Program::start("coredns", &mut command),
            _folder: folder,
        };
        dns.set("up", ["127.0.0.1".parse().expect("an address")]).await;
        dns
    }

    /// Sets the addresses of a name below the domain, and waits until they are served.
    pub async fn set(&mut self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses: BTreeSet<IpAddr> = addresses.into_iter().collect();
        self.records.insert(name.to_owned(), addresses.clone());
        self.serial += 1;
        let draft = self.zone.with_extension("draft");
        fs::write(&draft, zone_text(&self.domain, self.serial, &self.records)).expect("write the zone");
        fs::rename(&draft, &self.zone).expect("replace the zone");
        let full_name = format!("{name}.{}.", self.domain);
        eventually("the name server serves the new addresses", async || {
            self.program.assert_alive();
            served(&full_name).await == addresses
        })
        .await;
    }
}

/// The addresses from the resolver of the system. A name without addresses is an error.
async fn served(name: &str) -> BTreeSet<IpAddr> {
    match lookup_host((name, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(_) => BTreeSet::new(),
    }
}

fn zone_text(domain: &str, serial: u32, records: &BTreeMap<String, BTreeSet<IpAddr>>) -> String {
    let ttl = TIME_TO_LIVE_SECONDS;
    let mut lines = vec![
        format!("{domain}. {ttl} IN SOA ns.{domain}. hostmaster.{domain}. {serial} 7200 1800 86400 {ttl}"),
        format!("{domain}. {ttl} IN NS ns.{domain}."),
    ];
    for (name, addresses) in records {
        lines.extend(addresses.iter().map(|address| {
            let kind = if address.is_ipv4() { "A" } else { "AAAA" };
            format!("{name}.{domain}. {ttl} IN {kind} {address}")
        }));
    }
    lines.join("\n") + "\n"
}
