//! `cargo xtask images`: the images that a local Kubernetes needs, since no registry can be reached from there.
//!
//! They are put together from programs at hand: our own, and those in the cache of tools. An archive is written again only
//! if something changed that it is made of.

mod archive;
mod contents;
mod layer;
mod names;
mod tar;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use localkube::Cluster;

use crate::Outcome;
use contents::Programs;
use names::ImageNames;

/// Our own programs that go into images.
const PROGRAMS: [&str; 3] = ["firebolt-operator", "firebolt-wake-agent", "firebolt-stand-in"];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the cluster to import the images into [default: .local/kube in the repository]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: Arguments) -> Outcome {
    let archives = build(root)?;
    let cluster = Cluster::open(&arguments.dir.unwrap_or_else(localkube::default_dir))?;
    import(&cluster, &archives)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the archive of every image that is missing, and returns the paths.
pub(crate) fn build(root: &Path) -> Result<Vec<PathBuf>> {
    step(
        "programs",
        &format!("{} (some minutes the first time)", PROGRAMS.join(", ")),
    );
    let mut cargo = crate::cargo(root);
    cargo.args(["build", "--locked", "--workspace"]);
    cargo.args(PROGRAMS.map(|program| format!("--bin={program}")));
    cargo.args(crate::AS_TESTS);
    if !cargo.status()?.success() {
        return Err(format!("build {}", PROGRAMS.join(", ")).into());
    }
    // Beside this program: all are built into the same folder.
    let program = std::env::current_exe()?;
    let built = program.parent().ok_or("find the folder of this program")?;
    let programs = Programs::find(built)?;
    let names = ImageNames::ask(programs.operator())?;
    let folder = built.join("images");
    fs::create_dir_all(&folder)?;
    let mut paths = Vec::new();
    for archive in contents::archives(&programs, &names)? {
        let started = Instant::now();
        let written = archive.ensure(&folder)?;
        let path = archive.path(&folder);
        let size = fs::metadata(&path)?.len() >> 20;
        let news = if written { "written" } else { "unchanged" };
        step(
            "image",
            &format!(
                "{:10}  {size:3} MiB, {news}, {:.1} s",
                archive.name,
                started.elapsed().as_secs_f64()
            ),
        );
        paths.push(path);
    }
    Ok(paths)
}

/// The name of a second engine image, so that there is something to change an engine to.
pub(crate) fn next_engine() -> Result<String> {
    Ok(ImageNames::ask(&std::env::current_exe()?.with_file_name("firebolt-operator"))?.next_engine)
}

/// Imports archives into a cluster, under the names that their images have.
pub(crate) fn import(cluster: &Cluster, archives: &[PathBuf]) -> Result<()> {
    let started = Instant::now();
    for archive in archives {
        cluster.import_image(archive)?;
    }
    step(
        "import",
        &format!("{} archives, {:.1} s", archives.len(), started.elapsed().as_secs_f64()),
    );
    Ok(())
}

fn step(name: &str, news: &str) {
    println!("{name:<10} {news}");
}

/// The SHA-256 digests of files, in their order. A program does it: in a build for development, our own code would take
/// as long as all the rest.
fn digests<'path>(files: impl IntoIterator<Item = &'path Path>) -> Result<Vec<String>> {
    let mut command = Command::new("sha256sum");
    // Otherwise, it would read its input if there are no files, and quote names of a certain kind.
    command.arg("--zero").arg("/dev/null").args(files);
    let printed = output(&mut command)?;
    let digests = printed.split_terminator('\0').skip(1);
    Ok(digests
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect())
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("run {name}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("run {name}: {}: {}", output.status, complaint.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_in_the_order_of_the_files() {
        let folder = tempfile::tempdir().expect("create a folder");
        let [one, two] = ["o\\ne", "two"].map(|name| folder.path().join(name));
        fs::write(&one, "abc").expect("write a file");
        fs::write(&two, "").expect("write a file");
        assert_eq!(
            digests([one.as_path(), two.as_path()]).expect("digests"),
            [
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ]
        );
        assert!(digests([]).expect("none").is_empty());
        assert!(digests([Path::new("/nowhere")]).is_err());
    }

    #[test]
    fn a_failure_contains_the_error_output() {
        let error = output(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).expect_err("it fails");
        assert_eq!(error.to_string(), "run sh: exit status: 3: no");
    }
}
