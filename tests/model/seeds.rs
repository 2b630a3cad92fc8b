/// A seed, the operations that it takes, and what it found.
pub(crate) const FOUND: &[(u64, u64, &str)] = &[];
