//! Layers of images: which files there are, and where each comes from.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::tar::Writer;
use super::{Result, digests, output};

/// What stands at a path.
#[derive(Clone, PartialEq)]
enum Content {
    Folder,
    Link(String),
    Text(String),
    File(PathBuf),
    /// A program of our own, without what only debuggers read, which is most of it.
    Program(PathBuf),
}

#[derive(Clone)]
struct Entry {
    mode: u32,
    content: Content,
}

/// Files by path, without the leading slash.
#[derive(Clone, Default)]
pub(super) struct Layer {
    entries: BTreeMap<String, Entry>,
}

impl Layer {
    pub(super) fn folder(&mut self, path: &str, mode: u32) {
        self.put(path, mode, Content::Folder);
    }

    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.put(path, 0o777, Content::Link(target.to_owned()));
    }

    pub(super) fn text(&mut self, path: &str, mode: u32, text: &str) {
        self.put(path, mode, Content::Text(text.to_owned()));
    }

    pub(super) fn program(&mut self, path: &str, source: &Path) {
        self.put(path, 0o755, Content::Program(source.to_owned()));
    }

    /// A copy of a file. A link is copied as what it leads to.
    pub(super) fn file(&mut self, path: &str, source: &Path) -> Result<()> {
        let metadata = fs::metadata(source).map_err(|error| format!("read {}: {error}", source.display()))?;
        let mode = if metadata.permissions().mode() & 0o111 == 0 {
            0o644
        } else {
            0o755
        };
        self.put(path, mode, Content::File(source.to_owned()));
        Ok(())
    }

    /// Copies of everything below a folder, other than what `skip` says of file names.
    pub(super) fn tree(&mut self, path: &str, source: &Path, skip: fn(&str) -> bool) -> Result<()> {
        let found = fs::read_dir(source).map_err(|error| format!("read {}: {error}", source.display()))?;
        for entry in found {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let place = format!("{path}/{name}");
            match fs::metadata(entry.path()) {
                _ if skip(&name) => {}
                Ok(metadata) if metadata.is_dir() => self.tree(&place, &entry.path(), skip)?,
                // Packages link to files of other packages, which need not be there.
                Err(_) if entry.path().is_symlink() => {}
                _ => self.file(&place, &entry.path())?,
            }
        }
        Ok(())
    }

    /// The libraries that a program needs to start, where it looks for them, unless a layer below has them: all are of one
    /// release of the system. Those of a program of `system`, a folder laid out like one, are looked for there first.
    pub(super) fn libraries(&mut self, program: &Path, system: Option<&Path>, below: Option<&Self>) -> Result<()> {
        let mut command = std::process::Command::new("ldd");
        if let Some(system) = system {
            command.env("LD_LIBRARY_PATH", library_folder(system));
        }
        let listed = output(command.arg(program))?;
        for library in parse_libraries(&listed)? {
            let source = Path::new(library);
            let place = system.and_then(|system| source.strip_prefix(system).ok());
            let place = place.unwrap_or(source).to_string_lossy();
            let name = place.rsplit('/').next().unwrap_or_default();
            if !self.has(name) && !below.is_some_and(|below| below.has(name)) {
                self.file(&place, source)?;
            }
        }
        Ok(())
    }

    /// Whether there is a file of this name in any folder.
    fn has(&self, name: &str) -> bool {
        self.entries.keys().any(|path| path.rsplit('/').next() == Some(name))
    }

    fn put(&mut self, path: &str, mode: u32, content: Content) {
        let path = path.trim_start_matches('/');
        for (end, _) in path.match_indices('/') {
            let folder = Entry {
                mode: 0o755,
                content: Content::Folder,
            };
            self.entries.entry(path[..end].to_owned()).or_insert(folder);
        }
        self.entries.insert(path.to_owned(), Entry { mode, content });
    }

    /// All that the bytes of the layer follow from.
    pub(super) fn describe(&self) -> Result<String> {
        let sources = self.entries.values().filter_map(|entry| match &entry.content {
            Content::File(source) | Content::Program(source) => Some(source.as_path()),
            Content::Folder | Content::Link(_) | Content::Text(_) => None,
        });
        let mut digests = digests(sources)?.into_iter();
        let mut digest = || digests.next().unwrap_or_default();
        let mut text = String::new();
        for (path, Entry { mode, content }) in &self.entries {
            let content = match content {
                Content::Folder => "folder".to_owned(),
                Content::Link(target) => format!("link {target}"),
                Content::Text(text) => format!("text {text:?}"),
                Content::File(_) => format!("file {}", digest()),
                Content::Program(_) => format!("program {}", digest()),
            };
            writeln!(text, "{mode:o} {path} {content}")?;
        }
        Ok(text)
    }

    /// Writes the layer as an archive.
    pub(super) fn write(&self, to: &Path) -> Result<()> {
        let mut writer = Writer::new(BufWriter::new(File::create(to)?));
        for (path, entry) in &self.entries {
            match &entry.content {
                Content::Folder => writer.folder(&format!("{path}/"), entry.mode)?,
                Content::Link(target) => writer.link(path, target)?,
                Content::Text(text) => writer.bytes(path, entry.mode, text.as_bytes())?,
                Content::File(source) => writer.file(path, entry.mode, source)?,
                Content::Program(source) => {
                    let bare = to.with_extension("program");
                    let mut strip = std::process::Command::new("strip");
                    output(strip.arg("--strip-debug").arg("-o").arg(&bare).arg(source))?;
                    writer.file(path, entry.mode, &bare)?;
                    fs::remove_file(bare)?;
                }
            }
        }
        Ok(writer.finish()?)
    }
}

