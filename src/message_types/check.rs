use std::collections::HashMap;

use super::{MessageType, TypeTable};
use crate::{BuildError, BuildErrorKind as Kind};

impl TypeTable {
    /// Checks that the table keeps every rule. A router checks the tables of its handlers when it is built. `has_codec`
    /// says whether there is a codec of a name.
    ///
    /// Errors: the first rule that is broken.
    pub fn check(&self, has_codec: impl Fn(&str) -> bool) -> Result<(), BuildError> {
        let Self { name: table, types, .. } = *self;
        if types.is_empty() {
            return Err(BuildError::new(Kind::NoType, format!("`{table}` has no type: add one")));
        }
        self.check_properties()?;
        let mut names = HashMap::new();
        for of in types {
            check_name(table, of.name)?;
            if names.insert(of.name, of.name).is_some() {
                let advice = format!("two types of `{table}` are called `{}`: give one of them another name", of.name);
                return Err(BuildError::new(Kind::DuplicateName, advice));
            }
        }
        for of in types {
            for alias in of.aliases {
                check_alias(of, alias)?;
                if let Some(other) = names.insert(alias, of.name) {
                    let advice =
                        format!("`{}` is also called `{alias}`, and so is `{other}`: leave it to one", of.name);
                    return Err(BuildError::new(Kind::DuplicateAlias, advice));
                }
            }
            check_versions(of)?;
            if let Some(codec) = of.codec.filter(|codec| !has_codec(codec)) {
                let advice = format!("`{}` is written by `{codec}`, which is not a codec of the set: add it", of.name);
                return Err(BuildError::new(Kind::UnknownCodec, advice));
            }
        }
        Ok(())
    }

    fn check_properties(&self) -> Result<(), BuildError> {
        let is_name = |name: &str| !name.is_empty() && name.len() <= 128 && !name.contains(char::is_control);
        let table = self.name;
        for name in self.property.into_iter().chain([self.version_property]) {
            if !is_name(name) {
                let advice =
                    format!("`{table}` names a property {name:?}: use 1 to 128 bytes without control characters");
                return Err(BuildError::new(Kind::InvalidProperty, advice));
            }
        }
        if self.property == Some(self.version_property) {
            let advice =
                format!("`{table}` has type and version in the property `{}`: give them two", self.version_property);
            return Err(BuildError::new(Kind::InvalidProperty, advice));
        }
        Ok(())
    }
}

fn check_name(table: &str, name: &str) -> Result<(), BuildError> {
    let is_one = (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte));
    if is_one {
        return Ok(());
    }
    let advice = format!("`{table}` calls a type {name:?}: use 1 to 128 of the characters A-Z a-z 0-9 . _ : / -");
    Err(BuildError::new(Kind::InvalidName, advice))
}

/// Others have given it, so it may be less strict.
fn check_alias(of: &MessageType, alias: &str) -> Result<(), BuildError> {
    if (1..=256).contains(&alias.len()) && !alias.contains(char::is_control) {
        return Ok(());
    }
    let advice = format!("`{}` is also called {alias:?}: use 1 to 256 bytes without control characters", of.name);
    Err(BuildError::new(Kind::InvalidName, advice))
}

fn check_versions(of: &MessageType) -> Result<(), BuildError> {
    let name = of.name;
    for (at, &version) in of.versions.iter().enumerate() {
        if version == 0 {
            return Err(BuildError::new(Kind::InvalidVersion, format!("`{name}` has a version 0: begin with 1")));
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
        return Err(BuildError::new(kind, advice));
    }
    Ok(())
}
