//! The canonical form: one spelling for each tree, with the parentheses that it needs.

use std::fmt::{Display, Formatter, Result, Write};

use consign_core::message::PropertyValue;

use super::{
    parser::{RESERVED, STATEMENTS, is_any},
    tree::{Comparison, Expression, Operator, Pattern, Predicate, Property, Statement, Target},
};

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Not(inner) => {
                f.write_str("NOT ")?;
                grouped(f, inner, matches!(**inner, Self::And(_) | Self::Or(_)))
            }
            Self::And(sides) => {
                separated(f, sides, " AND ", |f, side| grouped(f, side, matches!(side, Self::And(_) | Self::Or(_))))
            }
            Self::Or(sides) => separated(f, sides, " OR ", |f, side| grouped(f, side, matches!(side, Self::Or(_)))),
            Self::Compare(sides, comparison) => write!(f, "{} {comparison} {}", sides.0, sides.1),
            Self::IsNull { property, negated } => write!(f, "{property} IS {}NULL", not(*negated)),
            Self::Exists(property) => write!(f, "EXISTS({property})"),
            Self::In { value, negated, list } => {
                write!(f, "{value} {}IN (", not(*negated))?;
                separated(f, list, ", ", |f, element| element.fmt(f))?;
                f.write_char(')')
            }
            Self::Like { value, negated, pattern } => write!(f, "{value} {}LIKE {pattern}", not(*negated)),
        }
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.pattern.fmt(f)?;
        match &self.escape {
            Some(escape) => write!(f, " ESCAPE {escape}"),
            None => Ok(()),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Constant(value) => constant(f, value),
            Self::Parameter(name, _) => f.write_str(name),
            Self::Property(property) => property.fmt(f),
            Self::NewId => f.write_str("newid()"),
            Self::Named(name) => write!(f, "property({name})"),
            Self::Signed { minus, of } => {
                f.write_char(if *minus { '-' } else { '+' })?;
                match **of {
                    // A minus sign and digits would be one constant.
                    Self::Constant(PropertyValue::I64(0..)) => grouped(f, of, *minus),
                    Self::Constant(PropertyValue::F64(value)) if value.is_sign_positive() => grouped(f, of, *minus),
                    Self::Signed { .. } | Self::Constant(PropertyValue::I64(_) | PropertyValue::F64(_)) => {
                        write!(f, " {of}")
                    }
                    _ => grouped(f, of, matches!(**of, Self::Chain(..))),
                }
            }
            Self::Chain(first, rest) => {
                let is_sum = |chain: &[(Operator, Self)]| chain.iter().any(|(operator, _)| operator.is_sum());
                let own = is_sum(rest);
                // A product needs no parentheses in a sum.
                let needs = |side: &Self| matches!(side, Self::Chain(_, inner) if !own || is_sum(inner));
                grouped(f, first, needs(first))?;
                for (operator, side) in rest {
                    write!(f, " {operator} ")?;
                    grouped(f, side, needs(side))?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char(match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        })
    }
}

impl Display for Property {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::User(name) => write_name(f, name),
            Self::System(system) => write!(f, "sys.{}", system.name()),
            Self::Unknown(name) => {
                f.write_str("sys.")?;
                write_name(f, name)
            }
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::User(name) => write_name(f, name),
            Self::System(system) => write!(f, "sys.{}", system.name()),
        }
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Set(target, value) => write!(f, "SET {target} = {value}"),
            Self::Remove(target) => write!(f, "REMOVE {target}"),
        }
    }
}

/// Puts `separator` between the parts.
pub(super) fn separated<T>(
    f: &mut Formatter<'_>,
    parts: &[T],
    separator: &str,
    mut write: impl FnMut(&mut Formatter<'_>, &T) -> Result,
) -> Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write(f, part)?;
    }
    Ok(())
}

fn grouped(f: &mut Formatter<'_>, inner: &impl Display, group: bool) -> Result {
    if group { write!(f, "({inner})") } else { inner.fmt(f) }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn constant(f: &mut Formatter<'_>, value: &PropertyValue) -> Result {
    match value {
        PropertyValue::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
        PropertyValue::I64(value) => value.fmt(f),
        // Unlike `Display` it always writes a point or an exponent.
        PropertyValue::F64(value) => write!(f, "{value:?}"),
        PropertyValue::String(text) => delimited(f, '\'', '\'', text),
        // The parser makes no other constants.
        _ => f.write_str("NULL"),
    }
}

fn write_name(f: &mut Formatter<'_>, name: &str) -> Result {
    let regular = name.starts_with(char::is_alphabetic)
        && name.chars().all(|char| char.is_alphanumeric() || char == '_')
        && !is_any(name, &RESERVED)
        && !is_any(name, &STATEMENTS);
    if regular { f.write_str(name) } else { delimited(f, '[', ']', name) }
}

/// The text between delimiters, with every closing one doubled.
fn delimited(f: &mut Formatter<'_>, open: char, close: char, text: &str) -> Result {
    f.write_char(open)?;
    for char in text.chars() {
        f.write_char(char)?;
        if char == close {
            f.write_char(close)?;
        }
    }
    f.write_char(close)
}
