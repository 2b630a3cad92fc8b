//! A second reading of the language: trees that know their text and, naively, their value.

use std::{cmp::Ordering, fmt::Write};

use consign::{Message, message::PropertyValue};
use proptest::{prelude::*, sample::select};

#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    Not(Box<Predicate>),
    Both(Box<Predicate>, bool, Box<Predicate>),
    Compare(Expression, &'static str, Expression),
    IsNull(&'static str, bool),
    Exists(&'static str),
    In(Expression, bool, Vec<Expression>),
    Like(Expression, bool, Expression, Option<char>),
}

#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Integer(i64),
    Float(f64),
    Text(String),
    Bool(bool),
    Null,
    Property(&'static str),
    Named(Box<Expression>),
    Signed(bool, Box<Expression>),
    Binary(Box<Expression>, char, Box<Expression>),
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Unknown,
    Integer(i128),
    Float(f64),
    Text(String),
    Bool(bool),
}

/// Something that has no value.
#[derive(Debug, PartialEq)]
pub(crate) struct Failed;

/// Names as they are written, and what the message of [`message`] has under them.
const PROPERTIES: [(&str, &str); 9] = [
    ("int", "int"),
    ("FLOAT", "float"),
    ("[text]", "text"),
    ("\"truth\"", "truth"),
    ("null_", "null_"),
    ("user.missing", "missing"),
    ("[a]]b'c d]", "a]b'c d"),
    ("\"say \"\"and\"\"\"", "say \"and\""),
    ("[AND]", "and"),
];

fn property(written: &str) -> Option<Value> {
    let (_, name) = PROPERTIES.iter().find(|(own, _)| *own == written).unwrap();
    Some(match *name {
        "int" => Value::Integer(3),
        "float" => Value::Float(2.5),
        "text" => Value::Text("red%".into()),
        "truth" => Value::Bool(true),
        "null_" => Value::Unknown,
        "a]b'c d" => Value::Text("x".into()),
        "say \"and\"" => Value::Integer(-1),
        "and" => Value::Text("int".into()),
        _ => return None,
    })
}

pub(crate) fn message() -> Message {
    Message::builder()
        .property("int", 3_i16)
        .property("float", 2.5)
        .property("text", "red%")
        .property("truth", true)
        .property("null_", PropertyValue::Null)
        .property("a]b'c d", "x")
        .property("say \"and\"", -1)
        .property("AND", "int")
        .build("")
        .unwrap()
}

impl Predicate {
    pub(crate) fn evaluate(&self) -> Result<Option<bool>, Failed> {
        Ok(match self {
            Self::Not(inner) => inner.evaluate()?.map(|truth| !truth),
            Self::Both(left, or, right) => match (left.evaluate()?, or) {
                (Some(true), true) => Some(true),
                (Some(false), false) => Some(false),
                (left, or) => match (left, right.evaluate()?) {
                    (_, Some(right)) if right == *or => Some(right),
                    (Some(_), Some(right)) => Some(right),
                    _ => None,
                },
            },
            Self::Compare(left, operator, right) => compare(&left.evaluate()?, operator, &right.evaluate()?),
            Self::IsNull(name, not) => {
                let null = matches!(property(name), None | Some(Value::Unknown));
                Some(null != *not)
            }
            Self::Exists(name) => Some(property(name).is_some()),
            Self::In(value, not, list) => {
                let value = value.evaluate()?;
                if value == Value::Unknown {
                    return Ok(None);
                }
                let mut found = false;
                for element in list {
                    if compare(&value, "=", &element.evaluate()?) == Some(true) {
                        found = true;
                        break;
                    }
                }
                Some(found != *not)
            }
            Self::Like(value, not, pattern, escape) => match (value.evaluate()?, pattern.evaluate()?) {
                (Value::Text(text), Value::Text(pattern)) => {
                    Some(like(&text, &pattern, *escape).ok_or(Failed)? != *not)
                }
                _ => None,
            },
        })
    }

    /// Its text, with every parenthesis or with those that it needs.
    pub(crate) fn write(&self, full: bool, out: &mut String) {
        let not = |not: bool| if not { "NOT " } else { "" };
        match self {
            Self::Not(inner) => {
                out.push_str("NOT ");
                inner.write_side(full, matches!(**inner, Self::Both(..)), out);
            }
            Self::Both(left, or, right) => {
                let weaker = |side: &Self| matches!(side, Self::Both(_, other, _) if *other && !*or);
                let same = |side: &Self| matches!(side, Self::Both(_, other, _) if other == or);
                left.write_side(full, weaker(left), out);
                out.push_str(if *or { " OR " } else { " and " });
                right.write_side(full, weaker(right) || same(right), out);
            }
            Self::Compare(left, operator, right) => {
                left.write_side(full, false, out);
                out.push_str(operator);
                right.write_side(full, false, out);
            }
            Self::IsNull(name, negated) => write!(out, "{name} is {}null", not(*negated)).unwrap(),
            Self::Exists(name) => write!(out, "EXISTS ( {name} )").unwrap(),
            Self::In(value, negated, list) => {
                value.write_side(full, false, out);
                write!(out, " {}IN", not(*negated)).unwrap();
                for (index, element) in list.iter().enumerate() {
                    out.push_str(if index == 0 { "(" } else { " ,\n" });
                    element.write_side(full, false, out);
                }
                out.push(')');
            }
            Self::Like(value, negated, pattern, escape) => {
                value.write_side(full, false, out);
                write!(out, " {}LIKE ", not(*negated)).unwrap();
                pattern.write_side(full, false, out);
                if let Some(char) = escape {
                    write!(out, " escape '{char}'").unwrap();
                }
            }
        }
    }

    fn write_side(&self, full: bool, needed: bool, out: &mut String) {
        if full || needed {
            out.push('(');
        }
        self.write(full, out);
        if full || needed {
            out.push(')');
        }
    }
}

impl Expression {
    fn evaluate(&self) -> Result<Value, Failed> {
        Ok(match self {
            Self::Integer(value) => Value::Integer((*value).into()),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(text.clone()),
            Self::Bool(value) => Value::Bool(*value),
            Self::Null => Value::Unknown,
            Self::Property(name) => property(name).unwrap_or(Value::Unknown),
            Self::Named(name) => match name.evaluate()? {
                Value::Text(name) => PROPERTIES
                    .iter()
                    .find(|(_, own)| own.eq_ignore_ascii_case(&name))
                    .and_then(|(written, _)| property(written))
                    .unwrap_or(Value::Unknown),
                _ => Value::Unknown,
            },
            Self::Signed(minus, of) => match of.evaluate()? {
                Value::Integer(value) => integer(if *minus { -value } else { value })?,
                Value::Float(value) => Value::Float(if *minus { -value } else { value }),
                _ => Value::Unknown,
            },
            Self::Binary(left, operator, right) => arithmetic(left.evaluate()?, *operator, right.evaluate()?)?,
        })
    }

    fn write(&self, full: bool, out: &mut String) {
        match self {
            Self::Integer(value) => write!(out, "{value}").unwrap(),
            Self::Float(value) => write!(out, "{value:?}").unwrap(),
            Self::Text(text) => write!(out, "'{}'", text.replace('\'', "''")).unwrap(),
            Self::Bool(value) => write!(out, "{value}").unwrap(),
            Self::Null => out.push_str("Null"),
            Self::Property(name) => out.push_str(name),
            Self::Named(name) => {
                out.push_str("p(");
                name.write(full, out);
                out.push(')');
            }
            Self::Signed(minus, of) => {
                out.push(if *minus { '-' } else { '+' });
                // Minus one is a constant, minus of one is not.
                let number = matches!(**of, Self::Integer(_) | Self::Float(_));
                of.write_side(full, number || matches!(**of, Self::Binary(..)), out);
            }
            Self::Binary(left, operator, right) => {
                let is_sum = |operator: char| "+-".contains(operator);
                let weaker =
                    |side: &Self| matches!(side, Self::Binary(_, other, _) if is_sum(*other) && !is_sum(*operator));
                let same =
                    |side: &Self| matches!(side, Self::Binary(_, other, _) if is_sum(*other) == is_sum(*operator));
                left.write_side(full, weaker(left), out);
                out.push(*operator);
                right.write_side(full, weaker(right) || same(right), out);
            }
        }
    }

    fn write_side(&self, full: bool, needed: bool, out: &mut String) {
        if full || needed {
            out.push('(');
        }
        self.write(full, out);
        if full || needed {
            out.push(')');
        }
    }
}

fn integer(value: i128) -> Result<Value, Failed> {
    if i64::try_from(value).is_ok() { Ok(Value::Integer(value)) } else { Err(Failed) }
}

#[expect(clippy::cast_precision_loss)]
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

fn arithmetic(left: Value, operator: char, right: Value) -> Result<Value, Failed> {
    if let (Value::Integer(left), Value::Integer(right)) = (&left, &right) {
        return match operator {
            '+' => integer(left + right),
            '-' => integer(left - right),
            '*' => integer(left * right),
            _ if *right == 0 => Err(Failed),
            '/' => integer(left / right),
            _ => integer(left % right),
        };
    }
    if let (Some(left), Some(right)) = (float(&left), float(&right)) {
        return Ok(Value::Float(match operator {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            '/' => left / right,
            _ => left % right,
        }));
    }
    Ok(match (left, operator, right) {
        (Value::Text(left), '+', Value::Text(right)) => Value::Text(left + &right),
        _ => Value::Unknown,
    })
}

fn compare(left: &Value, operator: &str, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Unknown, _) | (_, Value::Unknown) => return None,
        (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => match operator {
            "=" => return Some(left == right),
            "!=" | "<>" => return Some(left != right),
            _ => return None,
        },
        _ => float(left)?.partial_cmp(&float(right)?),
    };
    Some(match operator {
        "=" => order == Some(Ordering::Equal),
        "!=" | "<>" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        ">" => order == Some(Ordering::Greater),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// Tries every way; `None` if the pattern ends in the escape character.
pub(crate) fn like(text: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
    let mut wanted = Vec::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        let escaped = Some(char) == escape;
        wanted.push((if escaped { chars.next()? } else { char }, escaped));
    }
    Some(is_like(&text.chars().collect::<Vec<_>>(), &wanted))
}

fn is_like(text: &[char], pattern: &[(char, bool)]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [('%', false), rest @ ..] => (0..=text.len()).any(|skipped| is_like(&text[skipped..], rest)),
        [(wanted, escaped), rest @ ..] => {
            let Some((first, text)) = text.split_first() else { return false };
            (wanted == first || !escaped && *wanted == '_') && is_like(text, rest)
        }
    }
}

pub(crate) fn predicates() -> impl Strategy<Value = Predicate> {
    let comparisons = select(vec!["=", "<>", "!=", "<", "<=", ">", ">="]);
    let names = select(PROPERTIES.map(|(written, _)| written).to_vec());
    let escapes = prop_oneof![Just(None), Just(Some('!')), Just(Some('%'))];
    let list = prop::collection::vec(expressions(), 1..4);
    let leaf = prop_oneof![
        4 => (expressions(), comparisons, expressions()).prop_map(|(l, o, r)| Predicate::Compare(l, o, r)),
        1 => (names.clone(), any::<bool>()).prop_map(|(name, not)| Predicate::IsNull(name, not)),
        1 => names.prop_map(Predicate::Exists),
        1 => (expressions(), any::<bool>(), list).prop_map(|(v, not, list)| Predicate::In(v, not, list)),
        2 => (texts(), any::<bool>(), texts(), escapes).prop_map(|(v, not, p, escape)| Predicate::Like(v, not, p, escape))
            .prop_filter("the parser refuses a constant pattern that ends in its escape", |like| match like {
                Predicate::Like(_, _, Expression::Text(pattern), Some(escape)) => self::like("", pattern, Some(*escape)).is_some(),
                _ => true,
            }),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Predicate::Not(Box::new(inner))),
            3 => (inner.clone(), any::<bool>(), inner).prop_map(|(l, or, r)| Predicate::Both(Box::new(l), or, Box::new(r))),
        ]
    })
}

