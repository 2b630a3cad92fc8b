use std::time::Duration;

use super::AuthorizationRule;
use crate::message::{Field, InvalidArgument, Problem, limits};

/// What clients of Azure Service Bus set on a queue, a topic or a subscription, and read again. A broker stores it, and does
/// nothing else with it. The server honours [`authorization_rules`](Self::authorization_rules).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// A text of the user: at most 1,024 UTF-16 code units.
    pub user: Option<String>,
    /// `EnableBatchedOperations`.
    pub batched_operations: Option<bool>,
    /// `EnableExpress`, of a queue or a topic.
    pub express: Option<bool>,
    /// `SupportOrdering`, of a topic.
    pub ordering: Option<bool>,
    /// The window of duplicate detection while duplicates are not detected: 20 s to 7 d.
    pub duplicate_window: Option<Duration>,
    /// Who has rights on a queue or a topic: at most [`AuthorizationRule::MAX`].
    pub authorization_rules: Vec<AuthorizationRule>,
}

impl Metadata {
    /// Longest [`user`](Self::user): UTF-16 code units.
    pub const MAX_USER: usize = 1_024;

    /// Returns the name of the first setting that differs. Without authorization rules `other` leaves them as they are: programs
    /// that declare an entity do not have the keys of its clients.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let Self { user, batched_operations, express, ordering, duplicate_window, authorization_rules } = other;
        let rules = (&self.authorization_rules, authorization_rules);
        let has_same_rules = rules.1.is_empty()
            || rules.0.len() == rules.1.len() && rules.0.iter().zip(rules.1).all(|(a, b)| a.is_same(b));
        let is_same = [
            ("user_metadata", self.user == *user),
            ("batched_operations", self.batched_operations == *batched_operations),
            ("express", self.express == *express),
            ("ordering", self.ordering == *ordering),
            ("duplicate_window", self.duplicate_window == *duplicate_window),
            ("authorization_rules", has_same_rules),
        ];
        is_same.into_iter().find(|(_, is_same)| !is_same).map(|(name, _)| name)
    }

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// The first one that is out of its range, with its name.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        let is_too_long = |text: &String| limits::is_longer_than(text, Self::MAX_USER);
        if self.user.as_ref().is_some_and(is_too_long) {
            let problem = Problem::TooLong { limit: Self::MAX_USER };
            return Err(InvalidArgument::new(Field::Setting("user_metadata"), problem));
        }
        let windows = Duration::from_secs(20)..=Duration::from_secs(7 * 24 * 3_600);
        if self.duplicate_window.is_some_and(|window| !windows.contains(&window)) {
            let problem = Problem::OutOfRange { expected: "20 s to 7 d" };
            return Err(InvalidArgument::new(Field::Setting("duplicate_window"), problem));
        }
        AuthorizationRule::check_all(&self.authorization_rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules: S-13.
    #[test]
    fn user_metadata_has_at_most_1024_characters() {
        let of = |length| Metadata { user: Some("x".repeat(length)), ..Metadata::default() };
        of(1_024).check().unwrap();
        let error = of(1_025).check().unwrap_err();
        assert_eq!(error.field(), &Field::Setting("user_metadata"));
        assert_eq!(error.to_string(), "user_metadata is longer than 1024 UTF-16 code units");
        assert_eq!(of(1).difference(&of(2)), Some("user_metadata"));
    }

    /// Rules: S-07.
    #[test]
    fn a_window_that_is_not_used_has_the_same_range() {
        let of = |seconds| Metadata { duplicate_window: Some(Duration::from_secs(seconds)), ..Metadata::default() };
        for (seconds, allowed) in [(19, false), (20, true), (7 * 24 * 3_600, true), (7 * 24 * 3_600 + 1, false)] {
            assert_eq!(of(seconds).check().is_ok(), allowed, "{seconds}");
        }
        assert_eq!(of(19).check().unwrap_err().to_string(), "duplicate_window must be 20 s to 7 d");
    }

    /// Rules: S-13.
    #[test]
    fn each_member_that_differs_is_named() {
        let none = Metadata::default();
        assert_eq!(none.difference(&none), None);
        for (name, other) in [
            ("user_metadata", Metadata { user: Some("x".into()), ..none.clone() }),
            ("batched_operations", Metadata { batched_operations: Some(true), ..none.clone() }),
            ("express", Metadata { express: Some(true), ..none.clone() }),
            ("ordering", Metadata { ordering: Some(true), ..none.clone() }),
            ("duplicate_window", Metadata { duplicate_window: Some(Duration::from_secs(30)), ..none.clone() }),
        ] {
            assert_eq!(none.difference(&other), Some(name));
            assert_eq!(other.difference(&other), None);
        }
    }

    /// Rules: S-14.
    #[test]
    fn authorization_rules_differ_unless_all_are_the_same_or_none_is_declared() {
        let of = |names: &[&str]| {
            let authorization_rules = names.iter().map(|name| AuthorizationRule::new(*name, "", "")).collect();
            Metadata { authorization_rules, ..Metadata::default() }
        };
        for (other, difference) in [
            (of(&["a", "b"]), None),
            (of(&[]), None),
            (of(&["a"]), Some("authorization_rules")),
            (of(&["a", "b", "c"]), Some("authorization_rules")),
            (of(&["a", "c"]), Some("authorization_rules")),
        ] {
            assert_eq!(of(&["a", "b"]).difference(&other), difference, "{other:?}");
        }
    }
}
