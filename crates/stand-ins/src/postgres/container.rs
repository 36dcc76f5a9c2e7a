//! The container of PostgreSQL as a pod describes it, read the way the official image reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The user and group of PostgreSQL in the image. It knows no other user that is not root.
pub(crate) const IMAGE_USER: u32 = 70;
/// Where the image keeps data by default.
const IMAGE_DATA: &str = "/var/lib/postgresql/data";

/// What a pod says about the container of PostgreSQL.
#[derive(Debug, Clone)]
pub struct Container {
    /// The variables of its environment, with values of Secrets filled in.
    pub environment: BTreeMap<String, String>,
    /// The user that it runs as.
    pub user: u32,
    /// The group that it runs as.
    pub group: u32,
    /// Where volumes are mounted that can be written to. Every other path is read-only.
    pub mounts: Vec<PathBuf>,
}

impl Container {
    /// One as the image wants it, with a superuser and a database of its own.
    #[must_use]
    pub fn new(user: &str, password: &str, database: &str) -> Self {
        let environment = [
            ("POSTGRES_USER", user),
            ("POSTGRES_PASSWORD", password),
            ("POSTGRES_DB", database),
        ];
        Self {
            environment: environment
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            user: IMAGE_USER,
            group: IMAGE_USER,
            mounts: [IMAGE_DATA, "/var/run/postgresql", "/tmp"].map(PathBuf::from).into(),
        }
    }

    /// The value of a variable, unless it is empty, which to the image is the same as missing.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    pub(super) fn data_folder(&self) -> &str {
        self.variable("PGDATA").unwrap_or(IMAGE_DATA)
    }

    /// What makes the database, unless it is one that is always there.
    pub(super) fn create_database(&self) -> String {
        let user = self.variable("POSTGRES_USER").unwrap_or("postgres");
        match self.variable("POSTGRES_DB").unwrap_or(user) {
            "postgres" => String::new(),
            name => format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(&[], "")]
    #[case(&[("POSTGRES_DB", "postgres"), ("POSTGRES_USER", "a")], "")]
    #[case(&[("POSTGRES_USER", "a")], "CREATE DATABASE \"a\"")]
    #[case(&[("POSTGRES_USER", "a"), ("POSTGRES_DB", "")], "CREATE DATABASE \"a\"")]
    #[case(&[("POSTGRES_DB", "b\"c")], "CREATE DATABASE \"b\"\"c\"")]
    fn the_database_is_named_by_the_environment_or_after_the_user(
        #[case] environment: &[(&str, &str)],
        #[case] statement: &str,
    ) {
        let mut container = Container::new("", "", "");
        let pairs = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        container.environment = pairs.collect();
        assert_eq!(container.create_database(), statement);
    }
}
