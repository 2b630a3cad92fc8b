use std::{collections::BTreeMap, error, fmt, sync::Arc};

use consign_core::{
    message::Message,
    transport::{ErrorKind, ManageError},
};

use super::{Copies, Filter, Rule, RuleError, RuleFailure, entry::Entry, index::Index, sql::MAX_STEPS_OF_SET};

/// The rules of one subscription, in the order of their names. Names that differ in case only are one name.
///
/// Correlation filters that require a property other than an application property are found through an index, so a
/// message costs no more for those that it cannot match.
#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: BTreeMap<Box<str>, Arc<Entry>>,
    index: Index,
    correlation: usize,
    bytes: usize,
}

impl RuleSet {
    /// Most rules with another filter than a correlation filter.
    pub const MAX_SQL_RULES: usize = 2_000;
    /// Most rules with a correlation filter.
    pub const MAX_CORRELATION_RULES: usize = 100_000;
    /// Most bytes of all rules: their names, their expressions, and the properties and the parameters with their values.
    pub const MAX_BYTES: usize = 64 << 20;

    /// No rule: no message. A new subscription has the set that is the default.
    #[must_use]
    pub fn empty() -> Self {
        Self { rules: BTreeMap::new(), index: Index::default(), correlation: 0, bytes: 0 }
    }

    /// The set with this rule only.
    #[must_use]
    pub fn of(rule: Rule) -> Self {
        let mut set = Self::empty();
        set.insert(key(rule.name()), rule);
        set
    }

    /// Adds a rule.
    pub fn create(&mut self, rule: Rule) -> Result<(), RuleSetError> {
        let size = self.bytes.saturating_add(rule.size());
        if size > Self::MAX_BYTES && !self.rules.contains_key(&key(rule.name())) {
            return Err(RuleSetError::TooManyBytes { limit: Self::MAX_BYTES, size });
        }
        self.restore(rule)
    }

    /// Adds a rule that was stored. A version without [`RuleSet::MAX_BYTES`] may have stored more.
    #[doc(hidden)]
    pub fn restore(&mut self, rule: Rule) -> Result<(), RuleSetError> {
        let key = key(rule.name());
        if self.rules.contains_key(&key) {
            return Err(RuleSetError::AlreadyExists);
        }
        let (count, limit) = if is_correlation(&rule) {
            (self.correlation, Self::MAX_CORRELATION_RULES)
        } else {
            (self.rules.len() - self.correlation, Self::MAX_SQL_RULES)
        };
        if count >= limit {
            return Err(RuleSetError::TooManyRules { limit });
        }
        self.insert(key, rule);
        Ok(())
    }

    /// Removes a rule and returns it.
    pub fn remove(&mut self, name: &str) -> Result<Rule, RuleSetError> {
        let entry = self.rules.remove(&key(name)).ok_or(RuleSetError::NotFound)?;
        self.correlation -= usize::from(is_correlation(&entry.rule));
        self.bytes -= entry.rule.size();
        self.index.remove(&entry);
        Ok(Arc::try_unwrap(entry).map_or_else(|shared| shared.rule.clone(), |entry| entry.rule))
    }

    /// Returns the rule of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.rules.get(&key(name)).map(|entry| &entry.rule)
    }

    /// All rules, by name.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.values().map(|entry| &entry.rule)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns which copies of a message the subscription gets.
    ///
    /// Every rule is evaluated, so that the outcome does not depend on their order: where one fails, the whole answer is a
    /// failure, even if others match. It names the first failed rule by name, and carries the copies of the others. All
    /// rules share 16,777,216 steps of `LIKE`, four times what one may take; the newest go without first.
    pub fn evaluate(&self, message: &Message) -> Result<Copies, RuleFailure> {
        let mut copies = Copies::default();
        let mut matched = Vec::new();
        let mut failure = First::default();
        let mut steps = MAX_STEPS_OF_SET;
        for entry in self.index.candidates(message.properties()) {
            let Rule { filter, action, .. } = &entry.rule;
            if copies.plain && action.is_none() && !filter.can_fail() {
                continue;
            }
            match (filter.matches_within(message, &mut steps), action) {
                (Ok(false), _) => {}
                (Ok(true), None) => copies.plain = true,
                (Ok(true), Some(action)) => matched.push((entry, action)),
                (Err(error), _) => failure.add(entry, RuleError::Filter(error)),
            }
        }
        matched.sort_unstable_by_key(|(entry, _)| &entry.key);
        for (entry, action) in matched {
            match action.copy_of(message, entry.rule.name()) {
                Ok(changed) => copies.changed.push(changed),
                Err(error) => failure.add(entry, RuleError::Action(error)),
            }
        }
        match failure.0 {
            None => Ok(copies),
            Some((entry, error)) => Err(RuleFailure::new(entry.rule.name(), error, copies)),
        }
    }

    fn insert(&mut self, key: Box<str>, rule: Rule) {
        self.correlation += usize::from(is_correlation(&rule));
        self.bytes += rule.size();
        let entry = Arc::new(Entry { key: key.clone(), rule });
        self.index.insert(Arc::clone(&entry));
        self.rules.insert(key, entry);
    }
}

/// The failed rule that comes first by name.
#[derive(Default)]
struct First<'a>(Option<(&'a Entry, RuleError)>);

impl<'a> First<'a> {
    #[cold]
    fn add(&mut self, entry: &'a Entry, error: RuleError) {
        if self.0.as_ref().is_none_or(|(first, _)| entry.key < first.key) {
            self.0 = Some((entry, error));
        }
    }
}

/// The rule of a new subscription: [`Rule::default`].
impl Default for RuleSet {
    fn default() -> Self {
        Self::of(Rule::default())
    }
}

/// What equal names share.
pub(super) fn key(name: &str) -> Box<str> {
    name.to_lowercase().into()
}

fn is_correlation(rule: &Rule) -> bool {
    matches!(rule.filter(), Filter::Correlation(_))
}

/// A set of rules that could not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleSetError {
    /// There is a rule of that name.
    AlreadyExists,
    /// There is no rule of that name.
    NotFound,
    /// There are `limit` rules of that kind.
    TooManyRules {
        /// The largest number that is allowed.
        limit: usize,
    },
    /// The rules would have `size` bytes, more than `limit`.
    TooManyBytes {
        /// [`RuleSet::MAX_BYTES`].
        limit: usize,
        /// The bytes of all rules with the new one.
        size: usize,
    },
}

impl fmt::Display for RuleSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyExists => f.write_str("the rule exists"),
            Self::NotFound => f.write_str("no such rule"),
            Self::TooManyRules { limit } => write!(f, "the subscription has the maximum of {limit} rules of this kind"),
            Self::TooManyBytes { limit, size } => {
                write!(f, "the rules of the subscription would have {size} bytes, at most {limit}")
            }
        }
    }
}

impl error::Error for RuleSetError {}

/// `AlreadyExists`, `EntityNotFound` or `QuotaExceeded`.
impl From<RuleSetError> for ManageError {
    fn from(error: RuleSetError) -> Self {
        let kind = match error {
            RuleSetError::AlreadyExists => ErrorKind::AlreadyExists,
            RuleSetError::NotFound => ErrorKind::EntityNotFound,
            RuleSetError::TooManyRules { .. } | RuleSetError::TooManyBytes { .. } => ErrorKind::QuotaExceeded,
        };
        Self::new(kind).with_detail(error.to_string())
    }
}
