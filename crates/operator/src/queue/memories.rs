//! What the process remembers of each object from one look to the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::key::ObjectKey;

/// The memories of all objects of one kind. A look takes the one of its object out and puts it back.
#[derive(Debug)]
pub struct Memories<M> {
    by_object: Mutex<HashMap<ObjectKey, (String, M)>>,
}

impl<M> Default for Memories<M> {
    fn default() -> Self {
        Self {
            by_object: Mutex::default(),
        }
    }
}

impl<M: Default> Memories<M> {
    /// Takes the memory of the object of this UID; that of a predecessor of the same name is forgotten.
    #[must_use]
    pub fn take(&self, key: &ObjectKey, uid: &str) -> M {
        let known = self.lock(|memories| memories.remove(key));
        known
            .filter(|(whose, _)| whose == uid)
            .map(|(_, memory)| memory)
            .unwrap_or_default()
    }

    /// Puts it back.
    pub fn put(&self, key: &ObjectKey, uid: &str, memory: M) {
        self.lock(|memories| memories.insert(key.clone(), (uid.to_owned(), memory)));
    }

    /// The object is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock(|memories| memories.remove(key));
    }

    fn lock<T>(&self, action: impl FnOnce(&mut HashMap<ObjectKey, (String, M)>) -> T) -> T {
        action(&mut self.by_object.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_object_of_the_same_name_starts_from_nothing() {
        let (memories, key) = (Memories::<u32>::default(), ObjectKey::new("n", "a"));
        memories.put(&key, "u", 3);
        assert_eq!(memories.take(&key, "u"), 3);
        memories.put(&key, "u", 3);
        assert_eq!(memories.take(&key, "v"), 0);
        memories.put(&key, "u", 3);
        memories.forget(&key);
        assert_eq!(memories.take(&key, "u"), 0);
    }
}
