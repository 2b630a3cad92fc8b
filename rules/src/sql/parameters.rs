use consign_core::message::PropertyValue;

use super::{ParseError, ParseErrorKind, evaluate::is_same_name};

/// The values of the parameters of a filter or an action, by their names. Case does not matter in a name, and a name may be
/// without its `@`.
///
/// ```
/// use consign::{
///     Message,
///     rules::{Parameters, SqlFilter},
/// };
///
/// let parameters = Parameters::new([("@colour".to_owned(), "red".into())])?;
/// let filter = SqlFilter::parse_with("colour = @colour", parameters)?;
/// assert!(filter.matches(&Message::builder().property("colour", "red").build("")?)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Box<[(String, PropertyValue)]>);

impl Parameters {
    /// Most parameters.
    pub const MAX_COUNT: usize = 64;
    /// Most bytes of a name or of a value.
    pub const MAX_LENGTH: usize = 4_096;

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// More than [`MAX_COUNT`](Self::MAX_COUNT) of them, a name or a value of more than [`MAX_LENGTH`](Self::MAX_LENGTH) bytes, and
    /// two with the same name.
    pub fn new(parameters: impl IntoIterator<Item = (String, PropertyValue)>) -> Result<Self, ParseError> {
        let mut checked: Vec<(String, PropertyValue)> = Vec::new();
        for (name, value) in parameters {
            let is_repeated = checked.iter().any(|(other, _)| is_same_name(bare(other), bare(&name)));
            let invalid = |kind| Err(ParseError::new(kind, &name, 0, name.len()));
            if is_repeated {
                return invalid(ParseErrorKind::RepeatedParameter);
            }
            if checked.len() == Self::MAX_COUNT {
                return invalid(ParseErrorKind::TooManyParameters { limit: Self::MAX_COUNT });
            }
            if name.len() > Self::MAX_LENGTH || length(&value) > Self::MAX_LENGTH {
                return invalid(ParseErrorKind::ParameterTooLong { limit: Self::MAX_LENGTH });
            }
            checked.push((name, value));
        }
        Ok(Self(checked.into()))
    }

    /// Returns the parameters in the order in which they were given.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &PropertyValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub(crate) fn size(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.size()).sum()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PropertyValue> {
        self.0.iter().find(|(other, _)| is_same_name(bare(other), bare(name))).map(|(_, value)| value)
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix('@').unwrap_or(name)
}

fn length(value: &PropertyValue) -> usize {
    match value {
        PropertyValue::String(text) | PropertyValue::Uri(text) => text.len(),
        PropertyValue::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use consign_core::Message;

    use super::*;
    use crate::{SqlAction, SqlFilter};

    fn parameters(values: &[(&str, PropertyValue)]) -> Result<Parameters, ParseErrorKind> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Parameters::new(values).map_err(|error| error.kind())
    }

    /// Rules: T-57a.
    #[test]
    fn a_filter_and_an_action_use_their_parameters() {
        let values = parameters(&[("@low", 1_i32.into()), ("HIGH", "b".into())]).unwrap();
        let filter = SqlFilter::parse_with("n > @LOW AND t IN (@high, 'c')", values.clone()).unwrap();
        assert_eq!(filter.to_string(), "n > @LOW AND t IN (@high, 'c')");
        for (number, text, expected) in [(2, "b", true), (1, "b", false), (2, "a", false)] {
            let message = Message::builder().property("n", number).property("t", text).build("").unwrap();
            assert_eq!(filter.matches(&message), Ok(expected), "{number} {text}");
        }
        let mut message = Message::builder().property("n", 1_i32).build("").unwrap();
        SqlAction::parse_with("SET n = n + @low; SET t = @high", values).unwrap().apply(&mut message).unwrap();
        assert_eq!(message.application_properties().get("n"), Some(&2_i64.into()));
        assert_eq!(message.application_properties().get("t"), Some(&"b".into()));
    }

    /// Rules: T-57a.
    #[test]
    fn parameters_are_bounded_and_have_values() {
        let one = |name: &str| (name.to_owned(), PropertyValue::Null);
        let many = |count: usize| Parameters::new((0..count).map(|number| one(&number.to_string())));
        assert!(many(64).is_ok());
        assert_eq!(many(65).unwrap_err().kind(), ParseErrorKind::TooManyParameters { limit: 64 });
        assert_eq!(parameters(&[("@a", 1.into()), ("A", 2.into())]), Err(ParseErrorKind::RepeatedParameter));
        let long = "x".repeat(4_097);
        let too_long = Err(ParseErrorKind::ParameterTooLong { limit: 4_096 });
        assert_eq!(parameters(&[("@a", (*long).into())]), too_long);
        assert_eq!(parameters(&[(&long, 1.into())]), too_long);
        for text in ["a = @b", "a = @", "@a.b = 1", "@a IS NULL"] {
            SqlFilter::parse_with(text, parameters(&[("@a", 1.into())]).unwrap()).unwrap_err();
        }
        let error = SqlFilter::parse("a = @b AND c = 1").unwrap_err();
        assert_eq!((error.kind(), error.position()), (ParseErrorKind::UnknownParameter, 4));
    }
}
