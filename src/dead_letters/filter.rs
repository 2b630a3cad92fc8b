use std::{fmt, sync::Arc, time::Duration};

use consign_codecs::ContentType;

use super::Explained;
use crate::{message::SequenceNumber, time::Timestamp};

type Test = Arc<dyn Fn(&Explained) -> bool + Send + Sync>;

/// A filter of dead letters: it selects those that pass all its tests.
///
/// ```
/// use std::time::Duration;
/// use consign::dead_letters::DeadLetterFilter;
///
/// let filter = DeadLetterFilter::all().reason("DeserializationFailed").codec("json").older_than(Duration::from_secs(3_600));
/// let either = filter.or(DeadLetterFilter::all().reason("UnsupportedContentType"));
/// # let _ = either.not();
/// ```
#[derive(Clone, Default)]
#[must_use = "a filter does nothing by itself"]
pub struct DeadLetterFilter {
    tests: Vec<Test>,
}

impl DeadLetterFilter {
    /// Selects every dead letter.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the dead letter with this number.
    pub fn number(number: SequenceNumber) -> Self {
        Self::all().matching(move |dead| dead.sequence_number() == number)
    }

    /// Selects dead letters with this reason, case-sensitive.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.matching(move |dead| dead.reason() == Some(&reason))
    }

    /// Selects dead letters whose body a codec of this name tried to decode.
    pub fn codec(self, codec: impl Into<String>) -> Self {
        let codec = codec.into();
        self.matching(move |dead| dead.attempts().iter().any(|attempt| attempt.codec() == codec))
    }

    /// Selects dead letters with this subject, which is the message type, case-sensitive.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        self.matching(move |dead| dead.message().subject() == Some(&subject))
    }

    /// Selects dead letters of this media type, in any case and with any parameters. A text that is not a media type has to
    /// be equal; an empty one selects those without a ContentType.
    pub fn content_type(self, content_type: impl AsRef<str>) -> Self {
        let wanted = ContentType::parse(content_type.as_ref());
        self.matching(move |dead| {
            let declared = dead.message().content_type().unwrap_or_default();
            match wanted.essence() {
                Some(essence) => ContentType::parse(declared).essence() == Some(essence),
                None => declared == wanted.as_str(),
            }
        })
    }

    /// Selects dead letters that were accepted longer ago than `age`.
    pub fn older_than(self, age: Duration) -> Self {
        self.matching(move |dead| dead.age().is_some_and(|of| of > age))
    }

    /// Selects dead letters that were accepted before this time.
    pub fn enqueued_before(self, time: Timestamp) -> Self {
        self.matching(move |dead| dead.enqueued_time().is_some_and(|of| of < time))
    }

    /// Selects dead letters that were accepted at this time or later.
    pub fn enqueued_from(self, time: Timestamp) -> Self {
        self.matching(move |dead| dead.enqueued_time().is_some_and(|of| of >= time))
    }

    /// Selects dead letters for which `test` returns `true`. It may be called more than once for each.
    pub fn matching(mut self, test: impl Fn(&Explained) -> bool + Send + Sync + 'static) -> Self {
        self.tests.push(Arc::new(test));
        self
    }

    /// Selects those that pass this filter or the other.
    pub fn or(self, other: Self) -> Self {
        Self::all().matching(move |dead| self.matches(dead) || other.matches(dead))
    }

    /// Selects those that do not pass.
    #[expect(clippy::should_implement_trait, reason = "it is one of the words that filters are made of")]
    pub fn not(self) -> Self {
        Self::all().matching(move |dead| !self.matches(dead))
    }

    /// Returns whether a dead letter passes.
    #[must_use]
    pub fn matches(&self, dead: &Explained) -> bool {
        self.tests.iter().all(|test| test(dead))
    }
}

