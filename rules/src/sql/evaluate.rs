//! What a tree says of a message. A predicate is true, false or, as `None`, unknown.

use consign_core::message::{ApplicationProperties, Message, PropertyValue, random_id::random_uuid};

use super::{
    arithmetic, compare, like,
    operand::{Operand, View},
    tree::{Comparison, Expression, Pattern, Predicate, Property},
};
use crate::EvaluationError;

pub(super) struct Evaluator<'a> {
    message: &'a Message,
    /// How many steps `LIKE` may still take.
    pub(super) steps: usize,
}

type Truth = Result<Option<bool>, EvaluationError>;

impl<'a> Evaluator<'a> {
    pub(super) fn new(message: &'a Message) -> Self {
        Self { message, steps: like::MAX_STEPS }
    }

    pub(super) fn predicate(&mut self, predicate: &Predicate) -> Truth {
        match predicate {
            Predicate::Not(inner) => Ok(self.predicate(inner)?.map(|truth| !truth)),
            Predicate::And(sides) => self.until(sides, false),
            Predicate::Or(sides) => self.until(sides, true),
            Predicate::Compare(sides, comparison) => {
                let (left, right) = (self.expression(&sides.0)?, self.expression(&sides.1)?);
                Ok(compare::compare(*comparison, left.view(), right.view()))
            }
            Predicate::IsNull { property, negated } => {
                let is_null = matches!(self.property(property)?.view(), View::Unknown);
                Ok(Some(is_null != *negated))
            }
            Predicate::Exists(property) => Ok(Some(!matches!(self.property(property)?, Operand::Unknown))),
            Predicate::In { value, negated, list } => self.is_in(value, list).map(|truth| negate(truth, *negated)),
            Predicate::Like { value, negated, pattern } => {
                self.is_like(value, pattern).map(|truth| negate(truth, *negated))
            }
        }
    }

    /// The value that decides, if one side has it; else unknown, if one side is; else its opposite.
    fn until(&mut self, sides: &[Predicate], decisive: bool) -> Truth {
        let mut all = Some(!decisive);
        for side in sides {
            match self.predicate(side)? {
                Some(truth) if truth == decisive => return Ok(Some(decisive)),
                Some(_) => {}
                None => all = None,
            }
        }
        Ok(all)
    }

    /// Only an unknown value makes it unknown; what it cannot be compared with, it does not equal.
    fn is_in(&mut self, value: &Expression, list: &[Expression]) -> Truth {
        let value = self.expression(value)?;
        if matches!(value.view(), View::Unknown) {
            return Ok(None);
        }
        for element in list {
            let element = self.expression(element)?;
            if compare::compare(Comparison::Equal, value.view(), element.view()) == Some(true) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    fn is_like(&mut self, value: &Expression, Pattern { pattern, escape }: &Pattern) -> Truth {
        let (value, pattern) = (self.expression(value)?, self.expression(pattern)?);
        let escape = match escape {
            Some(escape) => match one_char(self.expression(escape)?.view())? {
                None => return Ok(None),
                known => known,
            },
            None => None,
        };
        let places = (&mut [0; 4], &mut [0; 4]);
        let (Some(text), Some(pattern)) = (value.view().text(places.0), pattern.view().text(places.1)) else {
            return Ok(None);
        };
        if escape.is_some_and(|escape| !like::is_valid(pattern, escape)) {
            return Err(EvaluationError::InvalidPattern);
        }
        like::matches(text, pattern, escape, &mut self.steps).map(Some)
    }

    pub(super) fn expression<'b>(&mut self, expression: &'b Expression) -> Result<Operand<'b>, EvaluationError>
    where
        'a: 'b,
    {
        match expression {
            Expression::Constant(value) | Expression::Parameter(_, value) => Ok(Operand::Value(value)),
            Expression::Property(property) => self.property(property),
            Expression::NewId => Ok(Operand::Owned(PropertyValue::Uuid(random_uuid()))),
            Expression::Named(name) => {
                let name = self.expression(name)?;
                let place = &mut [0; 4];
                let value = name.view().text(place).and_then(|name| find(self.message.application_properties(), name));
                Ok(value.map_or(Operand::Unknown, Operand::Value))
            }
            Expression::Signed { minus, of } => arithmetic::signed(*minus, self.expression(of)?.view()),
            Expression::Chain(first, rest) => {
                let mut result = self.expression(first)?;
                for (operator, operand) in rest {
                    let operand = self.expression(operand)?;
                    result = arithmetic::apply(*operator, result.view(), operand.view())?;
                }
                Ok(result)
            }
        }
    }

    fn property<'b>(&self, property: &'b Property) -> Result<Operand<'b>, EvaluationError>
    where
        'a: 'b,
    {
        match property {
            Property::User(name) => {
                let value = find(self.message.application_properties(), name);
                Ok(value.map_or(Operand::Unknown, Operand::Value))
            }
            Property::System(system) => Ok(system.of(self.message)),
            Property::Unknown(name) => {
                let shown = name.chars().take(64).flat_map(char::escape_debug).collect();
                Err(EvaluationError::UnknownSystemProperty(shown))
            }
        }
    }
}

/// A property by its name, without regard to case. The same case wins, then the order of the keys.
fn find<'a>(properties: &'a ApplicationProperties, name: &str) -> Option<&'a PropertyValue> {
    properties.get(name).or_else(|| properties.iter().find(|(key, _)| is_same_name(key, name)).map(|(_, value)| value))
}

pub(super) fn is_same_name(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
        || !(left.is_ascii() && right.is_ascii())
            && left.chars().flat_map(char::to_lowercase).eq(right.chars().flat_map(char::to_lowercase))
}

fn negate(truth: Option<bool>, negated: bool) -> Option<bool> {
    truth.map(|truth| truth != negated)
}

/// The one character of a text; `None` for what is not text.
fn one_char(view: View<'_>) -> Result<Option<char>, EvaluationError> {
    let place = &mut [0; 4];
    let Some(text) = view.text(place) else { return Ok(None) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Ok(Some(char)),
        _ => Err(EvaluationError::InvalidPattern),
    }
}
