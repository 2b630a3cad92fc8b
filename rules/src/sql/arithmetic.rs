//! Operators that make values.

use consign_core::message::{PropertyValue, limits};

use super::{
    operand::{Operand, View},
    tree::Operator,
};
use crate::EvaluationError;

/// `left operator right`; unknown if one side is, or if the operator is not for such values.
pub(super) fn apply(operator: Operator, left: View<'_>, right: View<'_>) -> Result<Operand<'static>, EvaluationError> {
    if let (View::Integer(left), View::Integer(right)) = (left, right) {
        return integers(operator, left, right);
    }
    if let (Some(left), Some(right)) = (left.float(), right.float()) {
        return Ok(float(match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            Operator::Remainder => left % right,
        }));
    }
    if operator != Operator::Add {
        return Ok(Operand::Unknown);
    }
    match (left.text(&mut [0; 4]), right.text(&mut [0; 4])) {
        (Some(left), Some(right)) => join(left, right),
        _ => Ok(Operand::Unknown),
    }
}

/// A sign before a number; unknown before anything else.
pub(super) fn signed(minus: bool, of: View<'_>) -> Result<Operand<'static>, EvaluationError> {
    match of {
        View::Integer(value) => integer(if minus { -value } else { value }),
        View::Float(value) => Ok(float(if minus { -value } else { value })),
        _ => Ok(Operand::Unknown),
    }
}

fn integers(operator: Operator, left: i128, right: i128) -> Result<Operand<'static>, EvaluationError> {
    if right == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
        return Err(EvaluationError::DivisionByZero);
    }
    let result = match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        Operator::Remainder => left.checked_rem(right),
    };
    integer(result.ok_or(EvaluationError::Overflow)?)
}

fn integer(value: i128) -> Result<Operand<'static>, EvaluationError> {
    i64::try_from(value).map(|value| Operand::Owned(value.into())).map_err(|_| EvaluationError::Overflow)
}

fn float(value: f64) -> Operand<'static> {
    Operand::Owned(PropertyValue::F64(value))
}

/// What no property could hold is refused at once: an action could double text until memory ends.
fn join(left: &str, right: &str) -> Result<Operand<'static>, EvaluationError> {
    let limit = limits::PROPERTY_BYTES;
    if left.len() + right.len() > limit {
        return Err(EvaluationError::TextTooLong { limit });
    }
    Ok(Operand::Owned([left, right].concat().into()))
}
