use std::fmt;

use serde::Serialize;

use super::TypeError;
use crate::message::{Properties, PropertyValue};

/// One type of message: the name that it travels under, and what else it may be called.
///
/// A name is language-neutral: `order.created`, not a path of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessageType {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) versions: &'static [u32],
    pub(super) codec: Option<&'static str>,
}

/// The list of the types of one enum, and the properties that have the type and the version. The table in which the type
/// name of a message is looked up: nothing is ever loaded by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TypeTable {
    pub(super) name: &'static str,
    pub(super) property: Option<&'static str>,
    pub(super) version_property: &'static str,
    pub(super) types: &'static [MessageType],
}

/// The type of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    /// The index of the type in its table.
    pub(crate) index: usize,
    /// The version of the body. `None` for a type without versions.
    pub(crate) version: Option<u32>,
}

impl MessageType {
    /// A type of this name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : / -`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, aliases: &[], versions: &[], codec: None }
    }

    /// Other names that it is received under, 1 to 256 bytes without control characters. It is sent under its own.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the versions of the body that can be read, each one more than the one before; the last is the one that is
    /// written. A message without a version has the first.
    #[must_use]
    pub const fn versions(self, versions: &'static [u32]) -> Self {
        Self { versions, ..self }
    }

    /// Sets the codec, by name, that writes it, unless the message names another one.
    #[must_use]
    pub const fn codec(self, name: &'static str) -> Self {
        Self { codec: Some(name), ..self }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the other names.
    #[must_use]
    pub const fn other_names(&self) -> &'static [&'static str] {
        self.aliases
    }

    /// Returns the versions that can be read. Empty for a type without versions.
    #[must_use]
    pub const fn known_versions(&self) -> &'static [u32] {
        self.versions
    }

    /// Returns the version that is written. `None` for a type without versions.
    #[must_use]
    pub const fn newest(&self) -> Option<u32> {
        self.versions.last().copied()
    }

    /// Returns the codec that writes it, if it has one of its own.
    #[must_use]
    pub const fn own_codec(&self) -> Option<&'static str> {
        self.codec
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

impl TypeTable {
    /// The application property of the version, unless another is set.
    pub const VERSION_PROPERTY: &'static str = "x-message-version";

    /// The types of an enum, whose name is for people alone. A message says its type in the Subject.
    #[must_use]
    pub const fn new(name: &'static str, types: &'static [MessageType]) -> Self {
        Self { name, property: None, version_property: Self::VERSION_PROPERTY, types }
    }

    /// Sets the application property, a text, that has the type in place of the Subject.
    #[must_use]
    pub const fn by_property(self, property: &'static str) -> Self {
        Self { property: Some(property), ..self }
    }

    /// Sets the application property that has the version of the body: a whole number, or its text. By default
    /// [`TypeTable::VERSION_PROPERTY`].
    #[must_use]
    pub const fn version_property(self, property: &'static str) -> Self {
        Self { version_property: property, ..self }
    }

    /// Returns the name of the enum.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the types, in the order of the variants.
    #[must_use]
    pub const fn types(&self) -> &'static [MessageType] {
        self.types
    }

    /// Returns the application property of the type. `None` for the Subject.
    #[must_use]
    pub const fn type_property(&self) -> Option<&'static str> {
        self.property
    }

    /// Returns the application property of the version.
    #[must_use]
    pub const fn property_of_version(&self) -> &'static str {
        self.version_property
    }

    /// Returns the type that the message names. A value that is not text names none.
    #[inline]
    pub fn name_in<'m>(&self, properties: &'m Properties) -> Option<&'m str> {
        match self.property {
            None => properties.subject(),
            Some(property) => properties.application_properties().get(property).and_then(PropertyValue::as_str),
        }
    }

    /// Returns the index of the type with this name, or this other name. Names are case-sensitive.
    #[inline]
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|it| it.is_called(name))
    }

    /// Returns whether the message names a type of this table, in any version.
    #[inline]
    #[must_use]
    pub fn knows(&self, properties: &Properties) -> bool {
        self.name_in(properties).is_some_and(|name| self.find(name).is_some())
    }

    /// Returns the type and the version of the message.
    ///
    /// Errors: of the kinds [`Missing`](super::TypeErrorKind::Missing), [`UnknownType`](super::TypeErrorKind::UnknownType),
    /// [`UnknownVersion`](super::TypeErrorKind::UnknownVersion).
    #[inline]
    pub(crate) fn resolve(&self, properties: &Properties) -> Result<Resolved, TypeError> {
        let Some(name) = self.name_in(properties) else {
            return Err(TypeError::missing(self));
        };
        let Some(index) = self.find(name) else {
            return Err(TypeError::unknown_type(self, name));
        };
        let known = &self.types[index];
        let Some(first) = known.versions.first() else {
            return Ok(Resolved { index, version: None });
        };
        let said = match properties.application_properties().get(self.version_property) {
            None | Some(PropertyValue::Null) => return Ok(Resolved { index, version: Some(*first) }),
            Some(value) => value.to_u64(),
        };
        match said.and_then(|said| known.versions.iter().find(|known| u64::from(**known) == said)) {
            Some(version) => Ok(Resolved { index, version: Some(*version) }),
            None => Err(TypeError::unknown_version(self, known, said)),
        }
    }

    /// Stamps the type at `index` on the message, in its newest version. Nothing is done if there is no such
    /// type.
    pub fn stamp(&self, index: usize, properties: &mut Properties) {
        let Some(of) = self.types.get(index) else { return };
        match self.property {
            None => {
                properties.set_subject(of.name);
            }
            Some(property) => {
                properties.application_properties_mut().insert(property, of.name);
            }
        }
        if let Some(version) = of.newest() {
            properties.application_properties_mut().insert(self.version_property, version);
        }
    }
}

/// One line for each type.
impl fmt::Display for TypeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.property {
            None => write!(f, "{} by Subject", self.name)?,
            Some(property) => write!(f, "{} by the property {property}", self.name)?,
        }
        for of in self.types {
            write!(f, "\n  {}", of.name)?;
            if !of.aliases.is_empty() {
                write!(f, ", also {}", of.aliases.join(", "))?;
            }
            if let (Some(first), Some(newest)) = (of.versions.first(), of.newest()) {
                write!(f, ", versions {first} to {newest} in {}", self.version_property)?;
            }
            if let Some(codec) = of.codec {
                write!(f, ", written as {codec}")?;
            }
        }
        Ok(())
    }
}
