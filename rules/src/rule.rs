use consign_core::{
    message::{Field, InvalidArgument, Problem, entity_path::is_forbidden, limits},
    time::Timestamp,
};

use super::{Filter, SqlAction, set::key};

/// A rule of a subscription: which messages it takes, and what it changes on its copy.
///
/// Two rules are equal if they have the same name, filter and action, whenever they were created.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) name: Box<str>,
    pub(super) filter: Filter,
    pub(super) action: Option<SqlAction>,
    created: Option<Timestamp>,
}

impl Rule {
    /// The name of the rule that a new subscription has; its filter is [`Filter::True`].
    pub const DEFAULT_NAME: &'static str = "$Default";
    /// Longest name: UTF-16 code units.
    pub const MAX_NAME_LENGTH: usize = 50;

    /// A rule without an action. The name is 1 to 50 UTF-16 code units without `@`, `?`, `#`, `*`, slashes of either
    /// kind, and control, bidirectional and zero-width characters.
    pub fn new(name: impl Into<Box<str>>, filter: impl Into<Filter>) -> Result<Self, InvalidArgument> {
        let name = name.into();
        if name.is_empty() {
            return Err(InvalidArgument::new(Field::RuleName, Problem::Empty));
        }
        if limits::is_longer_than(&name, Self::MAX_NAME_LENGTH) {
            return Err(InvalidArgument::new(Field::RuleName, Problem::TooLong { limit: Self::MAX_NAME_LENGTH }));
        }
        if let Some(found) = name.chars().find(|&char| char == '/' || is_forbidden(char)) {
            return Err(InvalidArgument::new(Field::RuleName, Problem::ForbiddenCharacter(found)));
        }
        Ok(Self { name, filter: filter.into(), action: None, created: None })
    }

    /// Returns the same rule with an action, which makes a copy of its own of every message that
    /// matches.
    #[must_use]
    pub fn with_action(mut self, action: SqlAction) -> Self {
        self.action = Some(action);
        self
    }

    /// Returns the name of the rule. Case does not matter when names are compared.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this is the rule of that name, in any case.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        key(&self.name) == key(name)
    }

    /// Bytes that it counts for against the limit of a set.
    pub(super) fn size(&self) -> usize {
        let action = self.action.as_ref().map_or(0, |action| action.as_str().len() + action.parameters().size());
        self.name.len() + self.filter.size() + action
    }

    /// Returns the filter.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Returns the action on its copy.
    #[must_use]
    pub fn action(&self) -> Option<&SqlAction> {
        self.action.as_ref()
    }

    /// Returns when the broker created the rule. `None` for a rule that no broker has created, and for a broker that
    /// keeps no such time.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        self.created
    }

    /// Sets when the broker created the rule. A broker replaces the time of a rule that it creates.
    #[must_use]
    pub fn with_created(mut self, created: impl Into<Option<Timestamp>>) -> Self {
        self.created = created.into();
        self
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let Self { name, filter, action, created: _ } = self;
        *name == other.name && *filter == other.filter && *action == other.action
    }
}

/// The rule that a new subscription has: every message, unchanged.
impl Default for Rule {
    fn default() -> Self {
        Self { name: Self::DEFAULT_NAME.into(), filter: Filter::True, action: None, created: None }
    }
}
