//! What `cargo xtask spec` refuses.

use super::{EXCEPTIONS, SEMANTICS};

/// A disagreement between the rules, the tests and the exceptions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The page has no rule, so that every other check passes.
    NoRule,
    /// Rules of one family that have neither a test nor an exception.
    NoTest(Vec<String>),
    /// Two rules share an id.
    DuplicateRule(String),
    /// The legend lists a family twice.
    DuplicateFamily(String),
    /// Ids of a family that the legend does not list.
    NoFamily(String, Vec<String>),
    /// A rule after those of a family that the legend lists later.
    FamilyOutOfOrder(String),
    /// A rule after a higher number in its table.
    RuleOutOfOrder(String),
    /// A test names an id that is not a rule.
    NotARule(String),
    /// An exception is neither a rule nor an id that a test names.
    ExceptionWithoutRule(String),
    /// An exception gives no reason.
    ExceptionWithoutReason(String),
    /// The rule has a test by now.
    ExceptionOutlived(String),
    /// A line that begins as a `Rules:` line and is not one.
    Malformed { file: String, line: usize },
    /// A test whose name begins with an id.
    IdInName { file: String, test: String },
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRule => write!(f, "{SEMANTICS} has no rule"),
            Self::NoTest(ids) => write!(f, "no test names, and {EXCEPTIONS} does not list: {}", ids.join(", ")),
            Self::DuplicateRule(id) => write!(f, "{id}: twice in {SEMANTICS}"),
            Self::DuplicateFamily(letter) => write!(f, "{letter}: twice in the legend of {SEMANTICS}"),
            Self::NoFamily(letter, ids) => {
                write!(f, "{letter}: not in the legend of {SEMANTICS}: {}", ids.join(", "))
            }
            Self::FamilyOutOfOrder(id) => write!(f, "{id}: its family is earlier in the legend of {SEMANTICS}"),
            Self::RuleOutOfOrder(id) => write!(f, "{id}: after a higher id in its table of {SEMANTICS}"),
            Self::NotARule(id) => write!(f, "{id}: named by a test, but not in {SEMANTICS}"),
            Self::ExceptionWithoutRule(id) => write!(f, "{id}: in {EXCEPTIONS}, but not in {SEMANTICS}, nor in a test"),
            Self::ExceptionWithoutReason(id) => write!(f, "{id}: in {EXCEPTIONS} without a reason"),
            Self::ExceptionOutlived(id) => write!(f, "{id}: in {EXCEPTIONS}, but it has a test"),
            Self::Malformed { file, line } => write!(f, "{file}:{line}: not of the form `/// Rules: S-28, S-29.`"),
            Self::IdInName { file, test } => {
                write!(f, "{file}: `{test}` begins with an id, which belongs into a line `/// Rules: S-28.`")
            }
        }
    }
}
