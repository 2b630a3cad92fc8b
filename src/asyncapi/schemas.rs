//! The schemas that are registered, and the messages that get them.

use std::{collections::HashMap, fmt};

use super::{AsyncApi, definitions::BothSchemas};
use crate::{BuildError, BuildErrorKind as Kind};

/// Schemas by the names of messages: of the messages themselves, or of the replies to them.
#[derive(Debug)]
pub(super) struct Schemas {
    of: Of,
    registered: Vec<Registered>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Messages,
    Replies,
}

/// A schema, and the messages that have it.
#[derive(Debug)]
struct Registered {
    /// The destination of the messages; any if there is none.
    destination: Option<String>,
    message: String,
    schema: BothSchemas,
}

/// Gives messages their schemas, and finds mistakes.
pub(super) struct Matching<'a> {
    schemas: &'a Schemas,
    places: HashMap<(Option<&'a str>, &'a str), usize>,
    is_used: Vec<bool>,
    /// Whether there is a message of the name [`AsyncApi::OTHER`], and one that stands for all others: at a destination, and
    /// anywhere.
    others: HashMap<Option<&'a str>, (bool, bool)>,
}

impl Schemas {
    pub(super) fn new(of: Of) -> Self {
        Self { of, registered: Vec::new() }
    }

    pub(super) fn register(&mut self, destination: Option<String>, message: String, schema: BothSchemas) {
        self.registered.push(Registered { destination, message, schema });
    }

    /// Begins to match them with messages. Fails if there are two for one message.
    pub(super) fn matching(&self) -> Result<Matching<'_>, BuildError> {
        let mut places = HashMap::new();
        for (place, registered) in self.registered.iter().enumerate() {
            if places.insert(registered.key(), place).is_some() {
                let to = match self.of {
                    Of::Messages => "",
                    Of::Replies => "the reply to ",
                };
                let advice = format!("{to}{registered} has two schemas: register one");
                return Err(BuildError::new(Kind::DuplicateSchema, advice));
            }
        }
        let is_used = vec![false; self.registered.len()];
        Ok(Matching { schemas: self, places, is_used, others: HashMap::new() })
    }
}

impl<'a> Matching<'a> {
    /// The schema of a message of this name, if there is one. That of the destination takes precedence.
    pub(super) fn find(&mut self, address: &'a str, name: &str, is_fallback: bool) -> Option<&'a BothSchemas> {
        let mut found = None;
        for of in [None, Some(address)] {
            // What the name alone stands for is only told from messages that would get that schema.
            let is_own = of.is_none() && self.places.contains_key(&(Some(address), name));
            if name == AsyncApi::OTHER && !is_own {
                let (named, fallback) = self.others.entry(of).or_default();
                *(if is_fallback { fallback } else { named }) = true;
            }
            if let Some(&place) = self.places.get(&(of, name)) {
                self.is_used[place] = true;
                found = Some(&self.schemas.registered[place].schema);
            }
        }
        found
    }

    /// Fails if a schema stands for two messages, or for none.
    pub(super) fn finish(self) -> Result<(), BuildError> {
        let Self { schemas, places, is_used, others } = self;
        if others.iter().any(|(of, both)| *both == (true, true) && places.contains_key(&(*of, AsyncApi::OTHER))) {
            let advice = format!(
                "`{}` is a subject and the name of all other messages: leave the schema out, or rename the subject",
                AsyncApi::OTHER
            );
            return Err(BuildError::new(Kind::DuplicateSchema, advice));
        }
        let unused = schemas.registered.iter().zip(&is_used).filter(|(_, is_used)| !**is_used).map(|(one, _)| one);
        let Some(unused) = unused.min_by_key(|one| (&one.message, &one.destination)) else { return Ok(()) };
        let advice = match schemas.of {
            Of::Messages => format!(
                "a schema is registered for {unused}, and no pipeline has that message: name one of its messages"
            ),
            Of::Replies => format!(
                "a reply is registered for {unused}, and no responder answers that message: name one that `answer` or \
                 `fallback` of a responder takes"
            ),
        };
        Err(BuildError::new(Kind::UnknownMessage, advice))
    }
}

impl Registered {
    fn key(&self) -> (Option<&str>, &str) {
        (self.destination.as_deref(), &self.message)
    }
}

/// For people.
impl fmt::Display for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.message)?;
        match &self.destination {
            Some(destination) => write!(f, " of `{destination}`"),
            None => Ok(()),
        }
    }
}
