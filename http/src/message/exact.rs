//! The header with the exact application properties.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write};

use consign_core::{
    message::{ApplicationProperties, PropertyValue},
    wire::json::{As, Natural},
};
use http::HeaderValue;

use super::{EXACT_PROPERTIES, MessageError};

/// Writes the properties.
pub(super) fn write(properties: &ApplicationProperties) -> Option<HeaderValue> {
    let all: BTreeMap<&str, As<Natural, &PropertyValue>> =
        properties.iter().map(|(key, value)| (key, As::new(value))).collect();
    let text = serde_json::to_string(&all).ok()?;
    HeaderValue::from_str(&ascii(&text)).ok()
}

/// Reads the properties.
pub(super) fn read(value: &HeaderValue) -> Result<ApplicationProperties, MessageError> {
    let invalid = || MessageError::header(EXACT_PROPERTIES.as_str());
    let all: BTreeMap<Cow<'_, str>, As<Natural, PropertyValue>> =
        serde_json::from_slice(value.as_bytes()).map_err(|_| invalid())?;
    Ok(all.into_iter().map(|(key, value)| (key, value.into_inner())).collect())
}

/// JSON whose characters are all of US-ASCII.
pub(super) fn ascii(json: &str) -> Cow<'_, str> {
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json.into();
    }
    let mut text = String::with_capacity(json.len() * 2);
    for char in json.chars() {
        if char.is_ascii() && char != '\u{7f}' {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text.into()
}
