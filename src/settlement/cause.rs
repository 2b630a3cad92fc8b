//! The text of an error, with those of its causes.

use std::{
    error::Error,
    fmt::{self, Write},
};

use consign_codecs::EncodeError;

/// Most bytes that are kept of a cause.
const MOST: usize = 1_024;

/// The texts of an error and of its sources, one after the other: at most 1,024 bytes. The source of an [`EncodeError`] is left
/// out, because it may quote the value, and these texts are logged and kept with dead letters.
#[cold]
pub(crate) fn cause_of(error: &(dyn Error + 'static)) -> String {
    let mut text = Bounded(String::new());
    // That it is full is the only failure, or one of the error's own; what is there will do.
    let _ = write_chain(error, &mut text);
    text.0
}

fn write_chain(error: &(dyn Error + 'static), text: &mut Bounded) -> fmt::Result {
    write!(text, "{error}")?;
    let mut next = source_of(error);
    let mut last = 0;
    while let Some(source) = next {
        let mut one = Bounded(String::new());
        let _ = write!(one, "{source}");
        // Many errors show their source themselves.
        if !text.0[last..].contains(&*one.0) {
            last = text.0.len();
            write!(text, ": {}", one.0)?;
        }
        next = source_of(source);
    }
    Ok(())
}

fn source_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    if error.is::<EncodeError>() { None } else { error.source() }
}

struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const MARK: &str = "…";
        let left = (MOST - MARK.len()).saturating_sub(self.0.len());
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=left).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        self.0.push_str(MARK);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn a_cause_has_the_texts_of_all_sources_once() {
        let refused = Failed("connection refused", None);
        let query = Failed("the query failed", Some(Box::new(refused)));
        assert_eq!(
            cause_of(&Failed("no price", Some(Box::new(query)))),
            "no price: the query failed: connection refused"
        );
        let shown = Failed("no price (connection refused)", Some(Box::new(Failed("connection refused", None))));
        assert_eq!(cause_of(&shown), "no price (connection refused)");
    }

    /// Rules: O-273.
    #[test]
    fn the_source_of_an_encode_error_is_left_out() {
        use consign_codecs::EncodeErrorKind;

        let quotes = || EncodeError::new(EncodeErrorKind::Unsupported).with_source("the value `CANARY` is no key");
        assert_eq!(cause_of(&quotes()), "the format cannot represent the value");
        let error = crate::transport::SendError::new(crate::transport::ErrorKind::Serialization).with_source(quotes());
        let cause = cause_of(&error);
        assert!(cause.ends_with(": the format cannot represent the value"), "{cause}");
        assert!(error.source().and_then(Error::source).is_some_and(|source| source.to_string().contains("CANARY")));
    }

    #[test]
    fn a_cause_is_bounded() {
        for text in ["x".repeat(1 << 20), "語".repeat(1 << 18), "🦀".repeat(1 << 18)] {
            let cause = cause_of(&*Box::<dyn Error + Send + Sync>::from(text));
            assert!((MOST - 8..=MOST).contains(&cause.len()) && cause.ends_with('…'), "{}", cause.len());
        }
    }
}
