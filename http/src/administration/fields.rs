//! The fields of descriptions.

use std::time::Duration;

use consign_core::{administration::Status, time::Timestamp};

use super::{
    duration,
    error::{DocumentError, DocumentErrorKind as Kind},
    xml::Element,
};

/// A value in an element.
pub(super) trait Field: Sized {
    fn read(element: &Element) -> Result<Self, DocumentError>;
    fn write(&self, name: &str) -> Element;
}

/// A value that is a text.
pub(super) trait TextField: Sized {
    fn parse(text: &str) -> Option<Self>;
    fn text(&self) -> String;
}

impl<T: TextField> Field for T {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        let text = Some(element).filter(|element| element.children.is_empty());
        let value = text.and_then(|element| Self::parse(&element.text));
        value.ok_or_else(|| DocumentError::of(Kind::InvalidValue, &element.name))
    }

    fn write(&self, name: &str) -> Element {
        Element::with_text(name, self.text())
    }
}

impl TextField for bool {
    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "true" | "1" | "True" => Some(true),
            "false" | "0" | "False" => Some(false),
            _ => None,
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl TextField for u64 {
    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl TextField for String {
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

impl TextField for Duration {
    fn parse(text: &str) -> Option<Self> {
        duration::read(text)
    }

    fn text(&self) -> String {
        duration::write(*self)
    }
}

impl TextField for Timestamp {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // Some clients write no offset, and mean UTC.
        let has_offset = text.ends_with(['Z', 'z']) || text.get(10..).is_some_and(|time| time.contains(['+', '-']));
        let text = if has_offset { text.to_owned() } else { format!("{text}Z") };
        serde_json::from_value(serde_json::Value::String(text)).ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl TextField for Status {
    fn parse(text: &str) -> Option<Self> {
        Some(match text.trim() {
            "Active" => Self::Active,
            "Disabled" => Self::Disabled,
            "SendDisabled" => Self::SendDisabled,
            "ReceiveDisabled" => Self::ReceiveDisabled,
            _ => return None,
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Active => "Active",
            Self::Disabled => "Disabled",
            Self::SendDisabled => "SendDisabled",
            Self::ReceiveDisabled => "ReceiveDisabled",
        }
        .to_owned()
    }
}

/// Defines a description: its fields in the order of the service, which some clients and the service depend on.
macro_rules! description {
    ($(#[$doc:meta])* $type:ident = $root:literal { $($(#[$field_doc:meta])* $field:ident: $value:ty = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $type {
            $($(#[$field_doc])* pub $field: Option<$value>,)*
            /// The names of elements that are not fields. They are not written.
            pub unknown: Vec<String>,
        }

        impl $type {
            pub(super) fn read(element: &$crate::administration::xml::Element) -> Result<Self, $crate::administration::DocumentError> {
                use $crate::administration::{DocumentError, DocumentErrorKind, fields::Field};
                let mut read = Self::default();
                for child in &element.children {
                    match &*child.name {
                        $($name => {
                            // An element without a value is a field that is not set.
                            if child.nil {
                                continue;
                            }
                            if read.$field.is_some() {
                                return Err(DocumentError::of(DocumentErrorKind::Repeated, $name));
                            }
                            read.$field = Some(<$value as Field>::read(child)?);
                        })*
                        other if read.unknown.len() < 16 => {
                            read.unknown.push(other.chars().take(64).flat_map(char::escape_debug).collect());
                        }
                        _ => {}
                    }
                }
                Ok(read)
            }

            pub(super) fn write(&self) -> $crate::administration::xml::Element {
                let mut element = $crate::administration::fields::root($root);
                $(if let Some(value) = &self.$field {
                    element.push($crate::administration::fields::Field::write(value, $name));
                })*
                element
            }
        }
    };
}
pub(super) use description;

/// The element of a description.
pub(super) fn root(name: &str) -> Element {
    use super::xml::namespace;
    Element::new(name).attribute("xmlns", namespace::SERVICE_BUS).attribute("xmlns:i", namespace::INSTANCE)
}
