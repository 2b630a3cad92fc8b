//! Authentication and authorization of clients.
//!
//! An [`Authorizer`] decides on the credentials of SASL and on the tokens of `$cbs`. Its answer is a [`Grant`]: the
//! rights, and how long they last. The server compares the rights with what a link does: a sender needs
//! [`Rights::SEND`], and a receiver [`Rights::LISTEN`], also one that changes rules.

mod development;
mod keys;
mod rules;
mod sas;

use std::{borrow::Cow, error, fmt, ops::BitOr, time::Duration};

pub(crate) use self::rules::authorize as authorize_by_rule;
#[cfg(any(feature = "operations", feature = "page"))]
pub(crate) use self::sas::is_same_key;
pub use self::{
    development::AllowAll,
    keys::{SharedAccessKey, SharedAccessKeys},
};
use crate::entities::entity_of;

/// Decides what a client may do.
///
/// The calls should return at once: the connection waits for them.
pub trait Authorizer: Send + Sync + 'static {
    /// Authenticates a client by SASL. With [`Access::ByToken`] the client has to send a token to `$cbs` for each entity.
    ///
    /// # Errors
    /// The credentials are refused. SASL ends with the outcome `auth`, and the connection with it.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Access, Denied>;

    /// Authorizes a client by a token that it sent to `$cbs`. The grant is for the [audience](Token::audience).
    ///
    /// A token that is refused is accepted all the same if it is signed with a key of an
    /// [authorization rule](consign_core::administration::AuthorizationRule) of its entity, which gives its rights.
    ///
    /// # Errors
    /// The token is refused. The client gets the description with the status 401.
    fn authorize(&self, token: &Token<'_>) -> Result<Grant, Denied>;
}

/// What a client authenticates with by SASL.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Credentials<'a> {
    /// `ANONYMOUS`, `MSSBCBS` or `EXTERNAL`, or no SASL at all: the client sends tokens to `$cbs`.
    Anonymous,
    /// `PLAIN`: the name of a key, and the key.
    Plain {
        /// The name of the key.
        name: &'a str,
        /// The key.
        key: &'a str,
    },
}

/// Shows no name and no key.
impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Plain { .. } => "Plain",
        })
    }
}

/// The result of an authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The client needs a token for each entity.
    ByToken,
    /// The client needs no token: the grant is for all entities.
    Granted(Grant),
}

/// A token that a client sent to `$cbs`.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Token<'a> {
    /// The type, such as `servicebus.windows.net:sastoken` or `jwt`.
    pub token_type: &'a str,
    /// The resource that the token is for, such as `sb://host/queue` or `amqps://host:5671/topic/Subscriptions/s`.
    pub audience: &'a str,
    /// The token.
    pub token: &'a str,
}

impl<'a> Token<'a> {
    /// Creates a token.
    #[must_use]
    pub const fn new(token_type: &'a str, audience: &'a str, token: &'a str) -> Self {
        Self { token_type, audience, token }
    }
}

/// Shows the type and the audience, not the token.
impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("token_type", &self.token_type)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

/// Rights, and how long they last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The rights.
    pub rights: Rights,
    /// How long the grant lasts from now on; none is without end. Links that need it are detached then.
    pub valid_for: Option<Duration>,
    /// Whether it is for an entity alone, and not for the other entities whose paths begin with its own.
    pub(crate) is_of_entity: bool,
}

impl Grant {
    /// Creates a grant without an end.
    #[must_use]
    pub const fn new(rights: Rights) -> Self {
        Self { rights, valid_for: None, is_of_entity: false }
    }

    /// Sets how long the grant lasts.
    #[must_use]
    pub const fn valid_for(mut self, valid_for: Duration) -> Self {
        self.valid_for = Some(valid_for);
        self
    }

    pub(crate) const fn of_entity(mut self) -> Self {
        self.is_of_entity = true;
        self
    }
}

/// Returns whether a path below an entity, without a slash at its beginning, is of the entity and not of another one.
pub(crate) fn is_part(below: &str) -> bool {
    const PARTS: [&str; 4] = ["messages", "subscriptions", "$deadletterqueue", "$transfer"];
    below.is_empty() || below.split('/').next().is_some_and(|part| PARTS.contains(&part))
}

/// The rights of a client: any of Send, Listen and Manage. Manage implies the other two.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// No rights.
    pub const NONE: Self = Self(0);
    /// To send, to schedule and to cancel what is scheduled.
    pub const SEND: Self = Self(1);
    /// To receive, to settle, to peek, and to change rules.
    pub const LISTEN: Self = Self(2);
    /// To change entities, and the other two.
    pub const MANAGE: Self = Self(7);

    /// Returns whether these include all of `others`.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Self::SEND, "Send"), (Self::LISTEN, "Listen"), (Self::MANAGE, "Manage")];
        let mut held = names.iter().filter(|(right, _)| self.contains(*right)).map(|(_, name)| *name);
        f.write_str(held.next().unwrap_or("none"))?;
        held.try_for_each(|name| write!(f, ", {name}"))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

/// The refusal of credentials or of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    description: Cow<'static, str>,
}

impl Denied {
    /// Creates a refusal. The client reads the description, which must not have a key or a signature.
    #[must_use]
    pub fn new(description: impl Into<Cow<'static, str>>) -> Self {
        Self { description: description.into() }
    }

    /// Returns why, for the client.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

impl error::Error for Denied {}

/// Whether a token whose signed resource is this one is for its audience.
fn covers(resource: &str, audience: &str) -> bool {
    includes(&entity_of(path_of_resource(resource, audience)), &entity_of(audience))
}

/// The address of a signed resource. Without a scheme it may begin with the host: `example.servicebus.windows.net/orders`.
///
/// The client chooses the host of the audience, so any other first segment is that of an entity's path.
fn path_of_resource<'r>(resource: &'r str, audience: &str) -> &'r str {
    let host = |text: &str| text.split([':', '/', '?']).next().map(str::to_ascii_lowercase);
    let (first, rest) = resource.split_once('/').unwrap_or((resource, ""));
    match audience.split_once("://") {
        Some((_, of)) if host(first) == host(of) && first.to_ascii_lowercase().contains(".servicebus.") => rest,
        _ => resource,
    }
}

/// Whether an entity is another one or below it, by their keys.
fn includes(above: &str, entity: &str) -> bool {
    above.is_empty() || entity.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manage_implies_send_and_listen() {
        assert!(Rights::MANAGE.contains(Rights::SEND | Rights::LISTEN));
        assert!(!(Rights::SEND | Rights::LISTEN).contains(Rights::MANAGE));
        assert_eq!(Rights::MANAGE.to_string(), "Send, Listen, Manage");
        assert_eq!(Rights::NONE.to_string(), "none");
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!(
            "{:?} {:?}",
            Credentials::Plain { name: "canary", key: "canary" },
            Token::new("sastoken", "sb://host/q", "canary")
        );
        assert!(!shown.contains("canary"), "{shown}");
    }
}
