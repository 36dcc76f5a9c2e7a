//! Tools written in Rust, built from the lock file that they are published with.

use std::path::Path;

use localkube::tools::Tool;

use super::Result;
use super::progress::Progress;

pub(super) fn build(tool: Tool, work: &Path, build: &Path, progress: &mut Progress) -> Result<()> {
    let mut compiled = 0;
    let mut command = crate::cargo(work);
    command
        .args(["install", "--locked", "--no-default-features", "--no-track"])
        .args([tool.name(), "--version", &tool.version()])
        .arg("--root")
        .arg(build)
        .arg("--target-dir")
        .arg(work.join("target"));
    progress.follow(&mut command, |line| {
        compiled += usize::from(line.is_some_and(|line| line.trim_start().starts_with("Compiling ")));
        format!("{compiled} crates compiled")
    })?;
    Ok(())
}
