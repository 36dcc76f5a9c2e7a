//! What must be unique or secret, and so comes from the randomness of the operating system.

use jiff::Timestamp;
use ulid::Ulid;

/// How many random bytes a password has.
const PASSWORD: usize = 12;

/// A new identity for an instance: a ULID.
///
/// # Panics
///
/// If the operating system has no randomness to give, which leaves nothing that could be done safely.
pub(crate) fn fresh_id(now: Timestamp) -> String {
    let milliseconds = u64::try_from(now.as_millisecond()).unwrap_or_default();
    Ulid::from_parts(milliseconds, u128::from_le_bytes(random())).to_string()
}

/// A new password.
///
/// # Panics
///
/// As [`fresh_id`].
pub(crate) fn fresh_password() -> String {
    let digits = random::<PASSWORD>().map(|byte| format!("{byte:02x}"));
    digits.concat()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identities_are_unique_and_sort_by_time() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let ids: HashSet<String> = (0..1000).map(|_| fresh_id(early)).collect();
        assert_eq!(ids.len(), 1000);
        let is_ulid = |id: &str| id.len() == 26 && id.chars().all(|c| "0123456789ABCDEFGHJKMNPQRSTVWXYZ".contains(c));
        assert!(ids.iter().all(|id| is_ulid(id)));
        assert!(fresh_id(early) < fresh_id(late));
    }

    #[test]
    fn passwords_are_unlike_each_other_and_need_no_quoting() {
        let passwords: HashSet<String> = (0..1000).map(|_| fresh_password()).collect();
        assert_eq!(passwords.len(), 1000);
        let is_plain = |password: &str| password.len() == 24 && password.chars().all(|c| c.is_ascii_hexdigit());
        assert!(passwords.iter().all(|password| is_plain(password)));
    }
}
