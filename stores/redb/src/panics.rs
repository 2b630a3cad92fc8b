//! Panics of redb, which does not check what it reads from the file.

use std::{
    error, fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs a function that may panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Panicked { text: text.to_owned() }
    })
}

/// redb panicked: the file is damaged, or redb has a defect.
#[derive(Clone, Debug)]
pub(crate) struct Panicked {
    text: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redb panicked: {}", self.text)
    }
}

impl error::Error for Panicked {}
