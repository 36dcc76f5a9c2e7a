//! A real PostgreSQL for tests, started from what a pod says about its container.
//!
//! The programs come from Debian packages that are unpacked side by side and never installed. Namespaces give them what
//! the container would: the environment, the user, the paths, a root that is read-only. No rights are needed for that
//! beyond those to create user namespaces, and no process is left when the test ends, whichever way it does.
//!
//! # Caveats
//!
//! Linux only. The version is that of the Debian release and not the image's. Mounts belong to the user of the
//! container from the start, where Kubernetes would only give them to its group. Calls wait on the thread.

mod container;
mod running;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::loopback;
pub use container::Container;
pub(crate) use container::IMAGE_USER;
use running::{IN_ORDER, Running};

/// Where the password lies for as long as the first start takes.
const PASSWORD_FILE: &str = "/password";
/// How long PostgreSQL may take to start or to stop. It takes a second; a machine can be very busy.
const LIMIT: Duration = Duration::from_mins(2);

/// Why PostgreSQL does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs are not where they should be.
    #[error("find PostgreSQL below {0}: run `make tools`")]
    NoPrograms(PathBuf),
    /// The image refuses to start without this variable.
    #[error("start PostgreSQL: the environment variable {0} is missing or empty")]
    NoVariable(&'static str),
    /// A file could not be written, or a program not be run.
    #[error("{verb} {path}")]
    Io {
        /// What failed.
        verb: &'static str,
        /// What it failed on.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server, or what comes before it, ended.
    #[error("start PostgreSQL: it exited with {status}:\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: String,
    },
    /// The server took too long.
    #[error("wait for PostgreSQL to {what}: it takes longer than {} s, and says:\n{log}", LIMIT.as_secs())]
    Slow {
        /// What it was to do.
        what: &'static str,
        /// Its log so far.
        log: String,
    },
}

impl Error {
    fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}

type Result<T> = std::result::Result<T, Error>;

/// A PostgreSQL that ends with this value.
#[derive(Debug)]
pub struct Postgres {
    root: PathBuf,
    /// Laid out like a system.
    system: PathBuf,
    /// The folder of the server's programs, as seen from the container.
    programs: PathBuf,
    container: Container,
    address: SocketAddr,
    running: Option<Running>,
}

impl Postgres {
    /// Starts a server on a free loopback address and waits until it accepts connections.
    ///
    /// `system` is the folder that the Debian packages were unpacked into. `root` is an empty folder, or the one of a
    /// server that has ended: the container's paths are below it, and with them the data.
    pub fn start(system: &Path, root: &Path, container: Container) -> Result<Self> {
        let programs = programs_in(system).ok_or_else(|| Error::NoPrograms(system.to_owned()))?;
        let password = container.variable("POSTGRES_PASSWORD");
        let password = password.ok_or(Error::NoVariable("POSTGRES_PASSWORD"))?;
        lay_out(root, &container, password)?;
        let address = loopback::free_address().map_err(Error::io("find a free address on", Path::new("loopback")))?;
        let mut postgres = Self {
            root: root.to_owned(),
            system: system.to_owned(),
            programs,
            container,
            address,
            running: None,
        };
        let started = postgres.start_again();
        let password_file = inside(root, Path::new(PASSWORD_FILE));
        fs::remove_file(&password_file).map_err(Error::io("remove", &password_file))?;
        started.map(|()| postgres)
    }

