//! Coders that are kept for the next message: a new one is allocated, and its tables are cleared.

use std::sync::{Mutex, PoisonError};

/// How many idle ones of a kind a process keeps.
const MOST: usize = 8;

/// Idle coders of one kind.
pub(super) struct Kept<T>(Mutex<Vec<T>>);

impl<T> Kept<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(super) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps one for later, unless there are enough.
    pub(super) fn put(&self, coder: T) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST {
            idle.push(coder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_put_is_taken_once_and_no_more_than_8_are_kept() {
        let kept = Kept::new();
        assert_eq!(kept.take(), None);
        kept.put(1);
        assert_eq!((kept.take(), kept.take()), (Some(1), None));
        (0..20).for_each(|coder| kept.put(coder));
        let idle: Vec<_> = std::iter::from_fn(|| kept.take()).collect();
        assert_eq!(idle, [7, 6, 5, 4, 3, 2, 1, 0]);
    }
}
