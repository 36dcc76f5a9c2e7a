//! A started PostgreSQL, from outside its namespaces.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Error, LIMIT, Result};

/// Closes connections and saves everything.
pub(super) const IN_ORDER: &str = "INT";
/// Saves nothing, which the next start has to make good.
const AT_ONCE: &str = "QUIT";
const POLL: Duration = Duration::from_millis(20);

/// The process outside the namespaces, which ends after the last one inside. Its input takes signals for the server, and
/// when that is closed, the server ends.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Runs the command with its output in the file `log`.
    pub(super) fn launch(mut command: Command, log: &Path) -> Result<Self> {
        let output = File::create(log).map_err(Error::io("create", log))?;
        let errors = output.try_clone().map_err(Error::io("open", log))?;
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(Error::io("run", Path::new("unshare")))?;
        let log = log.to_owned();
        Ok(Self { child, log })
    }

    /// Waits until something is true of the server, or it ends.
    pub(super) fn wait_until(&mut self, what: &'static str, is_true: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !is_true() {
            if let Some(status) = self.status()? {
                let log = self.log_text();
                return Err(Error::Ended { status, log });
            }
            self.pause(what, deadline)?;
        }
        Ok(())
    }

    /// Asks the server to end, in the way that it understands `signal`.
    pub(super) fn ask_to_end(&mut self, signal: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().expect("its input is piped");
        match writeln!(input, "{signal}") {
            // It has ended by itself.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(Error::io("write to", Path::new("the input of PostgreSQL"))),
        }
    }

    pub(super) fn wait_for_end(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while self.status()?.is_none() {
            self.pause("end", deadline)?;
        }
        Ok(())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .map_err(Error::io("wait for", Path::new("unshare")))
    }

    fn pause(&self, what: &'static str, deadline: Instant) -> Result<()> {
        if Instant::now() > deadline {
            let log = self.log_text();
            return Err(Error::Slow { what, log });
        }
        thread::sleep(POLL);
        Ok(())
    }

    fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ask_to_end(AT_ONCE).and_then(|()| self.wait_for_end()).is_err() {
            // Best effort: a test that fails here fails for another reason.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
