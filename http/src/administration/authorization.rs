//! Rules of authorization in descriptions.

use consign_core::{administration::AuthorizationRule, time::Timestamp};

use super::{
    DocumentError, DocumentErrorKind as Kind,
    fields::{Field, TextField},
    xml::Element,
};

const TYPE: &str = "SharedAccessAuthorizationRule";
const CLAIM_TYPE: &str = "SharedAccessKey";
const CLAIM_VALUE: &str = "None";

impl Field for Vec<AuthorizationRule> {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        element.children.iter().map(read).collect()
    }

    fn write(&self, name: &str) -> Element {
        let mut element = Element::new(name);
        for rule in self {
            element.push(write(rule));
        }
        element
    }
}

fn read(element: &Element) -> Result<AuthorizationRule, DocumentError> {
    if element.name != "AuthorizationRule" {
        return Err(DocumentError::of(Kind::Unexpected, &element.name));
    }
    let invalid = |element: &Element| DocumentError::of(Kind::InvalidValue, &element.name);
    if element.kind.as_deref().is_some_and(|kind| kind != TYPE) {
        return Err(invalid(element));
    }
    let mut rule = AuthorizationRule::default();
    for (at, child) in element.children.iter().enumerate().filter(|(_, child)| !child.nil) {
        if element.children[..at].iter().any(|before| before.name == child.name) {
            return Err(DocumentError::of(Kind::Repeated, &child.name));
        }
        match &*child.name {
            "ClaimType" if child.text.trim() == CLAIM_TYPE => {}
            "ClaimValue" if child.text.trim() == CLAIM_VALUE => {}
            "ClaimType" | "ClaimValue" => return Err(invalid(child)),
            "Rights" => read_rights(child, &mut rule)?,
            "CreatedTime" => rule.created = Some(Timestamp::read(child)?),
            "ModifiedTime" => rule.modified = Some(Timestamp::read(child)?),
            "KeyName" => rule.name = String::read(child)?,
            "PrimaryKey" => rule.primary_key = String::read(child)?,
            "SecondaryKey" => rule.secondary_key = String::read(child)?,
            other => return Err(DocumentError::of(Kind::Unexpected, other)),
        }
    }
    Ok(rule)
}

fn read_rights(element: &Element, rule: &mut AuthorizationRule) -> Result<(), DocumentError> {
    for child in &element.children {
        match (&*child.name, child.text.trim()) {
            ("AccessRights", "Send") => rule.send = true,
            ("AccessRights", "Listen") => rule.listen = true,
            ("AccessRights", "Manage") => rule.manage = true,
            ("AccessRights", _) => return Err(DocumentError::of(Kind::InvalidValue, &child.name)),
            (other, _) => return Err(DocumentError::of(Kind::Unexpected, other)),
        }
    }
    Ok(())
}

fn write(rule: &AuthorizationRule) -> Element {
    let mut element = Element::new("AuthorizationRule").attribute("i:type", TYPE);
    element.push(Element::with_text("ClaimType", CLAIM_TYPE));
    element.push(Element::with_text("ClaimValue", CLAIM_VALUE));
    let mut rights = Element::new("Rights");
    for (name, _) in [("Manage", rule.manage), ("Listen", rule.listen), ("Send", rule.send)].iter().filter(|it| it.1) {
        rights.push(Element::with_text("AccessRights", *name));
    }
    element.push(rights);
    for (name, time) in [("CreatedTime", rule.created), ("ModifiedTime", rule.modified)] {
        if let Some(time) = time {
            element.push(Element::with_text(name, time.text()));
        }
    }
    for (name, text) in
        [("KeyName", &rule.name), ("PrimaryKey", &rule.primary_key), ("SecondaryKey", &rule.secondary_key)]
    {
        element.push(Element::with_text(name, text));
    }
    element
}
