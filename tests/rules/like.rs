use consign::{
    Message,
    rules::{EvaluationError, SqlFilter},
};
use proptest::{prelude::*, string::string_regex};

use crate::{model, support};

fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<Option<bool>, EvaluationError> {
    let message = Message::builder().property("t", text).property("p", pattern).build("").unwrap();
    let escape = escape.map_or(String::new(), |char| format!(" ESCAPE '{char}'"));
    support::evaluate(&format!("t LIKE p{escape}"), &message)
}

/// Rules: T-59a.
#[test]
fn like_agrees_with_a_naive_matcher() {
    let texts = string_regex("[ab%_\u{e9}]{0,7}").unwrap();
    let patterns = string_regex("[ab%%_!\u{e9}]{0,7}").unwrap();
    support::random(
        "like::like_agrees_with_a_naive_matcher",
        &(texts, patterns, any::<bool>()),
        |(text, pattern, escaped)| {
            let escape = escaped.then_some('!');
            let expected = model::like(&text, &pattern, escape);
            let result = like(&text, &pattern, escape);
            let expected = expected.map(Some).ok_or(EvaluationError::InvalidPattern);
            prop_assert_eq!(result, expected, "{} LIKE {}", text, pattern);
            Ok(())
        },
    );
}

/// Rules: T-59a.
/// A matcher that tries every way would not come back.
#[test]
fn like_does_not_explode() {
    let pattern = "%a".repeat(300);
    assert_eq!(like(&"a".repeat(299), &pattern, None), Ok(Some(false)));
    assert_eq!(like(&"a".repeat(300), &pattern, None), Ok(Some(true)));
    assert_eq!(like(&("a".repeat(5_000) + "b"), &pattern, None), Ok(Some(false)));
    // As many steps as both lengths allow, and more than are allowed.
    let text = "a".repeat(30_000);
    let hard = format!("%{}b", "a".repeat(400));
    assert_eq!(like(&text, &hard, None), Err(EvaluationError::TooManySteps { limit: 1 << 22 }));
    // The steps of one evaluation are counted together.
    let short = format!("%{}b", "a".repeat(100));
    let message = Message::builder().property("t", text).build("").unwrap();
    let one = format!("t LIKE '{short}'");
    assert_eq!(support::evaluate(&one, &message), Ok(Some(false)));
    let error = SqlFilter::parse(&format!("{one} OR {one}")).unwrap().matches(&message).unwrap_err();
    assert_eq!(error.kind(), &EvaluationError::TooManySteps { limit: 1 << 22 });
}
