use std::{error, fmt};

/// Why a configuration was refused: where, and a text that names the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    places: Vec<String>,
    text: String,
}

impl ConfigError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { places: Vec::new(), text: text.into() }
    }

    /// Adds the entity or the file around what was named so far.
    pub(super) fn at(mut self, place: impl fmt::Display) -> Self {
        self.places.push(place.to_string());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.places.iter().rev().try_for_each(|place| write!(f, "{place}: "))?;
        f.write_str(&self.text)
    }
}

impl error::Error for ConfigError {}
