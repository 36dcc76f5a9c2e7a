//! Folders of clusters: who owns one, and how what a dead owner left is cleared.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, canonical};
use crate::{Error, Result};

/// Locked by the owner for as long as it lives. Its presence also says that the folder is ours to remove.
const LOCK: &str = "localkube.lock";
/// How long to wait for another process that starts or removes a cluster in the same folder.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);

/// A folder that this process owns: no other may start, sweep or remove a cluster there while the value lives.
///
/// The lock also makes clearing exact. A child shares it from its birth until it becomes the program that it is to run,
/// and from then on it shows its mark: whoever gets the lock sees every process that the dead owner started.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes a fresh folder below `base`, after clearing those there whose owner has died.
    pub(crate) fn fresh(base: &Path) -> Result<Self> {
        create_private(base)?;
        let base = canonical(base)?;
        check_owner(&base)?;
        sweep(&base)?;
        // A folder is not locked at the moment it appears; the lock on the base keeps sweepers out until it is.
        let _guard = lock_base(&base)?;
        let path = tempfile::Builder::new()
            .prefix("cluster-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&base)
            .map_err(Error::io("create a folder in", &base))?
            .keep();
        match try_claim(&path)? {
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
            if let Some(lock) = try_claim(&path)? {
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
        // With a node: unmount what is mounted below the folder and delete its network namespace here, after the
        // processes that use them and before the files.
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
            // Whoever waited for the lock may have made the next one already: then the folder is theirs.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Err(Error::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Clears every cluster below `base` whose owner has died.
fn sweep(base: &Path) -> Result<()> {
    let mut orphans = Vec::new();
    let guard = lock_base(base)?;
    for entry in fs::read_dir(base).map_err(Error::io("list", base))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(lock) = try_claim(&entry.path())?
        {
            orphans.push(Folder {
                path: entry.path(),
                _lock: lock,
            });
        }
    }
    drop(guard);
    orphans.iter().try_for_each(Folder::delete)
}

fn lock_base(base: &Path) -> Result<File> {
    let path = base.join(LOCK);
    let file = open_lock(&path).map_err(Error::io("open", &path))?;
    file.lock().map_err(Error::io("lock", &path))?;
    Ok(file)
}

/// Takes the lock of the folder, unless another process has it or the folder is gone.
fn try_claim(dir: &Path) -> Result<Option<File>> {
    let path = dir.join(LOCK);
    let file = match open_lock(&path) {
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

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Keys live below, so nobody else may look in.
fn create_private(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::io("create", path))
}

/// The base is in a place where everybody may create files, under a name that everybody can guess.
fn check_owner(base: &Path) -> Result<()> {
    let owner = fs::metadata(base).map_err(Error::io("inspect", base))?.uid();
    if owner == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(Error::ForeignFolder(base.to_owned()))
    }
}

/// Guards against removing what somebody named by mistake.
fn holds_foreign_files(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some() && !dir.join(LOCK).exists()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("list", dir)(error)),
    }
}

fn remove(path: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> tempfile::TempDir {
        tempfile::tempdir().expect("create a folder")
    }

    #[test]
    fn a_fresh_folder_clears_orphans_and_spares_the_living() {
        let base = base();
        let living = Folder::fresh(base.path()).expect("first folder");
        let orphan = Folder::fresh(base.path()).expect("second folder");
        let orphan_path = orphan.path().to_owned();
        fs::write(orphan_path.join("file"), "").expect("write a file");
        drop(orphan);
        let _next = Folder::fresh(base.path()).expect("third folder");
        assert!(!orphan_path.exists());
        assert!(living.path().exists());
    }

    #[test]
    fn deleting_leaves_nothing() {
        let base = base();
        let dir = base.path().join("cluster");
        let folder = Folder::claim(&dir).expect("claim");
        fs::create_dir(dir.join("data")).expect("create a folder");
        folder.delete().expect("delete");
        assert!(!dir.exists());
    }

    #[test]
    fn a_folder_with_other_files_is_refused_and_kept() {
        let base = base();
        fs::write(base.path().join("thesis.txt"), "").expect("write a file");
        let error = Folder::claim(base.path()).expect_err("not ours");
        assert!(matches!(error, Error::ForeignFolder(_)));
        assert!(base.path().join("thesis.txt").exists());
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_a_claim() {
        let base = base();
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
