//! The texts of a dead letter within the limits of its properties.

use std::borrow::Cow;

use super::{DeadLetter, DeadLetterReason};
use crate::message::{ApplicationProperties, Properties, PropertyValue, limits};

/// Does what [`DeadLetter::fit`] says.
pub(super) fn fit(dead_letter: &mut DeadLetter, present: &Properties) {
    if let DeadLetterReason::Application(code) = &mut dead_letter.reason {
        cut(code, limits::DEAD_LETTER_TEXT, limits::PROPERTY_BYTES - DeadLetter::REASON.len());
    }
    cut(&mut dead_letter.description, limits::DEAD_LETTER_TEXT, limits::PROPERTY_BYTES - DeadLetter::DESCRIPTION.len());

    let mut space = Space::beside(present);
    space.bytes = space.bytes.saturating_sub(DeadLetter::REASON.len() + dead_letter.reason.as_str().len());
    let mut changes = std::mem::take(&mut dead_letter.changes).into_properties();
    let mut kept = ApplicationProperties::new();
    if let Some(trail) = changes.remove(DeadLetter::TRAIL).filter(|trail| space.take(DeadLetter::TRAIL, trail.size())) {
        kept.insert(DeadLetter::TRAIL, trail);
    }
    let left = space.bytes.saturating_sub(DeadLetter::DESCRIPTION.len());
    if left < dead_letter.description.len() {
        cut(&mut dead_letter.description, limits::DEAD_LETTER_TEXT, left);
    }
    if !dead_letter.description.is_empty() && !space.take(DeadLetter::DESCRIPTION, dead_letter.description.len()) {
        dead_letter.description = Cow::Borrowed("");
    }
    for (name, value) in changes.iter() {
        if name.len() + value.size() <= limits::PROPERTY_BYTES && space.take(name, value.size()) {
            kept.insert(name, value.clone());
        }
    }
    dead_letter.changes = kept.into();
}

/// What is left for a dead letter beside the properties of its message.
struct Space<'p> {
    present: &'p ApplicationProperties,
    bytes: usize,
    places: usize,
}

impl<'p> Space<'p> {
    fn beside(properties: &'p Properties) -> Self {
        let present = properties.application_properties();
        let size_of = |name| present.get(name).map_or(0, |value: &PropertyValue| name.len() + value.size());
        let replaced = size_of(DeadLetter::REASON) + size_of(DeadLetter::DESCRIPTION);
        Self {
            present,
            bytes: limits::ALL_PROPERTIES_BYTES.saturating_sub(properties.size().saturating_sub(replaced)),
            places: limits::PROPERTIES.saturating_sub(present.len()),
        }
    }

    /// Reserves the space for one property. A name that is present needs no further place.
    fn take(&mut self, name: &str, size: usize) -> bool {
        let place = usize::from(self.present.get(name).is_none());
        let bytes = name.len() + size;
        let fits = bytes <= self.bytes && place <= self.places;
        if fits {
            self.bytes -= bytes;
            self.places -= place;
        }
        fits
    }
}