/// Where a system of this machine's kind keeps its libraries.
fn library_folder(system: &Path) -> PathBuf {
    system.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

/// The paths in what `ldd` prints.
fn parse_libraries(listed: &str) -> Result<Vec<&str>> {
    let mut paths = Vec::new();
    for line in listed.lines() {
        let (name, path) = line.split_once("=>").unwrap_or((line, line));
        if path.trim() == "not found" {
            return Err(format!("find the library {}", name.trim()).into());
        }
        // The address in memory comes last; the path before it may have blanks. What the kernel brings has no path.
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path).trim();
        paths.extend(path.starts_with('/').then_some(path));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_path() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/a b/ld.so.2 (0x3)\n";
        assert_eq!(
            parse_libraries(listed).expect("all are found"),
            ["/lib/x/libc.so.6", "/lib64/a b/ld.so.2"]
        );
        assert_eq!(parse_libraries("\tstatically linked\n").expect("none"), [""; 0]);
        let error = parse_libraries("\tliba.so.1 => not found\n").expect_err("one is missing");
        assert_eq!(error.to_string(), "find the library liba.so.1");
    }

    #[test]
    fn what_a_layer_below_has_is_not_taken_twice() {
        let program = std::env::current_exe().expect("this program");
        let mut base = Layer::default();
        base.libraries(&program, None, None).expect("its libraries");
        assert!(base.has("libc.so.6"), "{:?}", base.entries.keys());
        let mut above = Layer::default();
        above.libraries(&program, None, Some(&base)).expect("its libraries");
        assert!(above.entries.is_empty());
    }

    #[test]
    fn a_changed_file_changes_the_description() {
        let folder = tempfile::tempdir().expect("create a folder");
        let source = folder.path().join("source");
        fs::write(&source, "one").expect("write a file");
        let mut layer = Layer::default();
        layer.file("etc/a", &source).expect("there is a file");
        let before = layer.describe().expect("a description");
        assert_eq!(before, layer.describe().expect("a description"));
        fs::write(&source, "two").expect("write a file");
        assert_ne!(before, layer.describe().expect("a description"));
        assert!(before.starts_with("755 etc folder\n644 etc/a file "), "{before}");
    }
}
