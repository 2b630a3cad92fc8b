use consign::{
    Message,
    message::PropertyValue,
    rules::{EvaluationError, Filter, SqlFilter},
    time::Timestamp,
};

use crate::support::{F, T, U, builder, check, evaluate, message};

/// Rules: T-55.
#[test]
fn true_and_false_are_expressions_too() {
    check(&[("1=1", T), ("1=0", F)]);
    let message = message();
    assert_eq!(Filter::True.matches(&message), Ok(true));
    assert_eq!(Filter::False.matches(&message), Ok(false));
}

/// Rules: T-58.
#[test]
fn no_filter_sees_the_body() {
    let error = EvaluationError::UnknownSystemProperty("Body".into());
    assert_eq!(evaluate("sys.Body = '1=1'", &message()), Err(error));
    check(&[("body IS NULL", T)]);
}

/// Rules: T-59a.
#[test]
fn names_and_words_have_no_case_and_text_has() {
    check(&[
        ("COLOUR = 'red'", T),
        ("Colour = 'RED'", F),
        ("User.colour = 'red'", T),
        ("[colour] = 'red'", T),
        ("\"Colour\" = 'red'", T),
        ("[The Name] = 'colour'", T),
        ("count = 7", T),
        ("GRÖSSE IS NULL", T),
        ("GRÖßE = 1", T),
        // The same spelling wins.
        ("both = 'lower'", T),
        ("Both = 'upper'", T),
        ("BOTH = 'upper'", T),
        ("[and] = 1", T),
        ("colour is not null aNd nOt colour lIkE 'x'", T),
        ("true = TRUE AND yes = True", T),
    ]);
}

/// Rules: T-59a.
#[test]
fn like_has_runs_single_characters_and_an_escape() {
    check(&[
        ("colour LIKE 'r%'", T),
        ("colour LIKE '%d'", T),
        ("colour LIKE 'r_d'", T),
        ("colour LIKE 'r_'", F),
        ("colour LIKE 'R%'", F),
        ("colour LIKE '%'", T),
        ("colour LIKE ''", F),
        ("colour NOT LIKE 'b%'", T),
        ("'ABC%' LIKE 'ABC\\%' ESCAPE '\\'", T),
        ("'ABCD' LIKE 'ABC\\%' ESCAPE '\\'", F),
        ("'a_c' LIKE 'a!_c' ESCAPE '!'", T),
        ("'abc' LIKE 'a!_c' ESCAPE '!'", F),
        ("percent LIKE '5_!%' ESCAPE '!'", T),
        // The escape character wins over its own meaning, and stands for itself when it is doubled.
        ("'50%' LIKE '50%%' ESCAPE '%'", T),
        ("'500' LIKE '50%%' ESCAPE '%'", F),
        // A pattern is an expression.
        ("colour LIKE colour", T),
        ("'red and blue' LIKE colour + '%'", T),
        ("letter LIKE '_'", T),
        ("uri LIKE 'http://%'", T),
        // What is no text is like nothing, and not unlike it either.
        ("Count LIKE '7'", U),
        ("colour LIKE 7", U),
        ("colour NOT LIKE 7", U),
    ]);
}

/// Rules: T-59b.
#[test]
fn a_missing_property_is_unknown() {
    check(&[
        ("missing = 1", U),
        ("1 <> missing", U),
        ("missing < missing", U),
        ("missing + 1 = 2", U),
        ("-missing = 0", U),
        ("nothing = 1", U),
        ("NULL = NULL", U),
        ("missing LIKE '%'", U),
        ("colour LIKE missing", U),
        ("colour LIKE 'r' ESCAPE missing", U),
        ("missing NOT LIKE 'x'", U),
        ("missing IN (1)", U),
        ("missing NOT IN (1)", U),
        ("property('missing') = 1", U),
        ("p(missing) = 1", U),
        ("p(7) = 1", U),
        // Only the left side makes IN unknown.
        ("1 IN (missing, 1)", T),
        ("1 IN (missing, 2)", F),
        ("1 NOT IN (missing, 2)", T),
        ("1 IN ('1')", F),
    ]);
}

