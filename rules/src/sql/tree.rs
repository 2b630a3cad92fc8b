//! What a filter or an action means. The parser bounds its depth; chains are flat, so that their length adds none.

use consign_core::message::PropertyValue;

use super::system::System;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Predicate {
    Not(Box<Predicate>),
    /// At least two.
    And(Vec<Predicate>),
    /// At least two.
    Or(Vec<Predicate>),
    Compare(Box<(Expression, Expression)>, Comparison),
    IsNull {
        property: Property,
        negated: bool,
    },
    Exists(Property),
    In {
        value: Box<Expression>,
        negated: bool,
        list: Vec<Expression>,
    },
    Like {
        value: Box<Expression>,
        negated: bool,
        pattern: Box<Pattern>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) pattern: Expression,
    pub(super) escape: Option<Expression>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// Null, a truth value, a 64-bit number of either kind, or text.
    Constant(PropertyValue),
    /// A parameter by its name, with the value that the rule has for it.
    Parameter(Box<str>, PropertyValue),
    Property(Property),
    NewId,
    /// The user property of a name that is itself an expression.
    Named(Box<Expression>),
    Signed {
        minus: bool,
        of: Box<Expression>,
    },
    /// Operators that bind equally, from left to right; at least one.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(super) fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Property {
    User(Box<str>),
    System(System),
    /// A system property that does not exist, as it was written: an error when it is read.
    Unknown(Box<str>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    Set(Target, Expression),
    Remove(Target),
}

/// What an action can change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    User(Box<str>),
    System(System),
}
