//! `cargo xtask tools` run by two users at once, or twice by one: with a `python3` of our own that "downloads" a
//! kubectl instantly, or blocks until the test continues it.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use localkube::tools::{ASSETS_VARIABLE, TOOLS_DIR_VARIABLE, Tool};
use testkit::wait::{SOON, eventually};

/// Each download adds a line to `downloads` and then waits for `go-on`, for half a minute at most.
const PYTHON: &str = r#"#!/bin/sh
case "$*" in *--version*) exit 0 ;; esac
while [ "$1" != --target ]; do shift; done
echo "$2" >> PLACE/downloads
mkdir -p "$2/bin"
tries=0
while [ ! -e PLACE/go-on ] && [ $tries -lt 600 ]; do sleep 0.05; tries=$((tries + 1)); done
printf '#!/bin/sh\necho Client Version: vVERSION\n' > "$2/bin/kubectl"
"#;

/// A folder with the cache of tools, the program above, and what it writes.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("create a folder"),
        };
        let script = PYTHON
            .replace("PLACE", &place.folder.path().display().to_string())
            .replace("VERSION", &Tool::Kubectl.version());
        let python = place.path("bin/python3");
        fs::create_dir(place.path("bin")).expect("create a folder");
        fs::write(&python, script).expect("write the script");
        fs::set_permissions(&python, Permissions::from_mode(0o755)).expect("make it a program");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn go_on(&self) {
        fs::write(self.path("go-on"), "").expect("write a file");
    }

    /// Where each download so far went.
    fn downloads(&self) -> Vec<PathBuf> {
        let list = fs::read_to_string(self.path("downloads")).unwrap_or_default();
        list.lines().map(PathBuf::from).collect()
    }

    fn start(&self) -> Child {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.path("bin").display());
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["tools", "--only", Tool::Kubectl.name()])
            .env(TOOLS_DIR_VARIABLE, self.path("cache"))
            .env("PATH", path)
            .env_remove(ASSETS_VARIABLE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start xtask")
    }

    /// What is in the folder of the tool, unfinished or not.
    fn builds(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache").join(Tool::Kubectl.name())).expect("list the builds");
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".lock").collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Lets go of a download that a test gave up on.
        self.go_on();
    }
}

/// Reads on until the run says that another one is at work.
fn wait_until_it_waits(run: &mut Child) {
    let errors = run.stderr.as_mut().expect("its error output is piped");
    let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("waiting for another run")));
}

/// Waits until the run ends, and returns what it printed.
fn printed(run: Child) -> String {
    let output = run.wait_with_output().expect("wait for xtask");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn remains(path: &Path) -> bool {
    path.parent().is_some_and(Path::exists)
}

#[test]
fn two_runs_at_a_time_make_a_tool_once() {
    let place = Place::new();
    let first = place.start();
    eventually("the first run downloads", SOON, || place.downloads().len() == 1);
    let mut second = place.start();
    wait_until_it_waits(&mut second);
    place.go_on();
    assert!(printed(first).contains("fetched in "));
    assert!(printed(second).contains("cached"));
    assert_eq!(place.downloads().len(), 1);
    assert_eq!(place.builds(), [Tool::Kubectl.key()]);
}

#[test]
fn a_run_waits_for_the_children_of_one_that_was_killed() {
    let place = Place::new();
    let mut killed = place.start();
    eventually("the first run downloads", SOON, || place.downloads().len() == 1);
    killed.kill().expect("kill it");
    killed.wait().expect("reap it");
    let mut next = place.start();
    wait_until_it_waits(&mut next);
    let unfinished = place.downloads();
    assert_eq!(unfinished.len(), 1, "the next run has not begun");
    assert!(
        remains(&unfinished[0]),
        "nor cleared the folder under the hands of the download"
    );

    place.go_on();
    assert!(printed(next).contains("fetched in "));
    assert_eq!(place.downloads().len(), 2);
    assert!(!remains(&unfinished[0]), "the remains are gone");
    assert_eq!(place.builds(), [Tool::Kubectl.key()]);
}
