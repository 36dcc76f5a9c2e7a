//! A hash of the credentials of the database, which shows only whether they changed.

use sha2::{Digest, Sha256};

/// The first 16 hexadecimal digits of a SHA-256 over both values. The identity of the instance goes in first, so that
/// equal passwords of two instances do not show; each value goes in with its length, so that no byte can wander from
/// one into the other unseen.
#[must_use]
pub fn credentials_hash(instance_uid: &str, username: &[u8], password: &[u8]) -> String {
    let mut digest = Sha256::new();
    for part in [instance_uid.as_bytes(), username, password] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finalize();
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Another text here restarts the metadata service of every instance at the next upgrade.
    #[test]
    fn the_hash_of_credentials_never_changes() {
        insta::assert_snapshot!(credentials_hash("uid", b"firebolt", b"secret"), @"999892b6a351cab7");
    }

    #[test]
    fn a_byte_that_moves_from_one_value_to_the_other_changes_the_hash() {
        let hashes = [
            credentials_hash("u", b"a", b"bc"),
            credentials_hash("u", b"ab", b"c"),
            credentials_hash("u", b"abc", b""),
            credentials_hash("ua", b"", b"bc"),
            credentials_hash("", b"ua", b"bc"),
        ];
        for (index, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|other| other == hash), Some(index), "{hashes:?}");
        }
    }

    proptest! {
        #[test]
        fn the_hash_is_sixteen_digits_and_differs_where_the_values_do(
            one in any::<(String, Vec<u8>, Vec<u8>)>(),
            other in any::<(String, Vec<u8>, Vec<u8>)>(),
        ) {
            let hash = |(uid, username, password): &(String, Vec<u8>, Vec<u8>)| credentials_hash(uid, username, password);
            prop_assert_eq!(hash(&one).len(), 16);
            prop_assert!(hash(&one).chars().all(|digit| digit.is_ascii_hexdigit()));
            prop_assert_eq!(hash(&one) == hash(&other), one == other);
        }
    }
}
