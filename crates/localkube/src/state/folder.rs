//! Folders of clusters: who owns one, and how what a dead owner left is cleared.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, canonical, cgroups};
use crate::{Error, Result};

/// Locked by the owner for as long as it lives. Its presence also says that the folder is ours to remove.
const LOCK: &str = "localkube.lock";
/// Locked while directories are created or listed in a base. Not the name above: a base may contain anything else, so
/// it is never removed.
const BASE_LOCK: &str = "localkube-base.lock";
/// How the names of folders start that are made in a base.
const PREFIX: &str = "cluster-";
/// How long to wait for another process that starts or removes a cluster in the same folder.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A folder that this process owns: no other may start, sweep or remove a cluster there while the value lives.
///
/// The lock also makes cleanup complete. A child shares the lock until it executes its program, and carries its mark
/// from then on: the next holder of the lock can find every process that the dead owner started.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes a fresh folder below `base`.
    pub(crate) fn fresh(base: &Path) -> Result<Self> {
        let base = private_base(base)?;
        // A folder is not locked at the moment it appears; the lock on the base keeps sweepers out until it is.
        let _guard = lock_base(&base)?;
        let path = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&base)
            .map_err(Error::io("create a folder in", &base))?
            .keep();
        match try_lock(&path, open_or_create)? {
            Some(lock) => Ok(Self { path, _lock: lock }),
            None => Err(Error::Locked {
                path,
                waited: Duration::ZERO,
            }),
        }
    }

    /// Claims `dir`, which is created if it is missing, and waits for another process that holds it.
    pub(crate) fn claim(dir: &Path) -> Result<Self> {
        let started = Instant::now();
        let path = canonical(dir)?;
        loop {
            if holds_foreign_files(&path)? {
                return Err(Error::ForeignFolder(path));
            }
            create_private(&path)?;
            if let Some(lock) = try_lock(&path, open_or_create)? {
                return Ok(Self { path, _lock: lock });
            }
            if started.elapsed() > PATIENCE {
                return Err(Error::Locked {
                    path,
                    waited: started.elapsed(),
                });
            }
            thread::sleep(POLL);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends every process of the cluster and deletes its files; the folder stays ours.
    pub(crate) fn empty(&self) -> Result<()> {
        process::end(&self.path, |_| true)?;
        // The processes of pods, which nothing restarts now. The namespaces and mounts of the nodes are gone with the
        // last of them.
        cgroups::clear(&self.path)?;
        for entry in fs::read_dir(&self.path).map_err(Error::io("list", &self.path))? {
            let entry = entry.map_err(Error::io("list", &self.path))?;
            if entry.file_name() != LOCK {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Like [`Folder::empty`], and the folder goes too. The caller keeps the lock until afterwards.
    pub(crate) fn delete(&self) -> Result<()> {
        self.empty()?;
        remove(&self.path.join(LOCK))?;
        match fs::remove_dir(&self.path) {
            // A process that waited for the lock may have created the next cluster: then the directory is its own.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Err(Error::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Clears every cluster below `base` whose owner has died. Whatever was not made by [`Folder::fresh`] stays untouched.
pub(crate) fn sweep(base: &Path) -> Result<()> {
    let base = private_base(base)?;
    let mut orphans = Vec::new();
    let guard = lock_base(&base)?;
    for entry in fs::read_dir(&base).map_err(Error::io("list", &base))?.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        // Its creator died before it took the lock. The call removes empty directories only.
        if fs::remove_dir(&path).is_ok() {
            continue;
        }
        if let Some(lock) = try_lock(&path, open_existing)? {
            orphans.push(Folder { path, _lock: lock });
        }
    }
    drop(guard);
    orphans.iter().try_for_each(Folder::delete)
}

fn lock_base(base: &Path) -> Result<File> {
    let path = base.join(BASE_LOCK);
    let file = open_or_create(&path).map_err(Error::io("open", &path))?;
    file.lock().map_err(Error::io("lock", &path))?;
    Ok(file)
}

/// Takes the lock of the folder, unless another process has it, or there is no such file and `open` makes none.
fn try_lock(dir: &Path, open: fn(&Path) -> io::Result<File>) -> Result<Option<File>> {
    let path = dir.join(LOCK);
    let file = match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", &path))?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
    }
    // Between open and lock the last owner may have removed the file: a lock on a removed file protects nothing.
    let ours = file.metadata().map_err(Error::io("inspect", &path))?.ino();
    Ok(fs::metadata(&path)
        .is_ok_and(|current| current.ino() == ours)
        .then_some(file))
}

fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// It contains keys, so no other user may read it.
fn create_private(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::io("create", path))
}

/// Creates `base` if it is missing, and returns its canonical path if only this user can change its content.
///
/// It is usually in a place where everybody may create files, under a name that everybody can guess. So the name itself
/// is checked before links are followed: one that another user planted may lead to any folder of this user.
fn private_base(base: &Path) -> Result<PathBuf> {
    // Without a slash at the end, which would make the system follow a link.
    let base: PathBuf = base.components().collect();
    create_private(&base)?;
    let found = fs::symlink_metadata(&base).map_err(Error::io("inspect", &base))?;
    let fault = if !found.is_dir() {
        "it is a link"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "other users may look into it (its mode has to be 0700)"
    } else {
        return canonical(&base);
    };
    Err(Error::UnsafeBase { path: base, fault })
}

/// Guards against removing what a user named by mistake.
fn holds_foreign_files(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some() && !dir.join(LOCK).exists()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("list", dir)(error)),
    }
}

/// Removes a file, or a folder with all that is in it, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// A folder that will do as a base.
#[cfg(test)]
pub(crate) fn private_tempdir() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .expect("create a folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_orphans_and_keeps_running_clusters() {
        let base = private_tempdir();
        let living = Folder::fresh(base.path()).expect("first folder");
        let orphan = Folder::fresh(base.path()).expect("second folder");
        let orphan_path = orphan.path().to_owned();
        fs::write(orphan_path.join("file"), "").expect("write a file");
        drop(orphan);
        let unlocked = base.path().join("cluster-never-locked");
        fs::create_dir(&unlocked).expect("create a folder");
        sweep(base.path()).expect("sweep");
        assert!(!orphan_path.exists() && !unlocked.exists());
        assert!(living.path().exists());
    }

    #[test]
    fn a_sweep_leaves_alone_what_is_not_ours() {
        let base = private_tempdir();
        let path = |name: &str| base.path().join(name);
        for folder in ["empty", "photos", "cluster-notes", "elsewhere"] {
            fs::create_dir(path(folder)).expect("create a folder");
        }
        // Neither our name alone nor our lock alone makes a folder ours, and a link is no folder.
        let kept = [
            "photos/one.jpg",
            "photos/localkube.lock",
            "cluster-notes/todo.txt",
            "elsewhere/localkube.lock",
        ];
        for file in kept {
            fs::write(path(file), "years of work").expect("write a file");
        }
        std::os::unix::fs::symlink(path("elsewhere"), path("cluster-link")).expect("create a link");
        sweep(base.path()).expect("sweep");
        let _folder = Folder::fresh(base.path()).expect("a folder beside them");
        for file in kept {
            assert_eq!(fs::read_to_string(path(file)).expect("still there"), "years of work");
        }
        assert!(path("empty").exists() && path("cluster-link").is_symlink());
        assert!(!path("cluster-notes").join(LOCK).exists(), "nothing is added either");
    }

    #[test]
    fn a_base_is_not_a_cluster_to_remove() {
        let base = private_tempdir();
        let folder = Folder::fresh(base.path()).expect("a folder");
        let error = Folder::claim(base.path()).expect_err("not a cluster");
        assert!(matches!(error, Error::ForeignFolder(_)), "{error}");
        assert!(folder.path().exists());
    }

    #[test]
    fn a_link_planted_in_place_of_the_base_is_refused() {
        let place = private_tempdir();
        let victim = place.path().join("victim");
        let orphan = Folder::fresh(&victim).expect("a folder").path().to_owned();
        let planted = place.path().join("planted");
        std::os::unix::fs::symlink(&victim, &planted).expect("create a link");
        for name in [planted.clone(), planted.join(""), planted.join(".")] {
            for error in [
                sweep(&name).expect_err("a link"),
                Folder::fresh(&name).expect_err("a link"),
            ] {
                assert!(error.to_string().contains("it is a link"), "{error}");
            }
        }
        assert!(orphan.exists());
    }

    #[test]
    fn a_base_that_other_users_can_read_is_refused() {
        let base = private_tempdir();
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(base.path(), Permissions::from_mode(mode)).expect("set the mode");
            let error = Folder::fresh(base.path()).expect_err("not private");
            assert!(matches!(error, Error::UnsafeBase { .. }), "{error}");
        }
        assert_eq!(fs::read_dir(base.path()).expect("list").count(), 0);
    }

    #[test]
    fn deleting_leaves_nothing() {
        let base = private_tempdir();
        let dir = base.path().join("cluster");
        let folder = Folder::claim(&dir).expect("claim");
        fs::create_dir(dir.join("data")).expect("create a folder");
        folder.delete().expect("delete");
        assert!(!dir.exists());
    }

    #[test]
    fn a_folder_with_other_files_is_refused_and_kept() {
        let base = private_tempdir();
        fs::write(base.path().join("thesis.txt"), "").expect("write a file");
        let error = Folder::claim(base.path()).expect_err("not ours");
        assert!(matches!(error, Error::ForeignFolder(_)));
        assert!(base.path().join("thesis.txt").exists());
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_a_claim() {
        let base = private_tempdir();
        let dir = base.path().join("cluster");
        let first = Folder::claim(&dir).expect("claim");
        let waiting = {
            let dir = dir.clone();
            thread::spawn(move || Folder::claim(&dir).map(|folder| folder.path().join(LOCK).exists()))
        };
        first.delete().expect("delete");
        drop(first);
        assert!(waiting.join().expect("no panic").expect("claim after the delete"));
    }
}
