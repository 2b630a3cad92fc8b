//! From the properties of a message to the number of its handler.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::{
    check::{Entry, Takes},
    private::{NO_ROUTE, RouteNumber},
};
use crate::{Message, message::PropertyValue};

/// The handlers by name. Its names are those of the routes, so a sender cannot make one lookup longer than the routes allow,
/// and a fast hash without a key is safe.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Whether no name and no prefix is looked up.
    is_empty: bool,
    subjects: Names,
    /// The application property of the type, and the types, if messages do not have their type in the subject.
    types: Option<(&'static str, Names)>,
    /// The handlers of the messages that no name takes, by the prefix of their subject, the longest prefix first.
    fallbacks: Vec<(Box<str>, RouteNumber)>,
}

#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<Box<str>, usize, FxBuildHasher>,
    all: Vec<Name>,
}

#[derive(Debug)]
struct Name {
    text: Box<str>,
    route: RouteNumber,
    /// Its position among all entries: the later one takes a message that has a subject and a type.
    position: usize,
}

impl Lookup {
    pub(super) fn new(entries: &[Entry]) -> Self {
        let mut lookup = Self::default();
        for (position, entry) in entries.iter().enumerate() {
            match &entry.takes {
                Takes::Subject(subject) => lookup.subjects.insert(subject, entry.route, position),
                Takes::Types => {
                    let Some(table) = entry.tables.first() else { continue };
                    let names = match table.type_property() {
                        None => &mut lookup.subjects,
                        Some(property) => &mut lookup.types.get_or_insert_with(|| (property, Names::default())).1,
                    };
                    for of in table.types() {
                        for name in [of.name()].iter().chain(of.other_names()) {
                            names.insert(name, entry.route, position);
                        }
                    }
                }
                Takes::Others { prefix } if entry.route != NO_ROUTE => {
                    lookup.fallbacks.push((prefix.clone(), entry.route));
                }
                Takes::Others { .. } => {}
            }
        }
        lookup.is_empty = lookup.subjects.all.is_empty() && lookup.types.is_none() && lookup.fallbacks.is_empty();
        lookup.fallbacks.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        lookup
    }

    /// Returns the number of the message's handler. `last` is the place of the name that was found before, which most
    /// often is the next one too.
    #[inline]
    pub(super) fn find(&self, message: &Message, last: &mut usize) -> RouteNumber {
        if self.is_empty {
            return NO_ROUTE;
        }
        // The name before, unless the type of a message could be elsewhere.
        if let (Some(subject), None) = (message.subject(), &self.types)
            && let Some(name) = self.subjects.all.get(*last)
            && *name.text == *subject
        {
            return name.route;
        }
        self.find_other(message, last)
    }

    fn find_other(&self, message: &Message, last: &mut usize) -> RouteNumber {
        let subject = message.subject();
        let by_subject = subject.and_then(|subject| self.subjects.find(subject));
        if let Some((place, _)) = by_subject {
            *last = place;
        }
        let by_subject = by_subject.map(|(_, name)| name);
        let by_type = self.types.as_ref().and_then(|(property, names)| {
            let named = message.application_properties().get(property).and_then(PropertyValue::as_str);
            names.find(named?).map(|(_, name)| name)
        });
        match by_subject.into_iter().chain(by_type).max_by_key(|name| name.position) {
            Some(name) => name.route,
            None => self.fallback(subject),
        }
    }

    fn fallback(&self, subject: Option<&str>) -> RouteNumber {
        let subject = subject.unwrap_or_default();
        let found = self.fallbacks.iter().find(|(prefix, _)| subject.starts_with(&**prefix));
        found.map_or(NO_ROUTE, |(_, route)| *route)
    }
}

impl Names {
    fn insert(&mut self, name: &str, route: RouteNumber, position: usize) {
        self.by_name.insert(name.into(), self.all.len());
        self.all.push(Name { text: name.into(), route, position });
    }

    fn find(&self, name: &str) -> Option<(usize, &Name)> {
        let place = *self.by_name.get(name)?;
        Some((place, self.all.get(place)?))
    }
}
