//! What `cargo xtask guarantees` refuses.

use super::{ASSIGNED, CONFORMANCE, PAGE, README};

/// A disagreement between the README, the tests and the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The README has no guarantee, so that every other check passes.
    NoGuarantee,
    /// A sentence of the README's guarantees without tests.
    NotAssigned(String),
    /// A promise that the README does not make.
    NotInReadme(String),
    /// A guarantee without a test on a transport, and without a reason why not.
    NoTest(String, &'static str),
    /// A guarantee with tests on a transport, and a reason why it is not given there.
    TestedAndNot(String, &'static str),
    /// A case that the conformance suite does not have.
    NoCase(String, String),
    /// A test that does not exist, is ignored, or calls nothing.
    TestGone(String),
    /// A transport that is not one of the page, or not one of the conformance table.
    NoTransport(String),
    /// The page is not what would be written.
    PageOutdated,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoGuarantee => write!(f, "{README} has no guarantees"),
            Self::NotAssigned(sentence) => write!(f, "in {README}, but not in {ASSIGNED}: {sentence}"),
            Self::NotInReadme(promise) => write!(f, "in {ASSIGNED}, but not in {README}: {promise}"),
            Self::NoTest(title, transport) => write!(f, "{title}: neither a test nor a reason for {transport}"),
            Self::TestedAndNot(title, transport) => write!(f, "{title}: tests and a reason why not for {transport}"),
            Self::NoCase(title, case) => write!(f, "{title}: the conformance suite has no case `{case}`"),
            Self::TestGone(test) => write!(f, "{test}: no test that runs"),
            Self::NoTransport(name) => write!(f, "{name}: not a transport of {ASSIGNED} and {CONFORMANCE}"),
            Self::PageOutdated => write!(f, "{PAGE} is outdated: cargo xtask guarantees --write"),
        }
    }
}