/// Rules: T-59b.
#[test]
fn truth_tables() {
    let sides = [("1=1", T), ("1=0", F), ("missing=1", U)];
    for (left, l) in sides {
        let not = l.map(|truth: bool| !truth);
        check(&[(&format!("NOT {left}"), not), (&format!("NOT NOT {left}"), l)]);
        for (right, r) in sides {
            let and = if l == F || r == F {
                F
            } else if l == T && r == T {
                T
            } else {
                U
            };
            let or = if l == T || r == T {
                T
            } else if l == F && r == F {
                F
            } else {
                U
            };
            check(&[(&format!("{left} AND {right}"), and), (&format!("{left} OR {right}"), or)]);
        }
    }
    assert_eq!(SqlFilter::parse("missing = 1").unwrap().matches(&message()), Ok(false));
    assert_eq!(SqlFilter::parse("NOT missing = 1").unwrap().matches(&message()), Ok(false));
}

/// Rules: T-59c.
#[test]
fn a_missing_system_property_is_an_error_when_it_is_read() {
    let error = || Err(EvaluationError::UnknownSystemProperty("Colour".into()));
    for text in
        ["sys.Colour = 1", "sys.Colour IS NULL", "EXISTS(sys.[Colour])", "1 IN (sys.Colour)", "sys.Colour LIKE '%'"]
    {
        assert_eq!(evaluate(text, &message()), error(), "{text}");
    }
    // Sides are read as far as the result needs.
    check(&[("1 = 0 AND sys.Colour = 1", F), ("1 = 1 OR sys.Colour = 1", T)]);
    assert_eq!(evaluate("missing = 1 AND sys.Colour = 1", &message()), error());
    let long = format!("sys.[{}] = 1", "\u{1b}".repeat(200));
    let error = SqlFilter::parse(&long).unwrap().matches(&message()).unwrap_err();
    assert!(error.to_string().len() < 500 && !error.to_string().contains('\u{1b}'));
    assert_eq!(error.name(), "FilterException");
}

/// Rules: T-59d.
#[test]
fn is_null_holds_for_what_is_missing_and_what_is_null() {
    check(&[
        ("missing IS NULL", T),
        ("nothing IS NULL", T),
        ("colour IS NULL", F),
        ("missing IS NOT NULL", F),
        ("colour IS NOT NULL", T),
        ("sys.ReplyTo IS NULL", T),
        ("sys.Label IS NULL", F),
        ("EXISTS(colour)", T),
        ("EXISTS(missing)", F),
        // There is one, and it is null.
        ("EXISTS(nothing)", T),
        ("EXISTS(sys.Label)", T),
        ("EXISTS(sys.ReplyTo)", F),
    ]);
}

/// Rules: T-59e.
#[test]
fn numbers_are_promoted_and_text_is_not() {
    check(&[
        ("Count = 7", T),
        ("byte = 200", T),
        ("byte + 100 = 300", T),
        ("7 / 2 = 3", T),
        ("-7 / 2 = -3", T),
        ("-7 % 4 = -3", T),
        ("7 / 2.0 = 3.5", T),
        ("7.5 % 2 = 1.5", T),
        ("half + single = 0.75", T),
        ("1 = 1.0", T),
        ("1E2 = 100", T),
        ("5E-1 = half", T),
        // As in C#: the integer becomes a floating-point number.
        ("9007199254740993 = 9007199254740992.0", T),
        ("9007199254740993 = 9007199254740992", F),
        ("huge > big", T),
        ("huge = huge", T),
        ("1.0 / 0 > 1", T),
        ("0.0 / 0 = 0.0 / 0", F),
        ("0.0 / 0 <> 1", T),
        ("0.0 / 0 < 1", F),
        ("0.0 / 0 >= 1", F),
        ("2 + 3 * 4 = 14", T),
        ("(2 + 3) * 4 = 20", T),
        ("10 - 4 - 3 = 3", T),
        ("10 - (4 - 3) = 9", T),
        ("64 / 4 / 2 = 8", T),
        ("- -5 = 5", T),
        ("-9223372036854775808 < 0", T),
        ("+Count = 7", T),
        ("'1' = 1", U),
        ("'1' < 2", U),
        ("colour + 1 = 'red1'", U),
        ("colour + '!' = 'red!'", T),
        ("colour - 'd' = 're'", U),
        ("-colour = 1", U),
        ("'a' < 'b'", T),
        ("'B' < 'a'", T),
        ("letter = 'x'", T),
        ("letter + 'y' = 'xy'", T),
        ("uri = 'http://a/'", T),
        ("yes = TRUE", T),
        ("yes > FALSE", U),
        ("yes = 1", U),
        ("span < longer", T),
        ("span = 10", U),
        ("id = id", T),
        ("id < id", U),
        ("id = '07070707-0707-0707-0707-070707070707'", U),
        ("newid() = newid()", F),
        ("newid() <> newid()", T),
        ("newid() < newid()", U),
    ]);
}