impl fmt::Debug for DeadLetterFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterFilter").field("tests", &self.tests.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, message::Received, settlement::DeadLetter};

    const ENQUEUED: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn dead(content_type: &'static str) -> Explained {
        let message = Message::builder()
            .subject("order")
            .property(DeadLetter::REASON, "Reason")
            .property(DeadLetter::TRAIL, "json;exact;Syntax;1:5,cbor;fallback;Type;")
            .content_type(content_type)
            .build("")
            .unwrap();
        let received = Received::new(SequenceNumber::new(7), ENQUEUED, 1);
        Explained::new(message.with_received(received), ENQUEUED.saturating_add(Duration::from_secs(10)))
    }

    /// Rules: L-04.
    #[test]
    fn each_test_tells_apart() {
        let later = ENQUEUED.saturating_add(Duration::from_millis(1));
        for (passes, fails) in [
            (DeadLetterFilter::all(), DeadLetterFilter::all().not()),
            (DeadLetterFilter::number(SequenceNumber::new(7)), DeadLetterFilter::number(SequenceNumber::new(8))),
            (DeadLetterFilter::all().reason("Reason"), DeadLetterFilter::all().reason("reason")),
            (DeadLetterFilter::all().codec("json"), DeadLetterFilter::all().codec("msgpack")),
            (DeadLetterFilter::all().codec("cbor"), DeadLetterFilter::all().codec("")),
            (DeadLetterFilter::all().subject("order"), DeadLetterFilter::all().subject("orders")),
            (
                DeadLetterFilter::all().older_than(Duration::from_secs(9)),
                DeadLetterFilter::all().older_than(Duration::from_secs(10)),
            ),
            (DeadLetterFilter::all().enqueued_before(later), DeadLetterFilter::all().enqueued_before(ENQUEUED)),
            (DeadLetterFilter::all().enqueued_from(ENQUEUED), DeadLetterFilter::all().enqueued_from(later)),
            (DeadLetterFilter::all().matching(|_| true), DeadLetterFilter::all().matching(|_| false)),
        ] {
            let dead = dead("application/json");
            assert!(passes.matches(&dead) && !fails.matches(&dead), "{passes:?}");
            assert!(!passes.clone().reason("other").matches(&dead) && passes.clone().or(fails.clone()).matches(&dead));
            assert!(!passes.not().or(fails).matches(&dead));
        }
    }

    /// Rules: L-04.
    #[test]
    fn a_media_type_is_compared_without_its_parameters() {
        for (wanted, declared, is_match) in [
            ("application/json", "Application/JSON; charset=utf-8", true),
            ("application/json;a=b", "application/json", true),
            ("application/json", "application/vnd.acme+json", false),
            ("application/json", "json", false),
            ("json", "json", true),
            ("json", "application/json", false),
            ("", "", true),
            ("", "application/json", false),
        ] {
            assert_eq!(
                DeadLetterFilter::all().content_type(wanted).matches(&dead(declared)),
                is_match,
                "{wanted} {declared}"
            );
        }
    }

    #[test]
    fn an_unknown_property_passes_no_filter() {
        let unknown = Explained::new(Message::new(""), ENQUEUED);
        for filter in [
            DeadLetterFilter::all().reason(""),
            DeadLetterFilter::all().codec(""),
            DeadLetterFilter::all().subject(""),
            DeadLetterFilter::all().older_than(Duration::ZERO),
            DeadLetterFilter::all().enqueued_before(Timestamp::MAX),
            DeadLetterFilter::all().enqueued_from(Timestamp::EPOCH),
        ] {
            assert!(!filter.matches(&unknown));
        }
    }

    #[test]
    fn an_unknown_time_is_of_no_age() {
        let now = ENQUEUED.saturating_add(Duration::from_secs(10));
        let received = Received::new(SequenceNumber::new(7), Timestamp::EPOCH, 1);
        let dead = Explained::new(Message::new("").with_received(received), now);
        assert_eq!((dead.enqueued_time(), dead.age()), (None, None));
        assert!(!DeadLetterFilter::all().older_than(Duration::from_secs(1)).matches(&dead));
        assert!(!DeadLetterFilter::all().enqueued_before(now).matches(&dead));
    }
}
