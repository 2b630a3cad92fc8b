use std::borrow::Cow;

use crate::message::ApplicationProperties;

/// The names of application properties that a sender binds in addition, in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<Box<str>>);

impl Names {
    pub(crate) fn add(&mut self, name: Box<str>) {
        if let Err(at) = self.0.binary_search(&name) {
            self.0.insert(at, name);
        }
    }

    pub(crate) fn as_slice(&self) -> &[Box<str>] {
        &self.0
    }

    /// Writes the list into the property `list`, or removes that if there are none.
    pub(in crate::middleware) fn stamp(&self, list: &'static str, properties: &mut ApplicationProperties) {
        if self.0.is_empty() {
            properties.remove(list);
            return;
        }
        let names: Vec<_> = self.0.iter().map(|name| escaped(name)).collect();
        properties.insert(list, names.join(","));
    }
}

/// The names in the list of a message, escaped, and sorted for the search: a sender chooses how many there are.
pub(super) struct Listed<'l>(Vec<&'l str>);

impl<'l> Listed<'l> {
    pub(super) fn new(list: Option<&'l str>) -> Self {
        let mut names: Vec<_> = list.into_iter().flat_map(|list| list.split(',')).collect();
        names.sort_unstable();
        Self(names)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        !self.0.is_empty() && self.0.binary_search(&&*escaped(name)).is_ok()
    }
}

/// A name as it stands in a list: `,` is `%2C`, and `%` is `%25`.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['%', ',']) { name.replace('%', "%25").replace(',', "%2C").into() } else { name.into() }
}
