//! Where the demo writes: on a terminal the last line is renewed in place, elsewhere there are plain lines only.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};

/// A line that is renewed must not wrap, or it could not be taken back.
const WIDTH: usize = 79;

/// Standard output, as a terminal or as a file.
pub(super) struct Screen<W = io::Stdout> {
    out: W,
    terminal: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        let out = io::stdout();
        let terminal = out.is_terminal();
        Self { out, terminal }
    }
}

impl<W: Write> Screen<W> {
    /// Shows what goes on at the moment. The next line takes its place; without a terminal it is not shown at all.
    pub(super) fn passing(&mut self, line: &str) -> io::Result<()> {
        if !self.terminal {
            return Ok(());
        }
        let short: String = line.chars().take(WIDTH).collect();
        write!(self.out, "\r\x1b[K{short}")?;
        self.out.flush()
    }

    /// Writes a line, or several, that stay.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        writeln!(self.out, "{clear}{}", line.trim_end())
    }

    /// Like [`Screen::passing`], about a part of the demo.
    pub(super) fn passing_step(&mut self, name: &str, news: impl Display) -> io::Result<()> {
        self.passing(&format!("{name:<10} {news}"))
    }

    /// Like [`Screen::line`], about a part of the demo.
    pub(super) fn step(&mut self, name: &str, news: impl Display) -> io::Result<()> {
        self.line(&format!("{name:<10} {news}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(terminal: bool) -> String {
        let mut screen = Screen {
            out: Vec::new(),
            terminal,
        };
        screen.passing_step("engine", "x".repeat(100)).expect("write");
        screen.step("engine", "serves").expect("write");
        String::from_utf8(screen.out).expect("text")
    }

    #[test]
    fn a_file_gets_no_control_characters_and_nothing_that_passes() {
        assert_eq!(written(false), "engine     serves\n");
    }

    #[test]
    fn a_terminal_sees_a_line_that_is_renewed_and_never_wraps() {
        let passing = format!("\r\x1b[Kengine     {}", "x".repeat(68));
        assert_eq!(written(true), format!("{passing}\r\x1b[Kengine     serves\n"));
    }
}
