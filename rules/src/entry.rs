use super::Rule;

/// A rule of a set, and the name by which it is found.
#[derive(Debug)]
pub(super) struct Entry {
    /// What equal names share: lower case.
    pub(super) key: Box<str>,
    pub(super) rule: Rule,
}
