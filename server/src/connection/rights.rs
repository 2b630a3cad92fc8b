//! What the client of a connection may do.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::{
    auth::{Access, Grant, Rights, is_part},
    entities::entity_of,
};

/// The rights of a client: those of its authentication, and those of its tokens.
#[derive(Debug)]
pub(crate) struct Held {
    /// For all entities. None before the client is authenticated.
    everywhere: Option<Timed>,
    /// By the key of an entity. An entity includes what is below it.
    tokens: HashMap<String, Timed>,
    max_tokens: usize,
}

#[derive(Clone, Copy, Debug)]
struct Timed {
    rights: Rights,
    until: Option<Instant>,
    is_of_entity: bool,
}

impl Timed {
    fn new(grant: &Grant, now: Instant) -> Self {
        // An instant that cannot be represented is never reached.
        let until = grant.valid_for.and_then(|valid| now.checked_add(valid));
        Self { rights: grant.rights, until, is_of_entity: grant.is_of_entity }
    }

    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl Held {
    pub(crate) fn new(max_tokens: usize) -> Self {
        Self { everywhere: None, tokens: HashMap::new(), max_tokens }
    }

    /// Takes the result of the authentication.
    pub(crate) fn authenticated(&mut self, access: &Access, now: Instant) {
        self.everywhere = Some(match access {
            Access::ByToken => Timed { rights: Rights::NONE, until: None, is_of_entity: false },
            Access::Granted(grant) => Timed::new(grant, now),
        });
    }

    /// Returns whether the client needs a token, and has none that holds.
    pub(crate) fn needs_token(&self, now: Instant) -> bool {
        let has_none = self.everywhere.is_some_and(|held| held.rights == Rights::NONE);
        has_none && !self.tokens.values().any(|token| token.holds(now))
    }

    /// Returns whether the client has a right.
    pub(crate) fn has_right(&self, now: Instant) -> bool {
        let mut held = self.everywhere.iter().chain(self.tokens.values());
        held.any(|held| held.rights != Rights::NONE && held.holds(now))
    }

    /// Returns whether the client has authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.everywhere.is_some()
    }

    /// Takes a token of an audience. False if there are too many.
    pub(crate) fn add(&mut self, audience: &str, grant: &Grant, now: Instant) -> bool {
        let key = entity_of(audience);
        if self.tokens.len() >= self.max_tokens && !self.tokens.contains_key(&key) {
            self.tokens.retain(|_, token| token.holds(now));
            if self.tokens.len() >= self.max_tokens {
                return false;
            }
        }
        self.tokens.insert(key, Timed::new(grant, now));
        true
    }

    /// Returns the rights for an entity, by its key.
    pub(crate) fn of(&self, entity: &str, now: Instant) -> Rights {
        let mut rights = self.everywhere.filter(|held| held.holds(now)).map_or(Rights::NONE, |held| held.rights);
        if self.tokens.is_empty() {
            return rights;
        }
        let mut key = Some(entity);
        while let Some(path) = key {
            let below = entity[path.len()..].trim_start_matches('/');
            let counts = |token: &&Timed| token.holds(now) && (!token.is_of_entity || is_part(below));
            if let Some(token) = self.tokens.get(path).filter(counts) {
                rights = rights | token.rights;
            }
            key = if path.is_empty() { None } else { Some(path.rsplit_once('/').map_or("", |(parent, _)| parent)) };
        }
        rights
    }

    /// Returns when the next of the rights ends.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.everywhere.iter().chain(self.tokens.values()).filter_map(|held| held.until).min()
    }

    /// Forgets what has ended. Returns whether anything had.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|_, token| token.holds(now));
        let mut expired = self.tokens.len() < before;
        if let Some(everywhere) = &mut self.everywhere
            && !everywhere.holds(now)
        {
            *everywhere = Timed { rights: Rights::NONE, until: None, is_of_entity: false };
            expired = true;
        }
        expired
    }
}

/// The longest time that a timer waits.
pub(crate) const FAR: Duration = Duration::from_secs(86_400 * 365);

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Held {
        let mut held = Held::new(3);
        held.authenticated(&Access::ByToken, Instant::now());
        held
    }

    /// Attacks: 76.
    #[tokio::test(start_paused = true)]
    async fn a_token_is_for_its_entity_and_what_is_below() {
        let (mut held, now) = (held(), Instant::now());
        assert!(held.add("sb://host/Orders", &Grant::new(Rights::LISTEN), now));
        assert_eq!(held.of("orders", now), Rights::LISTEN);
        assert_eq!(held.of("orders/$deadletterqueue", now), Rights::LISTEN);
        assert_eq!(held.of("orders2", now), Rights::NONE);
        assert!(held.add("amqps://host:5671/bills/$management", &Grant::new(Rights::SEND), now));
        assert_eq!(held.of("bills", now), Rights::SEND);
        assert!(held.add("sb://host/", &Grant::new(Rights::SEND), now));
        assert_eq!(held.of("orders", now), Rights::SEND | Rights::LISTEN);
        assert_eq!(held.of("others", now), Rights::SEND);
        assert!(!held.add("sb://host/fourth", &Grant::new(Rights::SEND), now));
    }

    /// Rules: G-55.
    #[tokio::test(start_paused = true)]
    async fn the_rights_of_a_rule_are_for_its_entity_alone() {
        let (mut held, now) = (held(), Instant::now());
        assert!(held.add("sb://host/a", &Grant::new(Rights::SEND).of_entity(), now));
        for of_it in ["a", "a/$deadletterqueue", "a/$transfer/$deadletterqueue", "a/subscriptions/s"] {
            assert_eq!(held.of(of_it, now), Rights::SEND, "{of_it}");
        }
        for other in ["", "a/b", "a/b/subscriptions/s", "ab"] {
            assert_eq!(held.of(other, now), Rights::NONE, "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rights_end_with_their_token() {
        let (mut held, now) = (held(), Instant::now());
        let minute = Duration::from_secs(60);
        held.add("sb://host/q", &Grant::new(Rights::SEND).valid_for(minute), now);
        assert_eq!(held.next_expiry(), Some(now + minute));
        assert!(!held.expire(now + minute / 2));
        assert_eq!(held.of("q", now + minute), Rights::NONE);
        assert!(held.expire(now + minute));
        assert_eq!(held.next_expiry(), None);
    }
}
