use consign::{
    Message,
    message::{MessageBuilder, PropertyValue},
    rules::{EvaluationError, FilterError, SqlFilter},
};
use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestCaseResult, TestRunner},
};

/// The message that the tables speak of.
pub(crate) fn message() -> Message {
    builder().build("1=1").unwrap()
}

pub(crate) fn builder() -> MessageBuilder {
    Message::builder()
        .message_id("m-1")
        .subject("order.created")
        .correlation_id("c")
        .property("colour", "red")
        .property("Count", 7)
        .property("big", i64::MAX)
        .property("huge", u64::MAX)
        .property("byte", 200_u8)
        .property("half", 0.5)
        .property("single", 0.25_f32)
        .property("yes", true)
        .property("nothing", PropertyValue::Null)
        .property("letter", 'x')
        .property("uri", PropertyValue::Uri("http://a/".into()))
        .property("id", PropertyValue::Uuid([7; 16]))
        .property("span", PropertyValue::TimeSpan(10))
        .property("longer", PropertyValue::TimeSpan(11))
        .property("percent", "50%")
        .property("the name", "colour")
        .property("größe", 1)
        .property("both", "lower")
        .property("Both", "upper")
        .property("and", 1)
}

pub(crate) fn evaluate(text: &str, message: &Message) -> Result<Option<bool>, EvaluationError> {
    let filter = SqlFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let result = filter.evaluate(message);
    assert_eq!(filter.matches(message), result.clone().map(|truth| truth == Some(true)), "{text}");
    result.map_err(|error: FilterError| error.kind().clone())
}

/// Checks a table of expressions against the message of [`message`].
pub(crate) fn check(table: &[(&str, Option<bool>)]) {
    let message = message();
    for (text, expected) in table {
        assert_eq!(evaluate(text, &message), Ok(*expected), "{text}");
    }
}

pub(crate) const T: Option<bool> = Some(true);
pub(crate) const F: Option<bool> = Some(false);
pub(crate) const U: Option<bool> = None;

/// Runs a random test. `SEED` sets the seed, and a failure says how to repeat it.
pub(crate) fn random<S: Strategy>(test: &str, strategy: &S, check: impl Fn(S::Value) -> TestCaseResult) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("SEED").unwrap_or(59);
    let cases = number("CONSIGN_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(1_000);
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, check) {
        panic!("{error}\nreplay: SEED={seed} CONSIGN_CASES={cases} cargo test --test rules {test}");
    }
}
