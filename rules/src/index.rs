use std::{collections::HashMap, sync::Arc};

use consign_core::message::Properties;

use super::{Filter, correlation::Key, entry::Entry};

/// Rules by what a message must have to be taken. A correlation filter is found by its most telling property; what has
/// none is tried for each message.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// By the property's value; one map for each [`Key`].
    by_text: [HashMap<Box<str>, Vec<Arc<Entry>>>; Key::ALL.len()],
    others: Vec<Arc<Entry>>,
}

impl Index {
    pub(super) fn insert(&mut self, entry: Arc<Entry>) {
        match most_telling(&entry) {
            Some((key, text)) => self.by_text[key as usize].entry(text.into()).or_default().push(entry),
            None => self.others.push(entry),
        }
    }

    pub(super) fn remove(&mut self, entry: &Arc<Entry>) {
        let differs = |other: &Arc<Entry>| !Arc::ptr_eq(other, entry);
        let Some((key, text)) = most_telling(entry) else { return self.others.retain(differs) };
        let map = &mut self.by_text[key as usize];
        if let Some(bucket) = map.get_mut(text) {
            bucket.retain(differs);
            if bucket.is_empty() {
                map.remove(text);
            }
        }
    }

    /// Every rule that may match a message with these properties, in no order.
    pub(super) fn candidates<'a>(&'a self, properties: &'a Properties) -> impl Iterator<Item = &'a Entry> {
        let found = Key::ALL.into_iter().filter_map(move |key| {
            let map = &self.by_text[key as usize];
            // Most maps are empty, and an empty one is no reason to hash.
            if map.is_empty() { None } else { map.get(key.of(properties)?) }
        });
        self.others.iter().chain(found.flatten()).map(|entry| &**entry)
    }
}

fn most_telling(entry: &Entry) -> Option<(Key, &str)> {
    match entry.rule.filter() {
        Filter::Correlation(filter) => filter.most_telling(),
        _ => None,
    }
}
