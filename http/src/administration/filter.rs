use consign_core::message::PropertyValue;
use consign_rules::{CorrelationFilter, Filter, Parameters, SqlFilter};

use super::{DocumentError, DocumentErrorKind as Kind, SettingsError, fields::Field, value, xml::Element};

/// The filter of a rule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterDescription {
    /// `TrueFilter`: every message.
    True,
    /// `FalseFilter`: no message.
    False,
    /// `SqlFilter`.
    Sql(SqlDescription),
    /// `CorrelationFilter`.
    Correlation(CorrelationDescription),
}

/// An expression of a filter or of an action, with its parameters.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SqlDescription {
    /// `SqlExpression`.
    pub expression: String,
    /// `Parameters`, by their names.
    pub parameters: Vec<(String, PropertyValue)>,
}

/// The properties that a correlation filter requires.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CorrelationDescription {
    /// `CorrelationId`.
    pub correlation_id: Option<String>,
    /// `MessageId`.
    pub message_id: Option<String>,
    /// `To`.
    pub to: Option<String>,
    /// `ReplyTo`.
    pub reply_to: Option<String>,
    /// `Label`.
    pub subject: Option<String>,
    /// `SessionId`.
    pub session_id: Option<String>,
    /// `ReplyToSessionId`.
    pub reply_to_session_id: Option<String>,
    /// `ContentType`.
    pub content_type: Option<String>,
    /// `Properties`: application properties.
    pub properties: Vec<(String, PropertyValue)>,
}

/// Refuses elements that are not read, except for those of the clients that have no effect.
fn check(element: &Element, known: &[&str]) -> Result<(), DocumentError> {
    match element.children.iter().find(|child| !known.contains(&&*child.name)) {
        Some(other) => Err(DocumentError::of(Kind::Unexpected, &other.name)),
        None => Ok(()),
    }
}

fn check_sql(element: &Element) -> Result<(), DocumentError> {
    check(element, &["SqlExpression", "Parameters", "CompatibilityLevel", "RequiresPreprocessing"])
}

impl SqlDescription {
    /// Creates one without parameters.
    #[must_use]
    pub fn new(expression: impl Into<String>) -> Self {
        Self { expression: expression.into(), parameters: Vec::new() }
    }

    pub(super) fn read(element: &Element) -> Result<Self, DocumentError> {
        check_sql(element)?;
        let expression = element.child("SqlExpression")?;
        let expression = expression.ok_or_else(|| DocumentError::of(Kind::Missing, "SqlExpression"))?;
        let parameters = element.child("Parameters")?.map(value::read_all).transpose()?.unwrap_or_default();
        Ok(Self { expression: expression.text.clone(), parameters })
    }

    pub(super) fn write_into(&self, element: &mut Element) {
        element.push(Element::with_text("SqlExpression", &*self.expression));
        element.push(Element::with_text("CompatibilityLevel", "20"));
        if !self.parameters.is_empty() {
            element.push(value::write_all("Parameters", &self.parameters));
        }
    }

    pub(super) fn of(expression: &str, parameters: &Parameters) -> Self {
        let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Self { expression: expression.to_owned(), parameters }
    }

    pub(super) fn to_parameters(&self) -> Result<Parameters, SettingsError> {
        Parameters::new(self.parameters.iter().cloned()).map_err(|error| SettingsError::other(&error))
    }
}

macro_rules! texts {
    ($use:ident) => {
        $use! {
            correlation_id "CorrelationId", message_id "MessageId", to "To", reply_to "ReplyTo", subject "Label",
            session_id "SessionId", reply_to_session_id "ReplyToSessionId", content_type "ContentType"
        }
    };
}

