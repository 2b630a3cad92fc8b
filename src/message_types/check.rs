use std::{collections::HashMap, error, fmt};

use super::{MessageType, TypeTable};

/// The rule that a table of types breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TypesErrorKind {
    /// It has no type.
    NoType,
    /// A name, or another name, is not valid.
    InvalidName,
    /// Two types have one name.
    DuplicateName,
    /// Another name of a type is a name of it or of another one.
    DuplicateAlias,
    /// A version is 0.
    InvalidVersion,
    /// A version occurs twice.
    DuplicateVersion,
    /// A step leads back to an older version, as in a cycle.
    VersionOrder,
    /// No step leads to a version from the one before it.
    VersionGap,
    /// The application property of the type or of the version has no name, or both have one.
    InvalidProperty,
    /// A type names a codec that the set has not.
    UnknownCodec,
}

/// A table of types that cannot be used. `Display` states in one sentence what to change.
#[derive(Clone, PartialEq, Eq)]
pub struct TypesError {
    kind: TypesErrorKind,
    advice: Box<str>,
}

use TypesErrorKind as Kind;

impl TypesError {
    pub(crate) fn new(kind: Kind, advice: impl Into<Box<str>>) -> Self {
        Self { kind, advice: advice.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> TypesErrorKind {
        self.kind
    }
}

impl TypeTable {
    /// Checks that the table keeps every rule. A router checks the tables of its handlers when it is built. `has_codec`
    /// says whether there is a codec of a name.
    ///
    /// Errors: the first rule that is broken.
    pub fn check(&self, has_codec: impl Fn(&str) -> bool) -> Result<(), TypesError> {
        let Self { name: table, types, .. } = *self;
        if types.is_empty() {
            return Err(TypesError::new(Kind::NoType, format!("`{table}` has no type: add one")));
        }
        self.check_properties()?;
        let mut names = HashMap::new();
        for of in types {
            check_name(table, of.name)?;
            if names.insert(of.name, of.name).is_some() {
                let advice = format!("two types of `{table}` are called `{}`: give one of them another name", of.name);
                return Err(TypesError::new(Kind::DuplicateName, advice));
            }
        }
        for of in types {
            for alias in of.aliases {
                check_alias(of, alias)?;
                if let Some(other) = names.insert(alias, of.name) {
                    let advice =
                        format!("`{}` is also called `{alias}`, and so is `{other}`: leave it to one", of.name);
                    return Err(TypesError::new(Kind::DuplicateAlias, advice));
                }
            }
            check_versions(of)?;
            if let Some(codec) = of.codec.filter(|codec| !has_codec(codec)) {
                let advice = format!("`{}` is written by `{codec}`, which is no codec of the set: add it", of.name);
                return Err(TypesError::new(Kind::UnknownCodec, advice));
            }
        }
        Ok(())
    }

    fn check_properties(&self) -> Result<(), TypesError> {
        let is_name = |name: &str| !name.is_empty() && name.len() <= 128 && !name.contains(char::is_control);
        let table = self.name;
        for name in self.property.into_iter().chain([self.version_property]) {
            if !is_name(name) {
                let advice =
                    format!("`{table}` names a property {name:?}: use 1 to 128 bytes without control characters");
                return Err(TypesError::new(Kind::InvalidProperty, advice));
            }
        }
        if self.property == Some(self.version_property) {
            let advice =
                format!("`{table}` has type and version in the property `{}`: give them two", self.version_property);
            return Err(TypesError::new(Kind::InvalidProperty, advice));
        }
        Ok(())
    }
}

fn check_name(table: &str, name: &str) -> Result<(), TypesError> {
    let is_one = (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte));
    if is_one {
        return Ok(());
    }
    let advice = format!("`{table}` calls a type {name:?}: use 1 to 128 of the characters A-Z a-z 0-9 . _ : / -");
    Err(TypesError::new(Kind::InvalidName, advice))
}

/// Others have given it, so it may be less strict.
fn check_alias(of: &MessageType, alias: &str) -> Result<(), TypesError> {
    if (1..=256).contains(&alias.len()) && !alias.contains(char::is_control) {
        return Ok(());
    }
    let advice = format!("`{}` is also called {alias:?}: use 1 to 256 bytes without control characters", of.name);
    Err(TypesError::new(Kind::InvalidName, advice))
}

fn check_versions(of: &MessageType) -> Result<(), TypesError> {
    let name = of.name;
    for (at, &version) in of.versions.iter().enumerate() {
        if version == 0 {
            return Err(TypesError::new(Kind::InvalidVersion, format!("`{name}` has a version 0: begin with 1")));
        }
        let Some(&before) = at.checked_sub(1).and_then(|before| of.versions.get(before)) else { continue };
        let (kind, advice) = if version == before {
            (Kind::DuplicateVersion, format!("`{name}` has the version {version} twice: leave one"))
        } else if version < before {
            (
                Kind::VersionOrder,
                format!("a step of `{name}` leads back from version {before} to {version}: order them upwards"),
            )
        } else if version - before > 1 {
            (Kind::VersionGap, format!("no step of `{name}` leads from version {before} to {}: add it", before + 1))
        } else {
            continue;
        };
        return Err(TypesError::new(kind, advice));
    }
    Ok(())
}

impl fmt::Display for TypesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)
    }
}

impl fmt::Debug for TypesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypesError({:?}: {})", self.kind, self.advice)
    }
}

impl error::Error for TypesError {}
