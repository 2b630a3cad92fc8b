use std::{fmt, str::FromStr, time::Duration};

use super::ConnectError;

/// A URL of a transport: a scheme, an address, and the parameters of its query.
///
/// The form is that of RFC 3986, except that an address may be a list of hosts, as brokers write it:
/// `nats://one:4222,two:4222`. `Debug` shows the scheme alone, because the address may have a password in it.
#[derive(Clone)]
pub struct TransportUrl {
    scheme: String,
    /// What stands between the scheme with its colon and the query.
    address: String,
    /// Names and values, decoded.
    parameters: Vec<(String, String)>,
}

impl TransportUrl {
    /// Parses a URL. The scheme is in lower case afterwards.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`](super::ConnectErrorKind::InvalidUrl) without a scheme, with a fragment, or with an invalid escape or an
    /// unescaped `@` in the query. A `?` in a password makes such a query.
    /// [`UnknownParameter`](super::ConnectErrorKind::UnknownParameter) for a parameter that is given twice.
    pub fn parse(text: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| no_url(text))?;
        let mut letters = scheme.chars();
        if !letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            || !letters.all(|char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.'))
        {
            return Err(no_url(text));
        }
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        // The rest of a password that is not escaped would become a parameter, whose name is in the errors, or be cut off.
        if rest.contains('#') || query.contains('@') {
            let expected = "expected `%3F`, `%23` and `%40` for `?`, `#` and `@` in a user, a password and the query";
            return Err(ConnectError::invalid_url(expected));
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(ConnectError::repeated_parameter(&name));
            }
            parameters.push((name, value));
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), address: address.to_owned(), parameters })
    }

    /// Returns the scheme, in lower case and without the colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the part of the URL between the scheme with its colon and the query, unchanged.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Removes a parameter and returns it.
    #[must_use]
    pub fn take(&mut self, name: &str) -> Option<String> {
        let index = self.parameters.iter().position(|(other, _)| other == name)?;
        Some(self.parameters.remove(index).1)
    }

    /// Removes a parameter, parses it and returns the value. `expected` is its form, for the error.
    ///
    /// # Errors
    ///
    /// [`InvalidParameter`](super::ConnectErrorKind::InvalidParameter).
    pub fn take_parsed<T: FromStr>(&mut self, name: &str, expected: &str) -> Result<Option<T>, ConnectError> {
        let parsed = self.take(name).map(|value| value.parse());
        parsed.transpose().map_err(|_| ConnectError::invalid_parameter(name, expected))
    }

    /// Removes a parameter that is a whole number of milliseconds (`500ms`), seconds (`30s`) or minutes (`5m`), and returns
    /// it.
    ///
    /// # Errors
    ///
    /// [`InvalidParameter`](super::ConnectErrorKind::InvalidParameter).
    pub fn take_duration(&mut self, name: &str) -> Result<Option<Duration>, ConnectError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        duration(&value)
            .map(Some)
            .ok_or_else(|| ConnectError::invalid_parameter(name, "a duration such as `500ms`, `30s` or `5m`"))
    }

    /// Requires that every parameter was taken.
    ///
    /// # Errors
    ///
    /// [`UnknownParameter`](super::ConnectErrorKind::UnknownParameter) with the name of one that was not.
    pub fn finish(&self) -> Result<(), ConnectError> {
        self.parameters.first().map_or(Ok(()), |(name, _)| Err(ConnectError::unknown_parameter(name)))
    }

    /// Returns the URL with the parameters that were not taken, for the parser of a client library. It may have a password in
    /// it.
    #[must_use]
    pub fn to_url(&self) -> String {
        let mut url = format!("{}:{}", self.scheme, self.address);
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            encode(name, &mut url);
            url.push('=');
            encode(value, &mut url);
        }
        url
    }
}

fn no_url(text: &str) -> ConnectError {
    let mut pairs = text.split(';').filter_map(|pair| pair.split_once('='));
    let is_connection_string = pairs
        .any(|(key, value)| key.trim().eq_ignore_ascii_case("Endpoint") && value.trim_start().starts_with("sb://"));
    ConnectError::invalid_url(if is_connection_string {
        "expected a URL instead of a connection string: `servicebus:?connection_string_from=VARIABLE` reads it from an environment variable"
    } else {
        "expected a scheme and a colon, as in `memory:`"
    })
}

