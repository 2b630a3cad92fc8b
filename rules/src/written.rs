use std::collections::BTreeMap;

use consign_core::message::PropertyValue;
use serde::{Deserialize, Serialize};
use tower::BoxError;

use super::{CorrelationFilter, Filter, Parameters, Rule, SqlAction, SqlFilter};

/// A rule as a transport stores it with serde. `V` is what it makes of a value, for formats differ in what they can say.
///
/// ```
/// use consign::rules::{CorrelationFilter, Rule, WrittenRule};
///
/// let filter = CorrelationFilter::builder().subject("order.paid").property("colour", "red").build()?;
/// let rule = Rule::new("red", filter)?;
/// let written = WrittenRule::of(&rule, |value| value.as_str().map(str::to_owned).ok_or("text only"))?;
/// let text = serde_json::to_string(&written)?;
/// let read: WrittenRule<String> = serde_json::from_str(&text)?;
/// assert_eq!(read.into_rule(|value| Ok(value.into()))?, rule);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRule<V> {
    name: String,
    filter: WrittenFilter<V>,
    /// Of an SQL filter.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<(String, V)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    action_parameters: Vec<(String, V)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, bound(deserialize = "V: Deserialize<'de>"))]
enum WrittenFilter<V> {
    True,
    False,
    Sql(String),
    Correlation {
        #[serde(default)]
        system: BTreeMap<String, String>,
        #[serde(default)]
        properties: BTreeMap<String, V>,
    },
}

macro_rules! keys {
    ($use:ident) => {
        $use!(content_type, correlation_id, message_id, reply_to, reply_to_session_id, session_id, subject, to)
    };
}

impl<V> WrittenRule<V> {
    /// Writes a rule, and the values of its filter by `write`, whose errors are the only ones.
    pub fn of<E>(rule: &Rule, mut write: impl FnMut(&PropertyValue) -> Result<V, E>) -> Result<Self, E> {
        let filter = match rule.filter() {
            Filter::True => WrittenFilter::True,
            Filter::False => WrittenFilter::False,
            Filter::Sql(filter) => WrittenFilter::Sql(filter.as_str().to_owned()),
            Filter::Correlation(filter) => {
                let mut system = BTreeMap::new();
                macro_rules! add {
                    ($($key:ident),*) => {$(
                        if let Some(value) = filter.$key() {
                            system.insert(stringify!($key).to_owned(), value.to_owned());
                        }
                    )*};
                }
                keys!(add);
                let values = filter.properties().iter().map(|(key, value)| Ok((key.to_owned(), write(value)?)));
                WrittenFilter::Correlation { system, properties: values.collect::<Result<_, E>>()? }
            }
        };
        let mut written = |parameters: &Parameters| {
            let written = parameters.iter().map(|(name, value)| Ok((name.to_owned(), write(value)?)));
            written.collect::<Result<Vec<_>, E>>()
        };
        let parameters = match rule.filter() {
            Filter::Sql(filter) => written(filter.parameters())?,
            _ => Vec::new(),
        };
        let (action, action_parameters) = match rule.action() {
            Some(action) => (Some(action.as_str().to_owned()), written(action.parameters())?),
            None => (None, Vec::new()),
        };
        Ok(Self { name: rule.name().to_owned(), filter, parameters, action, action_parameters })
    }

    /// The rule that was written, with its values by `read`. Errors: those of `read`; and a name, an expression, a
    /// filter or a property that this version of the library refuses, as it may one of a later version.
    pub fn into_rule(self, mut read: impl FnMut(V) -> Result<PropertyValue, BoxError>) -> Result<Rule, BoxError> {
        let filter: Filter = match self.filter {
            WrittenFilter::True => Filter::True,
            WrittenFilter::False => Filter::False,
            WrittenFilter::Sql(text) => {
                SqlFilter::parse_with(&text, read_parameters(self.parameters, &mut read)?)?.into()
            }
            WrittenFilter::Correlation { mut system, properties } => {
                let mut filter = CorrelationFilter::builder();
                macro_rules! add {
                    ($($key:ident),*) => {$(
                        if let Some(value) = system.remove(stringify!($key)) {
                            filter = filter.$key(value);
                        }
                    )*};
                }
                keys!(add);
                if let Some(unknown) = system.keys().next() {
                    return Err(format!("a correlation filter has no property `{unknown}`").into());
                }
                for (key, value) in properties {
                    filter = filter.property(key, read(value)?);
                }
                filter.build()?.into()
            }
        };
        let rule = Rule::new(self.name, filter)?;
        Ok(match self.action {
            Some(action) => {
                let parameters = read_parameters(self.action_parameters, &mut read)?;
                rule.with_action(SqlAction::parse_with(&action, parameters)?)
            }
            None => rule,
        })
    }
}

