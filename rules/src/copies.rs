use std::{error, fmt};

use consign_core::message::Message;

use super::RuleError;

/// The copies of one message that a subscription gets.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Copies {
    /// Whether the subscription gets the unchanged message: once, whatever the number of matching rules without an action.
    pub plain: bool,
    /// One changed message for each matching rule with an action, in the order of the rules' names. It carries that name
    /// as the application property [`Copies::RULE_NAME`].
    pub changed: Vec<Message>,
}

impl Copies {
    /// The application property of a changed message that names its rule.
    pub const RULE_NAME: &'static str = "RuleName";

    /// Returns how many copies there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.plain) + self.changed.len()
    }

    /// Returns whether the subscription gets nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message for which at least one rule failed. It names the rule: the first by name.
#[derive(Clone, Debug)]
pub struct RuleFailure(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    rule: Box<str>,
    error: RuleError,
    copies: Copies,
}

impl RuleFailure {
    pub(super) fn new(rule: &str, error: RuleError, copies: Copies) -> Self {
        Self(Box::new(Failure { rule: rule.into(), error, copies }))
    }

    /// Returns the name of the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.0.rule
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn error(&self) -> &RuleError {
        &self.0.error
    }

    /// Returns the reason of a dead letter: `FilterException` or `RuleActionException`. The description is the error's text.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.0.error.name()
    }

    /// Returns the copies of the rules that did not fail, for a subscription that ignores
    /// failures.
    #[must_use]
    pub fn into_copies(self) -> Copies {
        self.0.copies
    }
}

impl fmt::Display for RuleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {:?}: {}", self.0.rule, self.0.error)
    }
}

impl error::Error for RuleFailure {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0.error)
    }
}