/// Percent-decodes a part of a query, in UTF-8.
fn decoded(text: &str) -> Result<String, ConnectError> {
    let refused =
        || ConnectError::invalid_url("expected two hexadecimal digits after each `%` of the query, and UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2).ok_or_else(refused)?;
        let digits = std::str::from_utf8(digits).map_err(|_| refused())?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(refused());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| refused())?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

fn encode(text: &str, out: &mut String) {
    use std::fmt::Write;

    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':' | b',') {
            out.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

impl fmt::Debug for TransportUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportUrl").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ConnectErrorKind;

    fn parse(text: &str) -> TransportUrl {
        TransportUrl::parse(text).unwrap()
    }

    #[test]
    fn a_connection_string_is_refused_with_the_url_that_reads_it() {
        for text in [
            "Endpoint=sb://localhost;SharedAccessKeyName=any;SharedAccessKey=secret",
            "SharedAccessKeyName=any; SharedAccessKey=secret; endpoint = sb://localhost:5672",
        ] {
            let error = TransportUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ConnectErrorKind::InvalidUrl);
            let error = error.to_string();
            assert!(error.contains("`servicebus:?connection_string_from=VARIABLE`"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(!TransportUrl::parse("Endpoint=x").unwrap_err().to_string().contains("servicebus"));
    }

    #[test]
    fn an_address_is_kept_as_written_and_parameters_are_decoded() {
        let mut url = parse("NATS://a:s%2Fcret@one:4222,two:4222?namespace=my%20shop&timeout=500ms&left=1");
        assert_eq!((url.scheme(), url.address()), ("nats", "//a:s%2Fcret@one:4222,two:4222"));
        assert_eq!(url.take("namespace").as_deref(), Some("my shop"));
        assert_eq!(url.take_duration("timeout").unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(url.take_duration("absent").unwrap(), None);
        assert_eq!(url.to_url(), "nats://a:s%2Fcret@one:4222,two:4222?left=1");
        assert_eq!(url.finish().unwrap_err().kind(), ConnectErrorKind::UnknownParameter);
        assert_eq!(url.take_parsed::<u8>("left", "a number").unwrap(), Some(1));
        assert!(url.finish().is_ok());
        assert_eq!(parse("memory:").to_url(), "memory:");
        assert_eq!(parse("postgres:/db?options=-c%20a%3Db").to_url(), "postgres:/db?options=-c%20a%3Db");
    }

    #[test]
    fn a_repeated_parameter_is_reported_as_such() {
        let error = TransportUrl::parse("a:b?schema=1&schema=2").unwrap_err();
        assert!(error.to_string().contains("`schema` is given twice"), "{error}");
    }

    #[test]
    fn no_value_of_a_url_is_in_an_error_or_in_debug() {
        for (text, kind) in [
            ("", ConnectErrorKind::InvalidUrl),
            ("secret", ConnectErrorKind::InvalidUrl),
            ("1secret:x", ConnectErrorKind::InvalidUrl),
            ("sec ret:x", ConnectErrorKind::InvalidUrl),
            ("a:b?secret=%", ConnectErrorKind::InvalidUrl),
            ("a:b?c=secret%+1", ConnectErrorKind::InvalidUrl),
            ("a:b?c=secret%ff", ConnectErrorKind::InvalidUrl),
            ("a:b?c=secret&c=2", ConnectErrorKind::UnknownParameter),
            ("a://u:p?secret@h", ConnectErrorKind::InvalidUrl),
            ("a://u:p#secret@h", ConnectErrorKind::InvalidUrl),
            ("a://u:p@ss?secret@h", ConnectErrorKind::InvalidUrl),
            ("a://u:p@one,c:p?secret@two", ConnectErrorKind::InvalidUrl),
            ("amqp://shop:p@ss?word@host", ConnectErrorKind::InvalidUrl),
            ("nats://a:b@one,c:p?ss@two", ConnectErrorKind::InvalidUrl),
        ] {
            let error = TransportUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}");
            let shown = format!("{error} {error:?}");
            assert!(!["secret", "word@", "ss@"].iter().any(|part| shown.contains(part)), "{text}: {error}");
        }
        let escaped = parse("amqp://shop:p%40ss%3Fword@host?user=a%40b");
        assert_eq!(escaped.to_url(), "amqp://shop:p%40ss%3Fword@host?user=a%40b");
        let mut url = parse("a://u:secret@h?t=secret");
        assert!(!format!("{url:?}").contains("secret"));
        let error = url.take_duration("t").unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::InvalidParameter);
        let text = error.to_string();
        assert!(text.contains("`t`") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn a_duration_has_a_unit() {
        for text in ["5", "", "s", "1h", "-1s", "1.5s", "99999999999999999999s", "307445734561825861m"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
    }
}
