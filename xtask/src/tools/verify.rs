//! Asks a program which version it is, and compares the answer with its pin.

use std::path::Path;
use std::process::Command;

use localkube::tools::Binary;

use super::Result;

/// Fails unless `program` runs and says that it is the pinned version.
pub(super) fn version(binary: Binary, program: &Path) -> Result<()> {
    let question: &[&str] = match binary {
        Binary::KubeApiserver
        | Binary::KubeControllerManager
        | Binary::KubeScheduler
        | Binary::Kubelet
        | Binary::KubeProxy
        | Binary::Etcd
        | Binary::Envoy
        | Binary::CargoDeny => &["--version"],
        Binary::CargoMutants => &["mutants", "--version"],
        Binary::CoreDns => &["-version"],
        Binary::GitopsHealth => &["version"],
        Binary::Helm => &["version", "--short"],
        Binary::Kubectl => &["version", "--client"],
    };
    let (name, pinned) = (binary.name(), binary.tool().version());
    let output = Command::new(program)
        .args(question)
        .output()
        .map_err(|error| format!("run {name}: {error}"))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && names_version(&answer, &pinned) {
        return Ok(());
    }
    Err(format!(
        "verify {name}: it is pinned to {pinned} and answers {:?}",
        answer.trim()
    )
    .into())
}

/// Whether `version` stands in `text` as a whole, not as a part of a longer one.
fn names_version(text: &str, version: &str) -> bool {
    text.match_indices(version).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let after = text[start + found.len()..].chars().next();
        !before.is_some_and(|it| it.is_ascii_digit() || it == '.')
            && !after.is_some_and(|it| it.is_ascii_digit() || it == '.' || it == '-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_counts_only_as_a_whole() {
        for text in [
            "Kubernetes v1.36.4\n",
            "CoreDNS-1.36.4",
            "v1.36.4+gabcdef",
            "envoy abc/1.36.4/Clean",
            "1.36.4",
        ] {
            assert!(names_version(text, "1.36.4"), "{text}");
        }
        for text in ["", "1.36.40", "11.36.4", "1.36.4.1", "2.1.36.4", "1.36.4-rc.1"] {
            assert!(!names_version(text, "1.36.4"), "{text}");
        }
    }
}
