//! Progress of long work: one line that renews itself on a terminal, a line every few seconds elsewhere.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::Result;

/// How many of the last lines an error shows.
const TAIL: usize = 30;

/// What is being done for one tool, shown to the user.
pub(super) struct Progress {
    tool: &'static str,
    started: Instant,
    shown: Option<Instant>,
    terminal: bool,
    lock: Option<File>,
}

impl Progress {
    pub(super) fn new(tool: &'static str) -> Self {
        Self {
            tool,
            started: Instant::now(),
            shown: None,
            terminal: io::stderr().is_terminal(),
            lock: None,
        }
    }

    /// Keeps the lock on the tool, from now on and for as long as any child runs that was given [`Progress::handle`].
    pub(super) fn keep(&mut self, lock: File) {
        self.lock = Some(lock);
    }

    /// A child gets this in place of a stream that it does not use: another handle of the lock, which is not released
    /// before the last handle is closed. So if this process is killed, a child that outlives it keeps the next run from
    /// clearing its directory. The child sees an empty file.
    pub(super) fn handle(&self) -> io::Result<Stdio> {
        match &self.lock {
            Some(lock) => Ok(lock.try_clone()?.into()),
            None => Ok(Stdio::null()),
        }
    }

    /// Shows `text`, unless something was shown just now.
    pub(super) fn show(&mut self, text: &str) {
        let pause = if self.terminal {
            Duration::from_millis(250)
        } else {
            Duration::from_secs(10)
        };
        if self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        let elapsed = self.started.elapsed().as_secs();
        let line = format!("{:10}  {text}, {elapsed} s", self.tool);
        if self.terminal {
            // Back to the first column, and clear what a longer line left.
            eprint!("\r\x1b[K{line}");
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    /// Ends the line with the total duration.
    pub(super) fn done(&mut self) -> Duration {
        let took = self.started.elapsed();
        self.shown = None;
        self.show("done");
        if self.terminal {
            eprintln!();
        }
        took
    }

    /// Runs `command` and returns what it printed. Each line that it writes to its error output goes to `describe`,
    /// whose answer is shown; an error carries the last of those lines.
    pub(super) fn follow(
        &mut self,
        command: &mut Command,
        mut describe: impl FnMut(Option<&str>) -> String,
    ) -> Result<String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(self.handle()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("run {name}: {error}"))?;
        let mut stdout = child.stdout.take().expect("its output is piped");
        let stderr = child.stderr.take().expect("its error output is piped");
        let printed = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stderr)
                .lines()
                .map_while(std::result::Result::ok)
                .try_for_each(|line| sender.send(line))
        });

        let mut tail = VecDeque::new();
        self.show(&describe(None));
        loop {
            match lines.recv_timeout(Duration::from_millis(500)) {
                Ok(line) => {
                    self.show(&describe(Some(&line)));
                    tail.push_back(line);
                    if tail.len() > TAIL {
                        tail.pop_front();
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.show(&describe(None)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait()?;
        let printed = printed.join().expect("reading does not panic")?;
        if status.success() {
            return Ok(printed);
        }
        if self.terminal {
            eprintln!();
        }
        let tail: Vec<String> = tail.into();
        Err(format!("make {}: {name} ended with {status}:\n{}", self.tool, tail.join("\n")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_described_and_output_is_returned() {
        let mut seen = Vec::new();
        let printed = Progress::new("test")
            .follow(&mut shell("echo one >&2; echo out; echo two >&2"), |line| {
                seen.extend(line.map(str::to_owned));
                String::new()
            })
            .expect("it succeeds");
        assert_eq!(printed, "out\n");
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn a_failure_shows_the_last_lines() {
        let error = Progress::new("test")
            .follow(&mut shell("seq 1 40 >&2; exit 3"), |_| String::new())
            .expect_err("it fails")
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("\n40") && !error.contains("\n10\n"),
            "{error}"
        );
    }
}
