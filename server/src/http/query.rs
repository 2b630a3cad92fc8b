//! The query of a request.

use percent_encoding::percent_decode_str;

use super::refusal::Refusal;

/// Names and values, decoded.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let fields = query.unwrap_or_default().split('&').filter(|field| !field.is_empty());
        let field = |field: &str| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            Ok((decode(name)?, decode(value)?))
        };
        fields.map(field).collect::<Result<_, Refusal>>().map(Self)
    }

    /// Returns a value. Names are case-insensitive.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Returns a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map(Some);
        number.map_err(|_| Refusal::bad_request(format!("The parameter '{name}' is not a whole number.")))
    }
}

fn decode(text: &str) -> Result<String, Refusal> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| Refusal::bad_request("The query is not UTF-8."))
}
