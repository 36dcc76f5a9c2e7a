//! Packages of the Debian archive, with everything they depend on, unpacked into a folder laid out like a system.
//!
//! Nothing is installed: the machine of a developer is not ours to change, and servers would be started. What the
//! machine has installed does not matter either, so the result is the same everywhere and can serve as the root of an
//! image.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use localkube::tools::Tool;

use super::Result;
use super::progress::Progress;

/// Each package and one program of it: what must be there afterwards. A `*` stands for one folder, named after a version.
const PROGRAMS: [(&str, &str); 8] = [
    ("containerd", "usr/bin/containerd"),
    ("runc", "usr/sbin/runc"),
    ("containernetworking-plugins", "usr/lib/cni/bridge"),
    ("nftables", "usr/sbin/nft"),
    ("iptables", "usr/sbin/iptables"),
    ("conntrack", "usr/sbin/conntrack"),
    ("postgresql", "usr/lib/postgresql/*/bin/postgres"),
    ("nginx-light", "usr/sbin/nginx"),
];

/// Names that an installation would choose among alternatives for, and what we choose.
const ALTERNATIVES: [(&str, &str); 6] = [
    ("iptables", "iptables-nft"),
    ("iptables-save", "iptables-nft-save"),
    ("iptables-restore", "iptables-nft-restore"),
    ("ip6tables", "ip6tables-nft"),
    ("ip6tables-save", "ip6tables-nft-save"),
    ("ip6tables-restore", "ip6tables-nft-restore"),
];

pub(super) fn fetch(work: &Path, build: &Path, progress: &mut Progress) -> Result<()> {
    let archives = download(work, progress)?;
    let root = build.join("root");
    // The layout of every current release: the old folders are links.
    for folder in ["bin", "sbin", "lib", "lib64"] {
        let target = Path::new("usr").join(folder);
        fs::create_dir_all(root.join(&target))?;
        symlink(target, root.join(folder))?;
    }
    for (done, archive) in archives.iter().enumerate() {
        progress.show(&format!("{done} of {} packages unpacked", archives.len()));
        unpack(archive, &root, progress)?;
    }
    for (name, choice) in ALTERNATIVES {
        symlink(choice, root.join("usr/sbin").join(name))?;
    }
    verify(&root)
}

/// Fails unless every package brought its program.
fn verify(root: &Path) -> Result<()> {
    for (package, program) in PROGRAMS {
        if !exists(root, program) {
            return Err(format!("verify debian: {package} brought no {program}").into());
        }
    }
    Ok(())
}

fn exists(root: &Path, pattern: &str) -> bool {
    match pattern.split_once("*/") {
        None => root.join(pattern).exists(),
        Some((folder, rest)) => fs::read_dir(root.join(folder))
            .is_ok_and(|versions| versions.flatten().any(|version| version.path().join(rest).exists())),
    }
}

/// Downloads the packages and returns the archive files.
fn download(work: &Path, progress: &mut Progress) -> Result<Vec<PathBuf>> {
    let packages = packages(Tool::Debian.pin_files()[0]);
    let archives = work.join("archives");
    fs::create_dir_all(archives.join("partial"))?;
    // The lists of the machine may be missing or too old to match the archive: then they are fetched anew, into a
    // folder of our own, which needs no rights.
    let lists = work.join("lists");
    let mut own_lists = false;
    loop {
        let mut command = apt(work, own_lists.then_some(&lists))?;
        command
            .args(["--yes", "--no-install-recommends", "--download-only", "install"])
            .args(&packages);
        match progress.follow(&mut command, |_| "downloading".to_owned()) {
            Ok(_) => break,
            Err(error) if own_lists => return Err(error),
            Err(_) => {
                own_lists = true;
                fs::create_dir_all(lists.join("partial"))?;
                progress.follow(apt(work, Some(&lists))?.arg("update"), |_| {
                    "reading the package lists".to_owned()
                })?;
            }
        }
    }
    let mut found: Vec<PathBuf> = fs::read_dir(&archives)?.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    found.sort();
    Ok(found)
}

/// An apt-get that believes that nothing is installed, keeps its files in `work`, and needs no rights.
fn apt(work: &Path, lists: Option<&PathBuf>) -> Result<Command> {
    let status = work.join("status");
    fs::write(&status, "")?;
    let mut command = Command::new("apt-get");
    let mut set = |option: &str, value: &Path| {
        command.arg("--option").arg(format!("{option}={}", value.display()));
    };
    set("Dir::State::status", &status);
    set("Dir::Cache::archives", &work.join("archives"));
    set("Dir::Cache::pkgcache", Path::new(""));
    set("Dir::Cache::srcpkgcache", Path::new(""));
    set("Debug::NoLocking", Path::new("true"));
    set("APT::Sandbox::User", Path::new("root"));
    if let Some(lists) = lists {
        set("Dir::State::lists", lists);
    }
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

/// Unpacks one archive into `root` by way of tar, which, unlike `dpkg --extract`, keeps the links of the layout.
fn unpack(archive: &Path, root: &Path, progress: &Progress) -> Result<()> {
    let mut contents = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(archive)
        .stdin(progress.handle()?)
        .stdout(Stdio::piped())
        .spawn()?;
    let stream = contents.stdout.take().expect("its output is piped");
    // Without owners and set-user-ID bits: this is a cache, not a system.
    let options = [
        "--extract",
        "--keep-directory-symlink",
        "--no-same-owner",
        "--no-same-permissions",
        "--directory",
    ];
    let unpacked = Command::new("tar")
        .args(options)
        .arg(root)
        .stdin(stream)
        .stdout(progress.handle()?)
        .status()?;
    if contents.wait()?.success() && unpacked.success() {
        return Ok(());
    }
    Err(format!("unpack {}: {unpacked}", archive.display()).into())
}

/// The packages that a list names, one to a line, with comments.
fn packages(list: &str) -> Vec<&str> {
    list.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_name_no_package() {
        assert_eq!(packages("# one\n\ntwo\n  three # why\n"), ["two", "three"]);
        assert!(packages(Tool::Debian.pin_files()[0]).contains(&"containerd"));
    }

    #[test]
    fn every_package_is_verified() {
        let mut verified = PROGRAMS.map(|(package, _)| package);
        let mut expected = packages(Tool::Debian.pin_files()[0]);
        verified.sort_unstable();
        expected.sort_unstable();
        assert_eq!(expected, verified);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let root = tempfile::tempdir().expect("create a folder");
        let put = |program: &str| {
            let path = root.path().join(program);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("create the folder");
            fs::write(path, "").expect("write the file");
        };
        for (_, program) in PROGRAMS.iter().filter(|(package, _)| *package != "postgresql") {
            put(program);
        }
        put("usr/lib/postgresql/17/bin/psql");
        let error = verify(root.path()).expect_err("no server").to_string();
        assert!(error.contains("postgresql brought no"), "{error}");
        put("usr/lib/postgresql/17/bin/postgres");
        verify(root.path()).expect("complete");
    }
}
