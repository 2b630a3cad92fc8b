//! What an envelope adds, within the limits of a message.

use crate::message::{
    Properties, PropertyValue,
    limits::{ALL_PROPERTIES_BYTES, PROPERTY_BYTES},
};

/// The end of a text that was cut.
pub(super) const CUT: &str = " ... [cut]";

/// A text up to this is not cut: bytes.
const SHORT: usize = 1_024;

/// Cuts the longest texts among the properties that were `added`, so that each and all of them are within the limits. Where
/// that would cut short ones nothing is cut, and [`Properties::check`] refuses them.
pub(super) fn fit(properties: &mut Properties, added: &[Box<str>]) {
    let size = properties.size();
    let application = properties.application_properties();
    let mut fixed = 0;
    let mut texts = Vec::new();
    for name in added {
        match application.get(name) {
            Some(PropertyValue::String(text)) => {
                fixed += name.len();
                texts.push((name, text.len()));
            }
            other => fixed += name.len() + other.map_or(0, PropertyValue::size),
        }
    }
    let long: usize = texts.iter().map(|(_, length)| length).sum();
    // What a transport delivered beyond the limit is kept.
    let others = size - fixed - long;
    let room = if others > ALL_PROPERTIES_BYTES { ALL_PROPERTIES_BYTES } else { ALL_PROPERTIES_BYTES - others };
    let most = |name: &str, cap: usize| cap.min(PROPERTY_BYTES.saturating_sub(name.len()));
    let is_within =
        |cap| fixed + texts.iter().map(|(name, length)| most(name, cap).min(*length)).sum::<usize>() <= room;
    if !is_within(SHORT) {
        return;
    }
    let (mut cap, mut beyond) = (SHORT, PROPERTY_BYTES + 1);
    while beyond - cap > 1 {
        let middle = cap.midpoint(beyond);
        if is_within(middle) { cap = middle } else { beyond = middle }
    }
    let cuts = texts.into_iter().filter_map(|(name, length)| {
        let most = most(name, cap);
        (length > most && most >= SHORT).then_some((name, most))
    });
    for (name, most) in cuts.collect::<Vec<_>>() {
        if let Some(PropertyValue::String(text)) = properties.application_properties_mut().remove(name) {
            properties.application_properties_mut().insert(name.clone(), cut(&text, most));
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    let mut end = most - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    [&text[..end], CUT].concat()
}