fn read_parameters<V>(
    parameters: Vec<(String, V)>,
    read: &mut impl FnMut(V) -> Result<PropertyValue, BoxError>,
) -> Result<Parameters, BoxError> {
    let parameters = parameters.into_iter().map(|(name, value)| Ok((name, read(value)?)));
    Ok(Parameters::new(parameters.collect::<Result<Vec<_>, BoxError>>()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &PropertyValue) -> Result<String, &'static str> {
        value.as_str().map(str::to_owned).ok_or("text only")
    }

    fn written(rule: &Rule) -> String {
        serde_json::to_string(&WrittenRule::of(rule, text).unwrap()).unwrap()
    }

    fn read(text: &str) -> Result<Rule, BoxError> {
        serde_json::from_str::<WrittenRule<String>>(text)?.into_rule(|value| Ok(value.into()))
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        let correlation = CorrelationFilter::builder()
            .content_type("1")
            .correlation_id("2")
            .message_id("3")
            .reply_to("4")
            .reply_to_session_id("5")
            .session_id("6")
            .subject("7")
            .to("8")
            .property("k", "v");
        let action = SqlAction::parse("SET n = n + 1; REMOVE b").unwrap();
        let sql = Filter::from(SqlFilter::parse("n > 1").unwrap());
        let parameters = |value: &str| Parameters::new([("@p".to_owned(), value.into())]).unwrap();
        let with = SqlFilter::parse_with("n = @p", parameters("v")).unwrap();
        let with_action = SqlAction::parse_with("SET n = @P", parameters("w")).unwrap();
        for (rule, expected) in [
            (Rule::new("a", Filter::True).unwrap(), r#"{"name":"a","filter":"true"}"#),
            (Rule::new("a", Filter::False).unwrap(), r#"{"name":"a","filter":"false"}"#),
            (
                Rule::new("a", sql).unwrap().with_action(action),
                r#"{"name":"a","filter":{"sql":"n > 1"},"action":"SET n = n + 1; REMOVE b"}"#,
            ),
            (
                Rule::new("a", with).unwrap().with_action(with_action),
                r#"{"name":"a","filter":{"sql":"n = @p"},"parameters":[["@p","v"]],"action":"SET n = @P","action_parameters":[["@p","w"]]}"#,
            ),
            (
                Rule::new("a", correlation.build().unwrap()).unwrap(),
                r#"{"name":"a","filter":{"correlation":{"system":{"content_type":"1","correlation_id":"2","message_id":"3","reply_to":"4","reply_to_session_id":"5","session_id":"6","subject":"7","to":"8"},"properties":{"k":"v"}}}}"#,
            ),
        ] {
            assert_eq!(written(&rule), expected);
            assert_eq!(read(expected).unwrap(), rule, "{expected}");
        }
    }

    #[test]
    fn an_invalid_rule_cannot_be_written_or_read() {
        let number = CorrelationFilter::builder().property("n", 7).build().unwrap();
        assert_eq!(WrittenRule::of(&Rule::new("a", number).unwrap(), text).unwrap_err(), "text only");
        for text in [
            r#"{"name":"a","filter":"of_a_later_version"}"#,
            r#"{"name":"a","filter":{"sql":"n >"}}"#,
            r#"{"name":"a","filter":"true","action":"SET"}"#,
            r#"{"name":"a","filter":{"correlation":{"system":{"subject":"%"},"properties":{"n":7}}}}"#,
            r#"{"name":"a","filter":{"correlation":{"system":{"subject":"x"},"of_a_later_version":"x"}}}"#,
            r#"{"name":"a","filter":"true","of_a_later_version":"x"}"#,
        ] {
            read(text).unwrap_err();
        }
        let unknown = r#"{"name":"a","filter":{"correlation":{"system":{"subject":"x","label":"urgent"}}}}"#;
        assert_eq!(read(unknown).unwrap_err().to_string(), "a correlation filter has no property `label`");
    }
}