/// Rules: T-59e.
#[test]
fn integers_that_overflow_or_are_divided_by_zero_are_errors() {
    for text in [
        "big + 1 > 0",
        "-big - 2 < 0",
        "big * 2 > 0",
        "huge * huge > 0",
        "huge + 0 > 0",
        "-9223372036854775808 / -1 > 0",
        "-(-9223372036854775808) > 0",
    ] {
        assert_eq!(evaluate(text, &message()), Err(EvaluationError::Overflow), "{text}");
    }
    for text in ["1 / 0 = 1", "1 % 0 = 1", "Count / (Count - 7) = 1"] {
        assert_eq!(evaluate(text, &message()), Err(EvaluationError::DivisionByZero), "{text}");
    }
    check(&[("missing / 0 = 1", U), ("'a' / 0 = 1", U)]);
}

/// Rules: T-59e.
#[test]
fn instants_compare_whatever_their_type() {
    let second = 621_355_968_000_000_000 + 10_000_000;
    let message = builder()
        .property("time", Timestamp::from_millis(1_000))
        .property("same", PropertyValue::DateTimeOffset(second))
        .property("later", PropertyValue::DateTimeOffset(second + 1))
        .build("")
        .unwrap();
    for (text, expected) in [("time = same", T), ("time < later", T), ("time = 1000", U), ("time = span", U)] {
        assert_eq!(evaluate(text, &message), Ok(expected), "{text}");
    }
}

/// Rules: T-59.
#[test]
fn operators_bind_in_their_order() {
    check(&[
        ("1=1 OR 1=0 AND 1=0", T),
        ("(1=1 OR 1=0) AND 1=0", F),
        ("NOT 1=0 AND 1=0", F),
        ("NOT (1=0 AND 1=0)", T),
        ("NOT 1=1 OR 1=1", T),
        ("1+1=2 AND 2*3-1=5", T),
        ("-1 + 2 = 1", T),
        ("2 * -3 = -6", T),
        ("(colour) = ('red')", T),
        ("((1)) IN ((1), 2)", T),
        ("colour NOT IN ('blue', 'green') AND NOT colour IN ('grey')", T),
        ("property('col' + 'our') = 'red'", T),
        ("p([the name]) = 'red'", T),
        ("p(p('the name') + '') LIKE 'r%'", T),
    ]);
}

#[test]
fn a_failure_quotes_no_value() {
    let long = "canary".repeat(1_000);
    let message = Message::builder().property("k", long).property("n", i64::MAX).build("canary").unwrap();
    let joined = ["k + k"; 16].join(" + ") + " = 'x'";
    for text in ["n + 1 = 2", "n / 0 = 1", "k LIKE 'x' ESCAPE k", "sys.Colour = k", joined.as_str()] {
        let shown = SqlFilter::parse(text).unwrap().matches(&message).unwrap_err().to_string();
        assert!(!shown.contains("canary") && !shown.contains("922337"), "{shown}");
    }
}

#[test]
fn text_cannot_grow_past_a_property() {
    let message = Message::builder().property("k", "x".repeat(20_000)).build("").unwrap();
    assert_eq!(evaluate("k + k = k", &message), Err(EvaluationError::TextTooLong { limit: 32_767 }));
}
