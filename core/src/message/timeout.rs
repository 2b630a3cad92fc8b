//! The timeout of a requester, as an application property.

use std::time::Duration;

use super::{Field, InvalidArgument, Problem, Properties, PropertyValue};

impl Properties {
    /// The application property that holds how long the sender of a request waits for its reply, where the transport has
    /// no [`time_to_live`](Properties::time_to_live): whole milliseconds, as an integer or as text in decimal digits.
    ///
    /// It counts from the enqueued time of the message. If the broker sets that time, no clock of a client matters.
    pub const TIMEOUT: &'static str = "x-timeout-ms";

    /// Returns how long the sender waits, by the application property [`TIMEOUT`](Self::TIMEOUT). A number that is too
    /// large is the largest one.
    ///
    /// # Errors
    ///
    /// The property is neither an integer nor text in decimal digits, or it is negative.
    pub fn timeout(&self) -> Result<Option<Duration>, InvalidArgument> {
        let Some(value) = self.application_properties().get(Self::TIMEOUT) else { return Ok(None) };
        let is_too_large = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let millis = match value {
            PropertyValue::String(text) if is_too_large(text) => Some(text.parse().unwrap_or(u64::MAX)),
            PropertyValue::String(_) => None,
            number => number.to_u64(),
        };
        let invalid = || InvalidArgument::new(Field::application_property(Self::TIMEOUT), Problem::NotMilliseconds);
        millis.map(|millis| Some(Duration::from_millis(millis))).ok_or_else(invalid)
    }

    /// Sets the application property [`TIMEOUT`](Self::TIMEOUT), in whole milliseconds.
    pub fn set_timeout(&mut self, timeout: Duration) -> &mut Self {
        let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        self.application_properties_mut().insert(Self::TIMEOUT, millis);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(value: impl Into<PropertyValue>) -> Result<Option<Duration>, InvalidArgument> {
        let mut properties = Properties::new();
        properties.application_properties_mut().insert(Properties::TIMEOUT, value);
        properties.timeout()
    }

    /// Rules: R-201.
    #[test]
    fn a_timeout_is_an_integer_or_decimal_digits() {
        let five = Ok(Some(Duration::from_millis(5)));
        assert_eq!(
            (timeout(5_u8), timeout(5_i64), timeout("5"), timeout("0005")),
            (five.clone(), five.clone(), five.clone(), five)
        );
        assert_eq!((timeout(0), Properties::new().timeout()), (Ok(Some(Duration::ZERO)), Ok(None)));
        for large in [PropertyValue::from(u64::MAX), "18446744073709551616".into(), "9".repeat(10_000).into()] {
            assert_eq!(timeout(large), Ok(Some(Duration::from_millis(u64::MAX))));
        }
        for bad in [
            PropertyValue::from(-1),
            i64::MIN.into(),
            "-1".into(),
            "+1".into(),
            "".into(),
            " 5".into(),
            "5s".into(),
            5.0_f64.into(),
            true.into(),
            PropertyValue::Null,
        ] {
            let error = timeout(bad.clone()).expect_err("no number of milliseconds");
            assert_eq!(
                error.to_string(),
                "application property \"x-timeout-ms\" must be a whole number of milliseconds",
                "{bad:?}"
            );
        }
        let mut properties = Properties::new();
        properties.set_timeout(Duration::MAX);
        assert_eq!(properties.timeout(), Ok(Some(Duration::from_millis(i64::MAX.unsigned_abs()))));
    }
}
