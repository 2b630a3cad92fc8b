//! Application properties as JSON in a form.

use std::collections::BTreeMap;

use consign::{dead_letters::RESUBMIT_COUNT, middleware::retry::RetryHistory, settlement::DeadLetter};
use consign_core::{
    message::{ApplicationProperties, Properties, PropertyValue},
    wire::json::{As, Natural},
};

use crate::page::error::PageError;

/// Those that a resubmission removes or sets.
const OF_DEAD_LETTERS: [&str; 6] = [
    DeadLetter::REASON,
    DeadLetter::DESCRIPTION,
    DeadLetter::TRAIL,
    RetryHistory::PROPERTY,
    Properties::ORIGINAL_MESSAGE_ID,
    RESUBMIT_COUNT,
];

/// The properties of a copy, as an object on several lines.
pub(super) fn to_json(properties: &ApplicationProperties) -> String {
    let of_copy = properties.iter().filter(|(name, _)| !OF_DEAD_LETTERS.contains(name));
    let of_copy: BTreeMap<_, _> = of_copy.map(|(name, value)| (name, As::<Natural, _>::new(value))).collect();
    // Every value has a form in JSON.
    serde_json::to_string_pretty(&of_copy).unwrap_or_default()
}

pub(super) fn from_json(text: &str) -> Result<ApplicationProperties, PageError> {
    if text.trim().is_empty() {
        return Ok(ApplicationProperties::new());
    }
    let read: BTreeMap<String, As<Natural, PropertyValue>> = serde_json::from_str(text)
        .map_err(|error| PageError::invalid(format!("The application properties are not a JSON object: {error}.")))?;
    Ok(read.into_iter().map(|(name, value)| (name, value.into_inner())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_keep_their_types_and_those_of_dead_letters_are_left_out() {
        let properties: ApplicationProperties = [
            ("a", PropertyValue::from("text")),
            ("b", PropertyValue::from(5_i32)),
            ("c", PropertyValue::from(5_u8)),
            ("d", PropertyValue::Uuid([7; 16])),
            ("e", PropertyValue::from(0.5_f32)),
            ("f", PropertyValue::Null),
        ]
        .into_iter()
        .collect();
        let mut dead = properties.clone();
        for name in OF_DEAD_LETTERS {
            dead.insert(name, "x");
        }
        assert_eq!(from_json(&to_json(&dead)).unwrap(), properties);
        assert_eq!(from_json(" ").unwrap(), ApplicationProperties::new());
        for wrong in ["[]", "{", "{\"a\":[]}", "{\"a\":{\"u8\":300}}"] {
            assert!(from_json(wrong).is_err(), "{wrong}");
        }
    }
}
