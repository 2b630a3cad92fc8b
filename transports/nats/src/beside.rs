//! The stream beside an entity.

use crate::wire;

/// The stream beside an entity: dead letters, deferred messages, notes and sessions.
#[derive(Clone)]
pub(crate) struct Beside {
    pub(crate) stream: String,
    base: String,
    /// As `base`, unless the numbers of the entity may begin again with another stream of its name.
    root: String,
    incarnation: Option<String>,
}

impl Beside {
    pub(crate) fn new(stream: &str, root: &str) -> Self {
        let base = format!("{root}.x");
        Self { stream: format!("{stream}_x"), root: base.clone(), base, incarnation: None }
    }

    /// Returns the stream beside one that another client may delete and create again. Each of these has records of its own.
    pub(crate) fn of_incarnation(stream: &str, root: &str, incarnation: &str) -> Self {
        let beside = Self::new(stream, root);
        Self { root: format!("{}.{incarnation}", beside.base), incarnation: Some(incarnation.into()), ..beside }
    }

    /// Returns the id under which a dead letter is stored, once.
    pub(crate) fn dead_id(&self, number: u64) -> String {
        match &self.incarnation {
            Some(incarnation) => format!("dead-{incarnation}-{number}"),
            None => format!("dead-{number}"),
        }
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn subjects(&self) -> String {
        format!("{}.>", self.base)
    }

    pub(crate) fn dead(&self, number: u64) -> String {
        match &self.incarnation {
            Some(incarnation) => format!("{}.dead.{incarnation}-{number}", self.base),
            None => format!("{}.dead.{number}", self.base),
        }
    }

    /// Returns the subject of all dead letters, those of former streams too.
    pub(crate) fn any_dead(&self) -> String {
        format!("{}.dead.*", self.base)
    }

    pub(crate) fn deferred(&self, number: impl std::fmt::Display) -> String {
        format!("{}.deferred.{number}", self.root)
    }

    pub(crate) fn rules(&self) -> String {
        format!("{}.rules", self.root)
    }

    pub(crate) fn clock(&self) -> String {
        format!("{}.clock", self.root)
    }

    pub(crate) fn session(&self, id: &str) -> String {
        format!("{}.session.{}", self.root, wire::token(id))
    }

    pub(crate) fn any_session(&self) -> String {
        format!("{}.session.*", self.root)
    }

    pub(crate) fn mark_of_session(&self, id: &str, number: impl std::fmt::Display) -> String {
        format!("{}.mark.of.{}.{number}", self.root, wire::token(id))
    }
}
