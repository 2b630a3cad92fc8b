use std::{fmt, sync::Arc, time::Duration};

use consign_codecs::ContentType;

use super::Explained;
use crate::{message::SequenceNumber, time::Timestamp};

type Test = Arc<dyn Fn(&Explained) -> bool + Send + Sync>;

/// A filter of dead letters: it selects those that pass all its tests.
///
/// ```
/// use std::time::Duration;
/// use consign::dead_letters::Filter;
///
/// let filter = Filter::all().reason("DeserializationFailed").codec("json").older_than(Duration::from_secs(3_600));
/// let either = filter.or(Filter::all().reason("UnsupportedContentType"));
/// # let _ = either.not();
/// ```
#[derive(Clone, Default)]
#[must_use = "a filter does nothing by itself"]
pub struct Filter {
    tests: Vec<Test>,
}

impl Filter {
    /// Selects every dead letter.
    pub fn all() -> Self {
        Self::default()
    }

    /// Selects the dead letter with this number.
    pub fn number(number: SequenceNumber) -> Self {
        Self::all().matching(move |dead| dead.sequence_number() == number)
    }

    /// Keeps those with this code as reason, case-sensitive.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.matching(move |dead| dead.reason() == Some(&reason))
    }

    /// Keeps those whose body a codec of this name tried to decode.
    pub fn codec(self, codec: impl Into<String>) -> Self {
        let codec = codec.into();
        self.matching(move |dead| dead.attempts().iter().any(|attempt| attempt.codec() == codec))
    }

    /// Keeps those with this subject, which is the type of message, case-sensitive.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        let subject = subject.into();
        self.matching(move |dead| dead.message().subject() == Some(&subject))
    }

    /// Keeps those of this media type, whatever its parameters and its case. A text that is not a media type has to be
    /// equal; an empty one selects those without a ContentType.
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

    /// Keeps those that their queue accepted longer ago than this.
    pub fn older_than(self, age: Duration) -> Self {
        self.matching(move |dead| dead.age().is_some_and(|of| of > age))
    }

    /// Keeps those that their queue accepted before this instant.
    pub fn enqueued_before(self, time: Timestamp) -> Self {
        self.matching(move |dead| dead.enqueued_time().is_some_and(|of| of < time))
    }

    /// Keeps those that their queue accepted at this instant or later.
    pub fn enqueued_from(self, time: Timestamp) -> Self {
        self.matching(move |dead| dead.enqueued_time().is_some_and(|of| of >= time))
    }

    /// Keeps those for which `test` returns `true`. It may be called more than once for each.
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

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("tests", &self.tests.len()).finish_non_exhaustive()
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
            (Filter::all(), Filter::all().not()),
            (Filter::number(SequenceNumber::new(7)), Filter::number(SequenceNumber::new(8))),
            (Filter::all().reason("Reason"), Filter::all().reason("reason")),
            (Filter::all().codec("json"), Filter::all().codec("msgpack")),
            (Filter::all().codec("cbor"), Filter::all().codec("")),
            (Filter::all().subject("order"), Filter::all().subject("orders")),
            (Filter::all().older_than(Duration::from_secs(9)), Filter::all().older_than(Duration::from_secs(10))),
            (Filter::all().enqueued_before(later), Filter::all().enqueued_before(ENQUEUED)),
            (Filter::all().enqueued_from(ENQUEUED), Filter::all().enqueued_from(later)),
            (Filter::all().matching(|_| true), Filter::all().matching(|_| false)),
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
            assert_eq!(Filter::all().content_type(wanted).matches(&dead(declared)), is_match, "{wanted} {declared}");
        }
    }

    #[test]
    fn what_is_not_known_of_a_message_passes_no_test_of_it() {
        let unknown = Explained::new(Message::new(""), ENQUEUED);
        for filter in [
            Filter::all().reason(""),
            Filter::all().codec(""),
            Filter::all().subject(""),
            Filter::all().older_than(Duration::ZERO),
            Filter::all().enqueued_before(Timestamp::MAX),
            Filter::all().enqueued_from(Timestamp::EPOCH),
        ] {
            assert!(!filter.matches(&unknown));
        }
    }
}
