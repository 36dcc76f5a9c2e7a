//! User name and password, each from a file of its own.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a credential file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file is not there, or is not for this user, or is not text.
    #[error("read the credential file {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file holds nothing.
    #[error("read the credential file {0}: it is empty")]
    Empty(PathBuf),
}

/// What the service logs in with.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the role.
    pub username: String,
    /// Its password.
    pub password: String,
}

impl Credentials {
    /// Reads the two files. Keys of a Secret are files without a line end, and none is cut off here: one that is part
    /// of the value by mistake has to show.
    pub(crate) fn read(username_file: &Path, password_file: &Path) -> Result<Self, CredentialsError> {
        Ok(Self {
            username: read(username_file)?,
            password: read(password_file)?,
        })
    }
}

// Logs are no place for passwords.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<String, CredentialsError> {
    let text = fs::read_to_string(path).map_err(|error| CredentialsError::Unreadable(path.to_owned(), error))?;
    if text.is_empty() {
        return Err(CredentialsError::Empty(path.to_owned()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_to_the_letter() {
        let folder = tempfile::tempdir().expect("create a folder");
        let (username, password) = (folder.path().join("username"), folder.path().join("password"));
        fs::write(&username, "firebolt").expect("write");
        fs::write(&password, " p\u{e4}ss \n").expect("write");
        let credentials = Credentials::read(&username, &password).expect("credentials");
        assert_eq!(credentials.username, "firebolt");
        assert_eq!(credentials.password, " p\u{e4}ss \n");
        assert!(!format!("{credentials:?}").contains("ss"), "{credentials:?}");
    }

    #[test]
    fn a_missing_or_empty_file_is_named() {
        let folder = tempfile::tempdir().expect("create a folder");
        let (username, password) = (folder.path().join("username"), folder.path().join("password"));
        fs::write(&username, "firebolt").expect("write");
        let missing = Credentials::read(&username, &password)
            .expect_err("missing")
            .to_string();
        assert!(missing.ends_with("/password"), "{missing}");
        fs::write(&password, "").expect("write");
        let empty = Credentials::read(&username, &password).expect_err("empty").to_string();
        assert!(empty.ends_with("/password: it is empty"), "{empty}");
    }
}
