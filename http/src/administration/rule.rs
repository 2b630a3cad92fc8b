use consign_core::time::Timestamp;
use consign_rules::{Rule, SqlAction};

use super::{
    DocumentError, DocumentErrorKind as Kind, FilterDescription, SettingsError, SqlDescription,
    fields::{self, Field},
    xml::Element,
};

/// A rule of a subscription.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuleDescription {
    /// `Filter`.
    pub filter: FilterDescription,
    /// `Action`: an `SqlRuleAction`, or none for an `EmptyRuleAction`.
    pub action: Option<SqlDescription>,
    /// `CreatedAt`.
    pub created_at: Option<Timestamp>,
    /// `Name`.
    pub name: Option<String>,
}

impl RuleDescription {
    /// Creates the description of a rule without an action.
    #[must_use]
    pub fn new(name: impl Into<String>, filter: FilterDescription) -> Self {
        Self { filter, action: None, created_at: None, name: Some(name.into()) }
    }

    /// Returns the rule, with a name for one that has none.
    ///
    /// # Errors
    /// A name, a filter or an action that a rule cannot have.
    pub fn to_rule(&self, name: &str) -> Result<Rule, SettingsError> {
        let rule = Rule::new(self.name.as_deref().unwrap_or(name), self.filter.to_filter()?)?;
        let Some(action) = &self.action else { return Ok(rule) };
        let action = SqlAction::parse_with(&action.expression, action.to_parameters()?);
        Ok(rule.with_action(action.map_err(|error| SettingsError::other(&error))?))
    }

    pub(super) fn read(element: &Element) -> Result<Self, DocumentError> {
        let filter = element.child("Filter")?.filter(|filter| !filter.nil);
        let action = element.child("Action")?.filter(|action| !action.nil);
        let action = match action.map(|action| (action, action.kind.as_deref())) {
            None => None,
            Some((action, Some("EmptyRuleAction"))) => match action.children.first() {
                Some(other) => return Err(DocumentError::of(Kind::Unexpected, &other.name)),
                None => None,
            },
            Some((action, Some("SqlRuleAction"))) => Some(SqlDescription::read(action)?),
            Some(_) => return Err(DocumentError::of(Kind::InvalidValue, "Action")),
        };
        let known = ["Filter", "Action", "CreatedAt", "Name"];
        if let Some(other) = element.children.iter().find(|child| !known.contains(&&*child.name)) {
            return Err(DocumentError::of(Kind::Unexpected, &other.name));
        }
        Ok(Self {
            filter: filter.map_or(Ok(FilterDescription::True), FilterDescription::read)?,
            action,
            created_at: element.child("CreatedAt")?.filter(|at| !at.nil).map(Timestamp::read).transpose()?,
            name: element.child("Name")?.filter(|name| !name.nil).map(|name| name.text.clone()),
        })
    }

    pub(super) fn write(&self) -> Element {
        let mut element = fields::root("RuleDescription");
        self.write_into(&mut element);
        element
    }

    fn write_into(&self, element: &mut Element) {
        element.push(self.filter.write("Filter"));
        let mut action = Element::new("Action");
        if let Some(sql) = &self.action {
            action = action.attribute("i:type", "SqlRuleAction");
            sql.write_into(&mut action);
        } else {
            action = action.attribute("i:type", "EmptyRuleAction");
        }
        element.push(action);
        if let Some(at) = &self.created_at {
            element.push(at.write("CreatedAt"));
        }
        if let Some(name) = &self.name {
            element.push(Element::with_text("Name", &**name));
        }
    }
}

impl From<&Rule> for RuleDescription {
    fn from(rule: &Rule) -> Self {
        Self {
            filter: rule.filter().into(),
            action: rule.action().map(|action| SqlDescription::of(action.as_str(), action.parameters())),
            created_at: rule.created(),
            name: Some(rule.name().to_owned()),
        }
    }
}

/// In a subscription.
impl Field for RuleDescription {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        Self::read(element)
    }

    fn write(&self, name: &str) -> Element {
        let mut element = Element::new(name);
        self.write_into(&mut element);
        element
    }
}
