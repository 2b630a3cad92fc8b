//! The checks when a router is built.

use std::collections::{HashMap, HashSet};

use super::private::RouteNumber;
use crate::{BuildError, BuildErrorKind as Kind, message_types::TypeTable};

/// A route, and the types of its handler's arguments.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) takes: Takes,
    pub(super) tables: Vec<&'static TypeTable>,
    pub(super) route: RouteNumber,
    /// Whether what its handler returns is sent as a reply.
    pub(super) is_answered: bool,
    /// The prefix before types, which have names of their own.
    prefix: Box<str>,
}

impl Entry {
    pub(super) fn new(takes: Takes, tables: Vec<&'static TypeTable>, route: RouteNumber) -> Self {
        Self { takes, tables, route, is_answered: false, prefix: "".into() }
    }

    /// The entry among others, with a prefix, and with its handler after the first `count` ones.
    pub(super) fn nested(mut self, prefix: &str, count: usize) -> Self {
        self.route += count;
        let name = match &mut self.takes {
            Takes::Subject(subject) => subject,
            Takes::Types => &mut self.prefix,
            Takes::Others { prefix } => prefix,
        };
        *name = [prefix, name].concat().into();
        self
    }
}

/// What a route takes.
#[derive(Clone, Debug)]
pub(super) enum Takes {
    Subject(Box<str>),
    Types,
    /// Whatever no other entry takes, and has a subject that begins with this.
    Others {
        prefix: Box<str>,
    },
}

fn refused(kind: Kind, name: &str, advice: impl Into<Box<str>>) -> BuildError {
    BuildError::new(kind, advice).named(name)
}

pub(super) fn check(entries: &[Entry], has_codec: impl Fn(&str) -> bool) -> Result<(), BuildError> {
    let mut subjects = HashSet::new();
    for entry in entries {
        if let Takes::Subject(subject) = &entry.takes
            && !subjects.insert(&**subject)
        {
            let advice = format!("two routes have the subject {subject:?}; remove one of them");
            return Err(refused(Kind::DuplicateRoute, subject, advice));
        }
    }
    let mut prefixes = HashSet::new();
    for entry in entries {
        if let Takes::Others { prefix } = &entry.takes
            && !prefixes.insert(&**prefix)
        {
            let advice = match &**prefix {
                "" => "two handlers are the fallback: remove one of them".to_owned(),
                prefix => format!("two handlers are the fallback below {prefix:?}: remove one of them"),
            };
            return Err(refused(Kind::SeveralFallbacks, prefix, advice));
        }
        if !entry.prefix.is_empty() {
            let advice = format!(
                "a handler of types is nested below {:?}, and types have names of their own: add it by `merge`",
                entry.prefix
            );
            return Err(refused(Kind::NestedTypes, &entry.prefix, advice));
        }
        for table in &entry.tables {
            table.check(&has_codec).map_err(|error| error.named(table.name()))?;
        }
        if let [first, second, ..] = &*entry.tables {
            let advice = format!(
                "a handler takes both `{}` and `{}`, but a message has one type: take one of them",
                first.name(),
                second.name()
            );
            return Err(refused(Kind::SeveralTypes, first.name(), advice));
        }
    }
    let mut taken = HashMap::new();
    let mut place = None;
    for entry in entries.iter().filter(|entry| matches!(entry.takes, Takes::Types)) {
        let Some(table) = entry.tables.first() else {
            let advice = "a handler of `types` has no argument that derives `MessageTypes`: add one";
            return Err(refused(Kind::NoTypes, "", advice));
        };
        let (first, property) = *place.get_or_insert((table.name(), table.type_property()));
        if property != table.type_property() {
            let advice = format!("`{first}` and `{}` read the type from different properties: use one", table.name());
            return Err(refused(Kind::SeveralProperties, table.name(), advice));
        }
        for of in table.types() {
            for name in [of.name()].iter().chain(of.other_names()) {
                if let Some(other) = taken.insert(*name, table.name()) {
                    let advice =
                        format!("`{other}` and `{}` both have the type `{name}`: remove it from one", table.name());
                    return Err(refused(Kind::TypeTakenTwice, name, advice));
                }
                if property.is_none() && subjects.contains(name) {
                    let advice = format!(
                        "a route has the subject `{name}`, which is a type of `{}`: remove one of them",
                        table.name()
                    );
                    return Err(refused(Kind::TypeTakenTwice, name, advice));
                }
            }
        }
    }
    Ok(())
}
