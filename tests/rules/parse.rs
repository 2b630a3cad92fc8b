use std::thread;

use consign::rules::{ParseError, ParseErrorKind as K, SqlAction, SqlFilter};

use crate::support::message;

fn filter(text: &str) -> ParseError {
    match SqlFilter::parse(text) {
        Ok(filter) => panic!("{text} is {filter}"),
        Err(error) => error,
    }
}

fn action(text: &str) -> ParseError {
    match SqlAction::parse(text) {
        Ok(action) => panic!("{text} is {action}"),
        Err(error) => error,
    }
}

const OPERAND: &str = "a property, a constant or a function";

#[test]
fn an_error_says_where_a_filter_is_wrong() {
    let token = |expected| K::UnexpectedToken { expected };
    let end = |expected| K::UnexpectedEnd { expected };
    let table = [
        ("", end(OPERAND), 0),
        ("  ", end(OPERAND), 2),
        ("a", end("a comparison"), 1),
        ("a AND b = 1", token("a comparison"), 2),
        ("a = 1 AND b", end("a comparison"), 11),
        ("NOT a", end("a comparison"), 5),
        ("TRUE", end("a comparison"), 4),
        ("a = ", end(OPERAND), 4),
        ("a = = 1", token(OPERAND), 4),
        ("a = 1 b = 2", token("AND, OR or the end"), 6),
        ("a = 1 = 1", token("AND, OR or the end"), 6),
        ("a = b = c", token("AND, OR or the end"), 6),
        ("a = 1)", token("AND, OR or the end"), 5),
        ("(a = 1", end("AND, OR or )"), 6),
        ("(a + 1 = 2", end("AND, OR or )"), 10),
        ("(a", end("an operator or )"), 2),
        ("(a = 1) + 2 = 3", token("AND, OR or the end"), 8),
        ("1 + (a = 1) = 2", token(OPERAND), 4),
        ("a = NOT b", token(OPERAND), 4),
        ("a = EXISTS(b)", token(OPERAND), 4),
        ("a IS 1", token("NULL"), 5),
        ("a IS NOT 1", token("NULL"), 9),
        ("a + 1 IS NULL", token("an operator"), 6),
        ("a IN 1", token("("), 5),
        ("a IN ()", token(OPERAND), 6),
        ("a IN (1, )", token(OPERAND), 9),
        ("a IN (1 2)", token(", or )"), 8),
        ("a IN (1 = 1)", token(", or )"), 8),
        ("a NOT 1", token("IN or LIKE"), 6),
        ("a LIKE", end(OPERAND), 6),
        ("EXISTS a", token("("), 7),
        ("EXISTS(1)", token("a property"), 7),
        ("EXISTS(a", end(")"), 8),
        ("sys. = 1", token("a name"), 5),
        ("foo.bar = 1", token("sys or user"), 0),
        ("[sys].To = 1", token("sys or user"), 0),
        ("upper(a) = 1", token("newid, property or p"), 0),
        ("newid(1) = 1", token(")"), 6),
        ("property() = 1", token(OPERAND), 9),
        ("p(a = 1) = 1", token(")"), 4),
        ("and = 1", token(OPERAND), 0),
        ("a ? 1", K::UnexpectedCharacter, 2),
        ("_a = 1", K::UnexpectedCharacter, 0),
        ("a ! b", K::UnexpectedCharacter, 2),
        ("ä = 'ö' AND §", K::UnexpectedCharacter, 14),
        ("a = 'b", K::UnterminatedString, 4),
        ("a = 'b''", K::UnterminatedString, 4),
        ("[a = 1", K::UnterminatedName, 0),
        ("1 = \"a", K::UnterminatedName, 4),
        ("[] = 1", K::EmptyName, 0),
        ("1 = \"\"", K::EmptyName, 4),
        ("a = 1.", K::MalformedNumber, 4),
        ("a = 1e", K::MalformedNumber, 4),
        ("a = 1e+", K::MalformedNumber, 4),
        ("a = 12b", K::MalformedNumber, 4),
        ("a = 9223372036854775808", K::NumberOutOfRange, 4),
        ("a = -9223372036854775809", K::NumberOutOfRange, 5),
        ("a = 1e999", K::NumberOutOfRange, 4),
        ("a LIKE 'x' ESCAPE ''", K::InvalidPattern, 18),
        ("a LIKE 'x' ESCAPE '!!'", K::InvalidPattern, 18),
        ("a LIKE 'x!' ESCAPE '!'", K::InvalidPattern, 19),
        ("SET a = 1", token("a comparison"), 4),
    ];
    for (text, kind, position) in table {
        let error = filter(text);
        assert_eq!((error.kind(), error.position()), (kind, position), "{text}");
    }
}

