use std::fmt;

use super::setters;
use crate::{
    message::{Field, InvalidArgument, Problem, limits},
    time::Timestamp,
};

/// Gives rights on a queue or a topic to those who have one of two keys. A broker stores it; the server of Azure Service Bus
/// accepts tokens that are signed with its keys.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationRule {
    /// The name of the keys: at most 256 UTF-16 code units, and no other rule of the entity has it.
    pub name: String,
    /// The right to send.
    pub send: bool,
    /// The right to receive.
    pub listen: bool,
    /// The right to change the entity. It needs the other two.
    pub manage: bool,
    /// A key: 32 bytes in Base64.
    pub primary_key: String,
    /// Another key, so that keys can be replaced one after the other.
    pub secondary_key: String,
    /// When the rule was created, if that is known.
    pub created: Option<Timestamp>,
    /// When the rule was changed, if that is known.
    pub modified: Option<Timestamp>,
}

impl AuthorizationRule {
    /// Most rules of an entity.
    pub const MAX: usize = 12;
    /// Longest [`name`](Self::name): UTF-16 code units.
    pub const MAX_NAME: usize = 256;

    /// Creates a rule without rights.
    #[must_use]
    pub fn new(name: impl Into<String>, primary_key: impl Into<String>, secondary_key: impl Into<String>) -> Self {
        let (primary_key, secondary_key) = (primary_key.into(), secondary_key.into());
        Self { name: name.into(), primary_key, secondary_key, ..Self::default() }
    }

    setters! {
        send: bool;
        listen: bool;
        manage: bool;
    }

    /// Returns whether another rule has the same name, rights and keys.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { name, send, listen, manage, primary_key, secondary_key, created: _, modified: _ } = other;
        (&self.name, self.send, self.listen, self.manage) == (name, *send, *listen, *manage)
            && (&self.primary_key, &self.secondary_key) == (primary_key, secondary_key)
    }

    /// Checks the rules of an entity.
    pub(super) fn check_all(rules: &[Self]) -> Result<(), InvalidArgument> {
        let refused = |setting, problem| Err(InvalidArgument::new(Field::Setting(setting), problem));
        if rules.len() > Self::MAX {
            return refused("authorization_rules", Problem::TooMany { limit: Self::MAX });
        }
        for (at, rule) in rules.iter().enumerate() {
            if rule.name.is_empty() {
                return refused("key_name", Problem::Empty);
            }
            if limits::is_longer_than(&rule.name, Self::MAX_NAME) {
                return refused("key_name", Problem::TooLong { limit: Self::MAX_NAME });
            }
            if rules[..at].iter().any(|before| before.name == rule.name) {
                return refused("key_name", Problem::Repeated);
            }
            if !(rule.send || rule.listen || rule.manage) {
                return refused("rights", Problem::Empty);
            }
            if rule.manage && !(rule.send && rule.listen) {
                return refused("rights", Problem::Malformed);
            }
            for (setting, key) in [("primary_key", &rule.primary_key), ("secondary_key", &rule.secondary_key)] {
                if !is_key(key) {
                    return refused(setting, Problem::Malformed);
                }
            }
        }
        Ok(())
    }
}

/// Whether a text is 32 bytes in Base64.
fn is_key(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len() == 44 && text.strip_suffix('=').is_some_and(|digits| digits.bytes().all(is_digit))
}

/// Shows no key.
impl fmt::Debug for AuthorizationRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRule")
            .field("name", &self.name)
            .field("send", &self.send)
            .field("listen", &self.listen)
            .field("manage", &self.manage)
            .field("created", &self.created)
            .field("modified", &self.modified)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: char) -> String {
        byte.to_string().repeat(43) + "="
    }

    fn rule(name: &str) -> AuthorizationRule {
        AuthorizationRule::new(name, key('p'), key('s')).send(true)
    }

    fn refused(rules: &[AuthorizationRule]) -> String {
        AuthorizationRule::check_all(rules).unwrap_err().to_string()
    }

    /// Rules: S-14.
    #[test]
    fn an_entity_has_at_most_12_rules_with_names_of_their_own() {
        let rules: Vec<_> = (0..13).map(|number| rule(&number.to_string())).collect();
        AuthorizationRule::check_all(&rules[..12]).unwrap();
        assert_eq!(refused(&rules), "authorization_rules are more than 12");
        assert_eq!(refused(&[rule("a"), rule("b"), rule("a")]), "key_name occurs twice");
        assert_eq!(refused(&[rule("")]), "key_name must not be empty");
        AuthorizationRule::check_all(&[rule(&"n".repeat(256))]).unwrap();
        assert_eq!(refused(&[rule(&"n".repeat(257))]), "key_name is longer than 256 UTF-16 code units");
    }

    /// Rules: S-14.
    #[test]
    fn manage_has_the_other_rights() {
        assert_eq!(refused(&[rule("a").send(false)]), "rights must not be empty");
        for (send, listen, allowed) in [(true, true, true), (true, false, false), (false, true, false)] {
            let rule = rule("a").send(send).listen(listen).manage(true);
            assert_eq!(AuthorizationRule::check_all(&[rule]).is_ok(), allowed, "{send} {listen}");
        }
    }

    /// Rules: S-14.
    #[test]
    fn a_key_is_32_bytes_in_base64_and_is_never_shown() {
        for bad in [String::new(), key('p')[1..].to_owned(), key('p') + "=", key('-'), "p".repeat(44), "é".repeat(22)]
        {
            let primary = AuthorizationRule::new("a", &*bad, key('s')).listen(true);
            assert_eq!(refused(&[primary]), "primary_key is malformed", "{bad}");
            let secondary = AuthorizationRule::new("a", key('p'), &*bad).listen(true);
            assert_eq!(refused(&[secondary]), "secondary_key is malformed", "{bad}");
        }
        let shown = format!("{:?}", rule("a"));
        assert!(shown.contains("\"a\"") && !shown.contains("ppp") && !shown.contains("sss"), "{shown}");
    }

    #[test]
    fn times_are_not_compared() {
        let mut later = rule("a");
        later.created = Some(Timestamp::from_millis(1));
        assert!(rule("a").is_same(&later) && !rule("a").is_same(&rule("a").listen(true)));
        assert!(!rule("a").is_same(&AuthorizationRule::new("a", key('p'), key('t')).send(true)));
    }
}
