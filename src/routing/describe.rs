use std::fmt;

use consign_codecs::{CodecSet, DecisionTable};
use serde::Serialize;

use super::{Router, check::Takes};
use crate::{message_types::TypeTable, rpc::RepliesDescription};

/// The description of a router, as data, and by `Display` as text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RouterDescription {
    /// The subjects that have a route, in the order in which they were added.
    pub subjects: Vec<String>,
    /// The types that have a handler.
    pub types: Vec<TypeTable>,
    /// Whether a handler gets all other messages. Else they are dead-lettered, except for those of `nested_fallbacks`.
    pub has_otherwise: bool,
    /// The prefixes of nested routes with a fallback, which gets all other messages whose subject begins so.
    pub nested_fallbacks: Vec<String>,
    /// How it replies, if it is in a [`Responder`](crate::rpc::Responder).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<RepliesDescription>,
    /// The codecs of the handlers.
    pub codecs: DecisionTable,
}

/// A [`Router`], or a responder with one in it, as a bound whose error says what to do.
#[diagnostic::on_unimplemented(
    message = "call `.build()?` on the router first, or pass another service to `service`: this is not a router that is built",
    label = "not a `Router`"
)]
pub trait BuiltRouter {
    /// Returns the description of the router.
    fn description(&self) -> RouterDescription;
}

impl<S, C: CodecSet, R> BuiltRouter for Router<S, C, R> {
    fn description(&self) -> RouterDescription {
        self.describe()
    }
}

impl<S, C: CodecSet, R> Router<S, C, R> {
    /// Returns the description of the router.
    #[must_use]
    pub fn describe(&self) -> RouterDescription {
        let (mut subjects, mut types, mut has_otherwise) = (Vec::new(), Vec::new(), false);
        let mut nested_fallbacks = Vec::new();
        for entry in &*self.table.entries {
            match &entry.takes {
                Takes::Subject(subject) => subjects.push(subject.to_string()),
                Takes::Types => types.extend(entry.tables.iter().map(|table| **table)),
                Takes::Others { prefix } if prefix.is_empty() => has_otherwise = true,
                Takes::Others { prefix } => nested_fallbacks.push(prefix.to_string()),
            }
        }
        let codecs = self.cx.codecs().describe().table();
        RouterDescription { subjects, types, has_otherwise, nested_fallbacks, replies: None, codecs }
    }

    /// The subjects whose handlers reply, and whether that of all other messages does.
    pub(crate) fn answered(&self) -> (Vec<String>, bool) {
        let (mut subjects, mut has_otherwise) = (Vec::new(), false);
        for entry in self.table.entries.iter().filter(|entry| entry.is_answered) {
            match &entry.takes {
                Takes::Subject(subject) => subjects.push(subject.to_string()),
                Takes::Others { .. } => has_otherwise = true,
                Takes::Types => {}
            }
        }
        (subjects, has_otherwise)
    }
}

impl fmt::Display for RouterDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "routes")?;
        for subject in &self.subjects {
            write!(f, "\n  subject {subject:?}")?;
        }
        for table in &self.types {
            write!(f, "\n  {}", table.to_string().replace('\n', "\n  "))?;
        }
        for prefix in &self.nested_fallbacks {
            write!(f, "\n  others of {prefix:?}: a handler")?;
        }
        let others = if self.has_otherwise { "a handler" } else { "dead letter, UnknownMessageType" };
        write!(f, "\n  others: {others}")?;
        if let Some(replies) = &self.replies {
            write!(f, "\n{replies}")?;
        }
        write!(f, "\n{}", self.codecs)
    }
}
