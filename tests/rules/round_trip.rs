use std::cell::Cell;

use consign::rules::{ParseErrorKind, SqlAction, SqlFilter};
use proptest::{prelude::*, sample::select};

use crate::{
    model::{self, Failed},
    support,
};

/// Rules: T-59.
#[test]
fn trees_mean_what_the_model_says_and_read_back_from_their_canonical_form() {
    let name = "round_trip::trees_mean_what_the_model_says_and_read_back_from_their_canonical_form";
    let message = model::message();
    support::random(name, &(model::predicates(), any::<bool>()), |(tree, full)| {
        let mut text = String::new();
        tree.write(full, &mut text);
        let filter = match SqlFilter::parse(&text) {
            Err(error) if matches!(error.kind(), ParseErrorKind::TooLong { .. }) => return Ok(()),
            result => result.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?,
        };
        prop_assert_eq!(filter.as_str(), &text);
        let expected = tree.evaluate();
        let result = filter.evaluate(&message).map_err(|_| Failed);
        prop_assert_eq!(&result, &expected, "{}", text);

        let canonical = filter.to_string();
        if canonical.len() <= 1_024 {
            let again = SqlFilter::parse(&canonical);
            let again = again.map_err(|error| TestCaseError::fail(format!("{text}\n{canonical}: {error}")))?;
            prop_assert_eq!(&again, &filter, "{} is not {}", text, canonical);
            prop_assert_eq!(again.to_string(), canonical);
            prop_assert_eq!(again.evaluate(&message).map_err(|_| Failed), expected, "{}", text);
        }
        Ok(())
    });
}

const TOKENS: &str = "a p property newid sys user To Foo AND OR NOT IS NULL IN LIKE ESCAPE EXISTS TRUE FALSE SET REMOVE \
    ( ) , . ; = <> != < <= > >= + - * / % 1 9223372036854775808 1.5 1e3 1e 'x' '' 'it''s' ' [a] [b]]c] [ \"q\" \" ! ? 🦀 é _";

/// Rules: T-59.
#[test]
fn random_tokens_never_panic() {
    let tokens = prop::collection::vec(select(TOKENS.split_whitespace().collect::<Vec<_>>()), 0..24);
    let message = support::message();
    let (filters, actions) = (Cell::new(0), Cell::new(0));
    support::random(
        "round_trip::random_tokens_never_panic",
        &(tokens, any::<bool>(), any::<bool>()),
        |(tokens, spaced, sets)| {
            let text = tokens.join(if spaced { " " } else { "" });
            let text = if sets { format!("SET a = {text}") } else { text };
            match SqlFilter::parse(&text) {
                Ok(filter) => {
                    filters.set(filters.get() + 1);
                    let _ = filter.evaluate(&message);
                    prop_assert_eq!(SqlFilter::parse(&filter.to_string()), Ok(filter));
                }
                Err(error) => {
                    prop_assert!(text.is_char_boundary(error.position()));
                    prop_assert!(error.to_string().len() < 300);
                }
            }
            if let Ok(action) = SqlAction::parse(&text) {
                actions.set(actions.get() + 1);
                let _ = action.apply(&mut message.clone());
                prop_assert_eq!(SqlAction::parse(&action.to_string()), Ok(action));
            }
            Ok(())
        },
    );
    // Without them nothing was evaluated, applied or read again.
    assert!(filters.get() > 0 && actions.get() > 0, "{} filters, {} actions", filters.get(), actions.get());
}

/// Rules: T-59.
#[test]
fn random_text_never_panics() {
    support::random("round_trip::random_text_never_panics", &".{0,40}", |text: String| {
        let _ = SqlFilter::parse(&text).map_err(|error| error.to_string());
        let _ = SqlAction::parse(&text).map_err(|error| error.to_string());
        Ok(())
    });
}

/// Rules: T-59.
#[test]
fn the_canonical_form_has_one_spelling() {
    for (text, canonical) in [
        ("user.a=1 and not[b c]<>'it''s'", "a = 1 AND NOT [b c] <> 'it''s'"),
        ("((a)) != (1+(2*3))", "a <> 1 + 2 * 3"),
        ("(1+2)*3 = 1-(2-3)", "(1 + 2) * 3 = 1 - (2 - 3)"),
        ("(a=1 or b=2) and not (c=3 and d=4)", "(a = 1 OR b = 2) AND NOT (c = 3 AND d = 4)"),
        ("sys.label like 'x%' escape '!'", "sys.Subject LIKE 'x%' ESCAPE '!'"),
        ("sys.foo is not null", "sys.foo IS NOT NULL"),
        ("p ( a ) not in(1,2.0,1e3,-4)", "property(a) NOT IN (1, 2.0, 1000.0, -4)"),
        ("- - a = -(5)", "- -a = -(5)"),
        ("-(a+b) = - -5", "-(a + b) = - -5"),
        ("[set]=1 and [and]=2 and []]]=3", "[set] = 1 AND [and] = 2 AND []]] = 3"),
        ("exists(\"a\"\"b\")", "EXISTS([a\"b])"),
        ("a = true or a = null", "a = TRUE OR a = NULL"),
    ] {
        let filter = SqlFilter::parse(text).unwrap();
        assert_eq!((filter.to_string(), filter.as_str()), (canonical.to_owned(), text));
        assert_eq!(SqlFilter::parse(canonical), Ok(filter));
    }
    let action = SqlAction::parse("set a=b remove [c d];set sys.label=newid();").unwrap();
    assert_eq!(action.to_string(), "SET a = b; REMOVE [c d]; SET sys.Subject = newid()");
}