    /// Where it listens, running or not.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the server again, on its data and its address, and waits until it accepts connections. One that runs is
    /// stopped first.
    pub fn start_again(&mut self) -> Result<()> {
        self.stop()?;
        // Left by a server that was killed, it would be taken for the new one's.
        let status_file = self.status_file();
        match fs::remove_file(&status_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &status_file)(error))?,
            _ => {}
        }
        let running = Running::launch(self.command(), &self.root.join("postgres.log"))?;
        let ready = || is_ready(&status_file);
        self.running.insert(running).wait_until("accept connections", ready)
    }

    /// Stops the server in order: open connections are closed, data is kept.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else {
            return Ok(());
        };
        running.ask_to_end(IN_ORDER)?;
        running.wait_for_end()
    }

    /// The file in which PostgreSQL says how far it is.
    fn status_file(&self) -> PathBuf {
        let data = inside(&self.root, Path::new(self.container.data_folder()));
        data.join("postmaster.pid")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "--pid", "--ipc", "--fork"])
            .args(["sh", "-c", include_str!("postgres/enclose.sh"), "enclose"])
            .args([&self.root, &self.system])
            .args([self.container.user, self.container.group].map(|id| id.to_string()))
            .args(&self.container.mounts)
            .arg("--")
            .arg(&self.programs)
            .args([self.address.ip().to_string(), self.address.port().to_string()])
            .args([PASSWORD_FILE, &self.container.create_database()]);
        command
            .env_clear()
            .env(
                "PATH",
                std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin")),
            )
            .env("LANG", "C.UTF-8")
            .env("PGDATA", self.container.data_folder())
            .envs(&self.container.environment);
        command
    }
}

/// Where the programs of the server are below a folder laid out like a system: in one that is named after the version.
fn programs_in(system: &Path) -> Option<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql");
    let version = fs::read_dir(inside(system, versions)).ok()?.flatten().next()?;
    let programs = versions.join(version.file_name()).join("bin");
    inside(system, &programs).join("postgres").exists().then_some(programs)
}

/// Makes `root` what the container sees, but for what is mounted.
fn lay_out(root: &Path, container: &Container, password: &str) -> Result<()> {
    let create = |folder: &Path| fs::create_dir_all(folder).map_err(Error::io("create", folder));
    let write = |name: &str, text: &str| {
        let path = root.join(name);
        fs::write(&path, text).map_err(Error::io("write", &path))
    };
    for folder in ["usr", "bin", "etc", "dev/shm"] {
        create(&root.join(folder))?;
    }
    for mount in &container.mounts {
        create(&inside(root, mount))?;
    }
    for file in ["dev/null", "dev/urandom"] {
        write(file, "")?;
    }
    write(
        "etc/passwd",
        &format!("postgres:x:{IMAGE_USER}:{IMAGE_USER}::/var/lib/postgresql:/bin/sh\n"),
    )?;
    write("entrypoint.sh", include_str!("postgres/entrypoint.sh"))?;
    write(PASSWORD_FILE.trim_start_matches('/'), &format!("{password}\n"))?;
    // Packages count on a shell being there, so none of them brings one.
    let shell = root.join("bin/sh");
    fs::copy("/bin/sh", &shell).map_err(Error::io("copy /bin/sh to", &shell))?;
    for (link, target) in [("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        let link = root.join(link);
        if !link.is_symlink() {
            symlink(target, &link).map_err(Error::io("create", &link))?;
        }
    }
    Ok(())
}

/// Where a path of the container is for everybody else.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether the server accepts connections, which it notes in the eighth line.
fn is_ready(status_file: &Path) -> bool {
    let status = fs::read_to_string(status_file).unwrap_or_default();
    status.lines().nth(7).is_some_and(|line| line.trim() == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_password_or_program_is_named() {
        let folder = tempfile::tempdir().expect("create a folder");
        let start = |system: &Path, password: &str| {
            let container = Container::new("a", password, "b");
            Postgres::start(system, &folder.path().join("root"), container).expect_err("no start")
        };
        let system = folder.path().join("system");
        assert!(start(&system, "secret").to_string().contains("run `make tools`"));
        let programs = system.join("usr/lib/postgresql/15/bin");
        fs::create_dir_all(&programs).expect("create a folder");
        fs::write(programs.join("postgres"), "").expect("write a file");
        assert!(start(&system, "").to_string().contains("POSTGRES_PASSWORD"));
    }
}
