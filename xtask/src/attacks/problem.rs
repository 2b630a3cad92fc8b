//! What `cargo xtask attacks` refuses.

use super::{LIST, PAGE};

/// A disagreement between the list, the tests and the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The list is empty, so that every other check passes.
    NoAttack,
    /// An attack with another number than its place in the list.
    OutOfOrder(u32, u32),
    /// An attack without a test, and without a reason why not.
    NoTest(u32, String),
    /// An attack with a test, and a reason why there is none.
    TestedAndMissing(u32),
    /// A test that names a number that the list does not have.
    NotAnAttack(u32, String),
    /// A line of a file that begins as an `Attacks:` line and is not one.
    Malformed(String, usize),
    /// A test that no program of tests has, as one behind a feature that is off.
    NotRun(u32, String),
    /// The page is not what would be written.
    PageOutdated,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoAttack => write!(f, "{LIST} has no attacks"),
            Self::OutOfOrder(number, place) => write!(f, "{LIST}: attack {number} is in place {place}"),
            Self::NoTest(number, input) => write!(f, "attack {number} has no test: {input}"),
            Self::TestedAndMissing(number) => write!(f, "attack {number} has a test: remove `missing` from {LIST}"),
            Self::NotAnAttack(number, test) => write!(f, "{test} names attack {number}, which {LIST} does not have"),
            Self::Malformed(file, line) => write!(f, "{file}:{line}: not of the form `Attacks: 7, 12.`"),
            Self::NotRun(number, test) => write!(f, "{test}, a test of attack {number}, is in no program of tests"),
            Self::PageOutdated => write!(f, "{PAGE} is outdated: cargo xtask attacks --write"),
        }
    }
}