/// Cuts `text` to `units` UTF-16 code units and `bytes` bytes, on a character, with a mark where something is missing.
fn cut(text: &mut Cow<'static, str>, units: usize, bytes: usize) {
    const MARK: &str = "…";
    if text.len() <= bytes && !limits::is_longer_than(text, units) {
        return;
    }
    if bytes < MARK.len() {
        *text = Cow::Borrowed("");
        return;
    }
    let (mut unit, mut end) = (0, 0);
    for char in text.chars() {
        unit += char.len_utf16();
        if unit + 1 > units || end + char.len_utf8() + MARK.len() > bytes {
            break;
        }
        end += char.len_utf8();
    }
    *text = Cow::Owned(format!("{}{MARK}", &text[..end]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(mut dead_letter: DeadLetter, present: usize) -> DeadLetter {
        let mut properties = Properties::new();
        properties.set_subject("s".repeat(present));
        dead_letter.fit(&properties);
        dead_letter
    }

    fn size(dead_letter: &DeadLetter) -> usize {
        let description = dead_letter.description.len();
        DeadLetter::REASON.len()
            + dead_letter.reason.as_str().len()
            + if description == 0 { 0 } else { DeadLetter::DESCRIPTION.len() + description }
            + dead_letter.changes.properties().map_or(0, ApplicationProperties::size)
    }

    /// Rules: P-44.
    #[test]
    fn a_description_is_cut_on_a_character() {
        for text in ["x".repeat(1 << 20), "語".repeat(1 << 18), "🦀".repeat(1 << 18)] {
            let cut = fitted(DeadLetter::new(DeadLetterReason::HandlerPermanent, text), 0).description;
            let units = cut.encode_utf16().count();
            assert!(cut.ends_with('…') && (4_095..=4_096).contains(&units), "{units}");
        }
    }

    #[test]
    fn a_text_that_is_cut_has_a_mark_where_there_is_space_for_it() {
        for (text, units, bytes, expected) in [
            ("abcd", 4, 4, "abcd"),
            ("abcde", 4, 9, "abc…"),
            ("abcde", 9, 4, "a…"),
            ("abcde", 9, 3, "…"),
            ("abcde", 9, 2, ""),
            ("語語語", 9, 6, "語…"),
            ("語語語", 9, 5, "…"),
            ("🦀🦀🦀", 4, 99, "🦀…"),
        ] {
            let mut cut = Cow::Borrowed(text);
            super::cut(&mut cut, units, bytes);
            assert_eq!(cut, expected, "{text} to {units} units and {bytes} bytes");
        }
    }

    #[test]
    fn the_least_important_part_is_cut_first() {
        let full = || {
            let mut dead_letter = DeadLetter::new(DeadLetterReason::DeserializationFailed, "d".repeat(4_000));
            let changes: ApplicationProperties =
                [(DeadLetter::TRAIL, "t".repeat(100)), ("more", "m".repeat(1_000))].into_iter().collect();
            dead_letter.changes = changes.into();
            dead_letter
        };
        for present in [0, 60_000, 61_500, 62_000, 65_000, 65_400, 65_480] {
            let cut = fitted(full(), present);
            assert!(present + size(&cut) <= limits::ALL_PROPERTIES_BYTES, "{present}");
            let has = |key| cut.changes.properties().is_some_and(|properties| properties.get(key).is_some());
            assert_eq!(has("more"), present <= 60_000, "{present}");
            assert_eq!(has(DeadLetter::TRAIL), present <= 65_000, "{present}");
        }
        let left = limits::ALL_PROPERTIES_BYTES - size(&full());
        assert_eq!((fitted(full(), left), fitted(full(), left + 1) == full()), (full(), false));
    }

    #[test]
    fn the_texts_of_an_earlier_dead_letter_are_replaced() {
        let mut properties = Properties::new();
        let application = properties.application_properties_mut();
        application.insert(DeadLetter::REASON, DeadLetterReason::TtlExpired.as_str());
        application.insert(DeadLetter::DESCRIPTION, "d".repeat(4_000));
        properties.set_subject("s".repeat(limits::ALL_PROPERTIES_BYTES - properties.size()));
        let mut dead_letter = DeadLetter::max_delivery_count_exceeded(10_u32, None);
        dead_letter.fit(&properties);
        assert_eq!(dead_letter, DeadLetter::max_delivery_count_exceeded(10_u32, None));
        dead_letter.write_to(properties.application_properties_mut());
        properties.check().unwrap();
    }

    #[test]
    fn there_is_a_reason_beside_the_most_properties() {
        for (present, kept) in [(1_022, (true, true)), (1_023, (true, false)), (1_024, (false, false))] {
            let mut properties = Properties::new();
            *properties.application_properties_mut() = (0..present).map(|i| (i.to_string(), true)).collect();
            let mut dead_letter = DeadLetter::new(DeadLetterReason::DeserializationFailed, "why");
            dead_letter.changes =
                [(DeadLetter::TRAIL, "json;exact;Syntax;1:1")].into_iter().collect::<ApplicationProperties>().into();
            dead_letter.fit(&properties);
            assert_eq!((!dead_letter.changes.is_empty(), !dead_letter.description.is_empty()), kept, "{present}");
        }
    }
}
