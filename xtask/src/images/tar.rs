//! Tar archives that say nothing of who wrote them, where and when: the same contents give the same bytes.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

const BLOCK: usize = 512;

/// What an entry is.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    File = b'0',
    Link = b'2',
    Folder = b'5',
}

/// Writes an archive in the format that every reader knows (ustar).
pub(super) struct Writer<W> {
    to: W,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to }
    }

    pub(super) fn folder(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.header(path, mode, 0, Kind::Folder, "")
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.header(path, 0o777, 0, Kind::Link, target)
    }

    pub(super) fn bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.contents(path, mode, bytes.len() as u64, bytes)
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, source: &Path) -> io::Result<()> {
        let source = File::open(source)?;
        self.contents(path, mode, source.metadata()?.len(), source)
    }

    /// Ends the archive, with two blocks of zeros.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.to.write_all(&[0; 2 * BLOCK])?;
        self.to.flush()
    }

    fn contents(&mut self, path: &str, mode: u32, size: u64, mut source: impl io::Read) -> io::Result<()> {
        self.header(path, mode, size, Kind::File, "")?;
        if io::copy(&mut source, &mut self.to)? != size {
            return Err(io::Error::other(format!(
                "the size of {path} changed while it was read"
            )));
        }
        let rest = size.next_multiple_of(BLOCK as u64) - size;
        io::copy(&mut io::repeat(0).take(rest), &mut self.to)?;
        Ok(())
    }

    fn header(&mut self, path: &str, mode: u32, size: u64, kind: Kind, target: &str) -> io::Result<()> {
        let mut header = [0; BLOCK];
        let mut put = |place: usize, width: usize, bytes: &[u8]| {
            if bytes.len() > width {
                return Err(io::Error::other(format!("{path} is too long for an archive")));
            }
            header[place..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        put(0, 100, path.as_bytes())?;
        put(100, 8, format!("{mode:07o}").as_bytes())?;
        // User and group: root. Time: the beginning of all.
        put(108, 8, b"0000000")?;
        put(116, 8, b"0000000")?;
        put(124, 12, format!("{size:011o}").as_bytes())?;
        put(136, 12, b"00000000000")?;
        // The sum counts itself as blanks.
        put(148, 8, b"        ")?;
        put(156, 1, &[kind as u8])?;
        put(157, 100, target.as_bytes())?;
        put(257, 8, b"ustar\x0000")?;
        let sum: u32 = header.iter().copied().map(u32::from).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.to.write_all(&header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn other_programs_read_what_was_written() {
        let folder = tempfile::tempdir().expect("create a folder");
        let path = folder.path().join("archive.tar");
        let mut writer = Writer::new(File::create(&path).expect("create a file"));
        writer.folder("etc/", 0o755).expect("write a folder");
        writer.bytes("etc/a", 0o600, b"text").expect("write a text");
        writer
            .file("etc/b", 0o644, Path::new("/dev/null"))
            .expect("write a file");
        writer.link("etc/c", "a").expect("write a link");
        writer.finish().expect("end the archive");

        let listed = Command::new("tar")
            .arg("--list")
            .arg("--verbose")
            .arg("--utc")
            .arg("--file")
            .arg(&path)
            .output();
        let listed = String::from_utf8(listed.expect("run tar").stdout).expect("text");
        let words: Vec<String> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            words,
            [
                "drwxr-xr-x 0/0 0 1970-01-01 00:00 etc/",
                "-rw------- 0/0 4 1970-01-01 00:00 etc/a",
                "-rw-r--r-- 0/0 0 1970-01-01 00:00 etc/b",
                "lrwxrwxrwx 0/0 0 1970-01-01 00:00 etc/c -> a",
            ]
        );
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let mut writer = Writer::new(Vec::new());
        let error = writer.folder(&"a".repeat(101), 0o755).expect_err("too long");
        assert!(error.to_string().ends_with("is too long for an archive"), "{error}");
    }
}
