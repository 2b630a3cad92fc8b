use consign_core::{Message, message::PropertyValue};
use consign_rules::{Filter, ParseError, ParseErrorKind, Rule, SqlAction, SqlFilter};

/// Parses a text as a filter and as an action of SQL, and evaluates it on messages.
///
/// # Panics
/// What is parsed is written as something else.
pub fn rules(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let message = message();
    match SqlFilter::parse(text) {
        Ok(filter) => {
            let written = filter.to_string();
            if let Some(again) = read_again(&written, SqlFilter::parse(&written)) {
                assert_eq!(again.to_string(), written);
                let one = filter.evaluate(&message).map_err(|error| error.to_string());
                let other = again.evaluate(&message).map_err(|error| error.to_string());
                assert_eq!(one, other, "{written}");
            }
            let rule = Rule::new("r", Filter::from(filter)).expect("the name is allowed");
            drop(rule);
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
    match SqlAction::parse(text) {
        Ok(action) => {
            let written = action.to_string();
            if let Some(again) = read_again(&written, SqlAction::parse(&written)) {
                assert_eq!(again.to_string(), written);
                let (mut one, mut other) = (message.clone(), message);
                let outcomes = (action.apply(&mut one).is_ok(), again.apply(&mut other).is_ok());
                assert_eq!(outcomes.0, outcomes.1, "{written}");
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{written}");
            }
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

/// What a canonical form reads as. It may be longer than its source, and than what is read.
fn read_again<T>(written: &str, read: Result<T, ParseError>) -> Option<T> {
    match read {
        Err(error) if matches!(error.kind(), ParseErrorKind::TooLong { .. }) => {
            assert!(written.encode_utf16().count() > 1_024, "{error}: {written}");
            None
        }
        read => Some(read.unwrap_or_else(|error| panic!("{error}: {written}"))),
    }
}

/// A message with a property of each kind that a filter computes with.
fn message() -> Message {
    let builder = Message::builder().message_id("m-1").subject("orders").property("a", 1_i64).property("b", "text");
    let builder = builder.property("c", 1.5_f64).property("d", true).property("e", PropertyValue::Null);
    builder.build("body").expect("the properties are allowed")
}
