//! Tools written in Go: each has a module of its own under `tools/`, so that it is built with the dependencies that its
//! authors chose and a changed pin rebuilds nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use localkube::tools::{Binary, Tool};

use super::Result;
use super::progress::Progress;

pub(super) fn build(tool: Tool, build: &Path, progress: &mut Progress) -> Result<()> {
    let packages = packages(tool.pin_files()[0]);
    let bin = build.join("bin");
    fs::create_dir(&bin)?;
    let total = count_dependencies(tool, &packages, progress)?;
    let mut compiled = 0;
    let mut command = go(tool, "build");
    // With -v each package is named as it is compiled; those in Go's own cache are not compiled.
    command
        .args(["-v", "-trimpath", "-ldflags", &linker_flags(tool)])
        .arg("-o")
        .arg(output(tool, &bin))
        .args(&packages);
    progress.follow(&mut command, |line| {
        compiled += usize::from(line.is_some_and(|line| !line.starts_with("go: ")));
        match compiled {
            0 => format!("looking for {total} packages in Go's cache"),
            _ => format!("{compiled} of {total} packages compiled"),
        }
    })?;
    Ok(())
}

/// How many packages the build consists of. Asking also downloads them.
fn count_dependencies(tool: Tool, packages: &[&str], progress: &mut Progress) -> Result<usize> {
    let mut downloads = 0;
    let list = progress.follow(go(tool, "list").arg("-deps").args(packages), |line| {
        downloads += usize::from(line.is_some_and(|line| line.starts_with("go: downloading")));
        format!("{downloads} modules downloaded")
    })?;
    Ok(list.lines().count())
}

fn go(tool: Tool, verb: &str) -> Command {
    let mut command = Command::new("go");
    command
        .args([verb, "-mod=readonly"])
        .current_dir(crate::root().join("tools").join(tool.name()))
        // Static binaries run in any image; a workspace file further up would replace the pins.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off");
    command
}

/// A single program gets its name here, since that of its package may be another.
fn output(tool: Tool, bin: &Path) -> std::path::PathBuf {
    let mut binaries = Binary::ALL.into_iter().filter(|binary| binary.tool() == tool);
    match (binaries.next(), binaries.next()) {
        (Some(only), None) => bin.join(only.name()),
        _ => bin.join(""),
    }
}

/// Drops symbols, and sets the version where the authors' own build does.
fn linker_flags(tool: Tool) -> String {
    let version = tool.version();
    let strip = "-s -w";
    match tool {
        Tool::Kubernetes => {
            let mut numbers = version.split('.');
            let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
            let set = "-X k8s.io/component-base/version";
            format!("{strip} {set}.gitVersion=v{version} {set}.gitMajor={major} {set}.gitMinor={minor}")
        }
        Tool::Helm => format!("{strip} -X helm.sh/helm/v4/internal/version.version=v{version}"),
        Tool::Etcd
        | Tool::CoreDns
        | Tool::GitopsHealth
        | Tool::Kubectl
        | Tool::Envoy
        | Tool::Debian
        | Tool::CargoDeny
        | Tool::CargoMutants => strip.to_owned(),
    }
}

/// The packages that a `go.mod` names as tools, or else the program beside it.
fn packages(go_mod: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut packages = Vec::new();
    for line in go_mod.lines().map(str::trim) {
        match line {
            "tool (" => in_block = true,
            ")" => in_block = false,
            _ if in_block => packages.push(line),
            _ => packages.extend(line.strip_prefix("tool ")),
        }
    }
    if packages.is_empty() {
        packages.push(".");
    }
    packages
}

/// The oldest Go that builds `tool`.
pub(super) fn minimum(tool: Tool) -> &'static str {
    tool.pin_files()[0]
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .unwrap_or("1.26")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_read_from_lines_and_blocks() {
        let go_mod = "module m\n\ngo 1.26.0\n\ntool (\n\ta/b\n\tc/d\n)\n\ntool e/f\n\nrequire (\n\tg/h v1\n)\n";
        assert_eq!(packages(go_mod), ["a/b", "c/d", "e/f"]);
        assert_eq!(packages("module m\n\nrequire g/h v1\n"), ["."]);
    }

    #[test]
    fn every_go_module_names_as_many_tools_as_there_are_programs() {
        for tool in [
            Tool::Kubernetes,
            Tool::Etcd,
            Tool::CoreDns,
            Tool::Helm,
            Tool::GitopsHealth,
        ] {
            let programs = Binary::ALL.into_iter().filter(|binary| binary.tool() == tool).count();
            assert_eq!(packages(tool.pin_files()[0]).len(), programs, "{}", tool.name());
            assert!(minimum(tool).starts_with("1."));
        }
    }

    #[test]
    fn only_a_single_program_is_named() {
        assert_eq!(output(Tool::Etcd, Path::new("/bin")), Path::new("/bin/etcd"));
        assert!(
            output(Tool::Kubernetes, Path::new("/bin"))
                .as_os_str()
                .to_string_lossy()
                .ends_with('/')
        );
    }
}
