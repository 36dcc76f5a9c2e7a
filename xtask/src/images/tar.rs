//! Tar archives that say nothing of who wrote them, where and when: the same contents give the same bytes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// Writes an archive in the format that every reader knows (ustar).
pub(super) struct Writer<W: Write> {
    to: Builder<W>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to: Builder::new(to) }
    }

    pub(super) fn folder(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.to
            .append_data(&mut header(EntryType::Directory, mode, 0), path, io::empty())
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.to
            .append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)
    }

    pub(super) fn bytes(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.contents(path, mode, bytes.len() as u64, bytes)
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, source: &Path) -> io::Result<()> {
        let source = File::open(source)?;
        self.contents(path, mode, source.metadata()?.len(), source)
    }

    /// Ends the archive.
    pub(super) fn finish(self) -> io::Result<()> {
        self.to.into_inner()?.flush()
    }

    fn contents(&mut self, path: &str, mode: u32, size: u64, source: impl Read) -> io::Result<()> {
        self.to
            .append_data(&mut header(EntryType::Regular, mode, size), path, source)
    }
}

/// Of root's, from the beginning of all time.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
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
}