fn texts() -> impl Strategy<Value = Expression> {
    prop_oneof![
        "[redx%_!']{0,5}".prop_map(Expression::Text),
        Just(Expression::Property("[text]")),
        Just(Expression::Property("[a]]b'c d]")),
        expressions(),
    ]
}

fn expressions() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        4 => (-9_i64..9).prop_map(Expression::Integer),
        1 => select(vec![i64::MIN, i64::MAX, 0, 3]).prop_map(Expression::Integer),
        2 => select(vec![0.5, -2.5, 1e21, -1e-7, 3.0]).prop_map(Expression::Float),
        1 => "[intFLOAT']{0,5}".prop_map(Expression::Text),
        1 => any::<bool>().prop_map(Expression::Bool),
        1 => Just(Expression::Null),
        4 => select(PROPERTIES.map(|(written, _)| written).to_vec()).prop_map(Expression::Property),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Expression::Named(Box::new(inner))),
            1 => (any::<bool>(), inner.clone()).prop_map(|(minus, of)| Expression::Signed(minus, Box::new(of))),
            4 => (inner.clone(), select(vec!['+', '-', '*', '/', '%']), inner)
                .prop_map(|(l, o, r)| Expression::Binary(Box::new(l), o, Box::new(r))),
        ]
    })
}