/// Rules: T-56.
#[test]
fn an_error_says_where_an_action_is_wrong() {
    let token = |expected| K::UnexpectedToken { expected };
    let end = |expected| K::UnexpectedEnd { expected };
    let table = [
        ("", end("SET or REMOVE"), 0),
        (";", token("SET or REMOVE"), 0),
        ("SET a = 1;;", token("SET or REMOVE"), 10),
        ("a = 1", token("SET or REMOVE"), 0),
        ("SET a", end("="), 5),
        ("SET 1 = 1", token("a property"), 4),
        ("SET a = b = c", token("SET or REMOVE"), 10),
        ("SET a = (b = c)", token(OPERAND), 8),
        ("SET set = 1", token("a property"), 4),
        ("REMOVE", end("a property"), 6),
        ("REMOVE a, b", token("SET or REMOVE"), 8),
        ("REMOVE p('a')", token("SET or REMOVE"), 8),
    ];
    for (text, kind, position) in table {
        let error = action(text);
        assert_eq!((error.kind(), error.position()), (kind, position), "{text}");
    }
}

#[test]
fn an_error_has_a_line_and_a_column_and_shows_little() {
    let error = filter("a = 1 AND\n  ü = 'ä' €");
    assert_eq!((error.line(), error.column()), (2, 11));
    assert_eq!(error.to_string(), "line 2, column 11: unexpected character \"€\"");
    let error = filter("a = 1 'secret\u{1b}secret secret secret secret'");
    let shown = error.to_string();
    assert_eq!(shown, "line 1, column 7: expected AND, OR or the end, found \"\\'secret\\u{1b}secret s...\"");
}

/// Rules: T-57.
/// Attacks: 62.
#[test]
fn text_has_at_most_1_024_units() {
    let text = |length: usize| format!("a = '{}'", "x".repeat(length - 6));
    SqlFilter::parse(&text(1_024)).unwrap();
    let error = filter(&text(1_025));
    assert_eq!((error.kind(), error.position()), (K::TooLong { limit: 1_024 }, 1_024));
    // Two units each, and four bytes.
    let crabs = |count: usize| format!("SET a = '{}'", "🦀".repeat(count));
    SqlAction::parse(&crabs(507)).unwrap();
    assert_eq!(action(&crabs(508)).kind(), K::TooLong { limit: 1_024 });
}

/// Rules: T-57.
#[test]
fn an_action_has_at_most_32_statements() {
    SqlAction::parse(&"REMOVE a ".repeat(32)).unwrap();
    SqlAction::parse(&"SET a=1;".repeat(32)).unwrap();
    let error = action(&"SET a=1;".repeat(33));
    assert_eq!((error.kind(), error.position()), (K::TooManyExpressions { limit: 32 }, 256));
}

/// Attacks: 62.
#[test]
fn text_that_is_too_long_or_too_deep_is_refused() {
    let deep = K::TooDeep { limit: 64 };
    for open in ["(", "NOT ", "-", "+", "- ", "p(", "(NOT(", "1*(1+(", "1=1 OR ("] {
        assert_eq!(filter(&open.repeat(1_025)).kind(), K::TooLong { limit: 1_024 }, "{open}");
        assert_eq!(filter(&open.repeat(1_024 / open.len())).kind(), deep, "{open}");
    }
    let error = filter(&format!("{}a = 1{}", "(".repeat(65), ")".repeat(65)));
    assert_eq!((error.kind(), error.position()), (deep, 64));
    let error = action(&format!("SET a = {}1{}", "(".repeat(65), ")".repeat(65)));
    assert_eq!((error.kind(), error.position()), (deep, 72));
}

/// Attacks: 62.
/// The deepest of all shapes: read, evaluated, shown, compared and dropped on a stack of 1 MiB.
#[test]
fn the_deepest_expressions_fit_on_a_small_stack() {
    let wrap = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let shapes = [
        wrap("(", "a = 1", ")", 64),
        wrap("NOT ", "a = 1", "", 64),
        wrap("NOT(", "a = 1", ")", 32),
        wrap("-", "count = 7", "", 64),
        wrap("p(", "'a'", ")", 64) + " = 1",
        wrap("1*(", "count", ")", 64) + " > 0",
        wrap("1+2*(", "count", ")", 64) + " <> 0",
        wrap("1+2*-(", "count", ")", 32) + " <> 0",
        wrap("1+2*p(", "'a'", ")", 64) + " <> 0",
        wrap("a=1 OR 1=1 AND(", "a=1", ")", 60),
        wrap("1=0 OR 1=1 AND NOT(", "a=1", ")", 32),
        wrap("1=0 OR 1=1 AND(", &(wrap("1+1*(", "1", ")", 30) + " = 1"), ")", 34),
        format!("a = {}", ["1"; 500].join("+")),
        format!("1=0 {}", "OR a=1 ".repeat(144)),
        // Side by side is not inside each other.
        format!("NOT (1 = 0){}", " AND (a=1)".repeat(100)),
        format!("7 IN ({})", ["1"; 500].join(",")),
    ];
    let work = move || {
        for shape in shapes {
            let filter = SqlFilter::parse(&shape).unwrap_or_else(|error| panic!("{shape}: {error}"));
            let _ = filter.evaluate(&message());
            let shown = filter.to_string();
            if shown.len() <= 1_024 {
                assert_eq!(SqlFilter::parse(&shown).unwrap(), filter.clone(), "{shown}");
            }
            assert!(!format!("{filter:?}").is_empty());
        }
        let action = SqlAction::parse(&format!("SET a = {}1{}", "-(".repeat(32), ")".repeat(32))).unwrap();
        action.apply(&mut message()).unwrap();
    };
    thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}