impl CorrelationDescription {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        let mut filter = Self::default();
        macro_rules! names {
            ($($field:ident $name:literal),*) => { [$($name,)* "Properties"] };
        }
        check(element, &texts!(names))?;
        macro_rules! read {
            ($($field:ident $name:literal),*) => {$(
                if let Some(child) = element.child($name)?.filter(|child| !child.nil) {
                    filter.$field = Some(child.text.clone());
                }
            )*};
        }
        texts!(read);
        filter.properties = element.child("Properties")?.map(value::read_all).transpose()?.unwrap_or_default();
        Ok(filter)
    }

    fn write_into(&self, element: &mut Element) {
        macro_rules! write {
            ($($field:ident $name:literal),*) => {$(
                if let Some(text) = &self.$field {
                    element.push(Element::with_text($name, &**text));
                }
            )*};
        }
        texts!(write);
        if !self.properties.is_empty() {
            element.push(value::write_all("Properties", &self.properties));
        }
    }

    fn to_filter(&self) -> Result<CorrelationFilter, SettingsError> {
        let mut filter = CorrelationFilter::builder();
        macro_rules! set {
            ($($field:ident $name:literal),*) => {$(
                if let Some(text) = &self.$field {
                    filter = filter.$field(&**text);
                }
            )*};
        }
        texts!(set);
        for (key, value) in &self.properties {
            filter = filter.property(&**key, value.clone());
        }
        Ok(filter.build()?)
    }
}

impl FilterDescription {
    /// Returns the filter.
    ///
    /// # Errors
    /// An expression that is not of the language of rules, a parameter without a value, or a correlation filter without a property.
    pub fn to_filter(&self) -> Result<Filter, SettingsError> {
        Ok(match self {
            Self::True => Filter::True,
            Self::False => Filter::False,
            Self::Sql(sql) => {
                let filter = SqlFilter::parse_with(&sql.expression, sql.to_parameters()?);
                filter.map_err(|error| SettingsError::other(&error))?.into()
            }
            Self::Correlation(correlation) => correlation.to_filter()?.into(),
        })
    }
}

impl From<&Filter> for FilterDescription {
    fn from(filter: &Filter) -> Self {
        match filter {
            Filter::True => Self::True,
            Filter::False => Self::False,
            Filter::Sql(filter) => Self::Sql(SqlDescription::of(filter.as_str(), filter.parameters())),
            Filter::Correlation(filter) => {
                let mut description = CorrelationDescription::default();
                macro_rules! get {
                    ($($field:ident $name:literal),*) => {$(
                        description.$field = filter.$field().map(str::to_owned);
                    )*};
                }
                texts!(get);
                let properties = filter.properties().iter();
                description.properties = properties.map(|(key, value)| (key.to_owned(), value.clone())).collect();
                Self::Correlation(description)
            }
        }
    }
}

impl Field for FilterDescription {
    fn read(element: &Element) -> Result<Self, DocumentError> {
        Ok(match element.kind.as_deref() {
            Some("TrueFilter") => check_sql(element).map(|()| Self::True)?,
            Some("FalseFilter") => check_sql(element).map(|()| Self::False)?,
            Some("SqlFilter") => Self::Sql(SqlDescription::read(element)?),
            Some("CorrelationFilter") => Self::Correlation(CorrelationDescription::read(element)?),
            _ => return Err(DocumentError::of(Kind::InvalidValue, &element.name)),
        })
    }

    fn write(&self, name: &str) -> Element {
        let of = |kind: &str| Element::new(name).attribute("i:type", kind);
        match self {
            // These two are SQL filters to a client.
            Self::True => {
                let mut element = of("TrueFilter");
                SqlDescription::new("1=1").write_into(&mut element);
                element
            }
            Self::False => {
                let mut element = of("FalseFilter");
                SqlDescription::new("1=0").write_into(&mut element);
                element
            }
            Self::Sql(sql) => {
                let mut element = of("SqlFilter");
                sql.write_into(&mut element);
                element
            }
            Self::Correlation(correlation) => {
                let mut element = of("CorrelationFilter");
                correlation.write_into(&mut element);
                element
            }
        }
    }
}
