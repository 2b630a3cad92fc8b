//! Operators that compare values.

use std::cmp::Ordering;

use super::{operand::View, tree::Comparison};

/// How two values stand to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    /// Nothing can be said: one is unknown, or they are of different kinds.
    None,
    /// They are of a kind that has no order.
    Equality(bool),
    Order(Ordering),
    /// One of them is not a number.
    Unordered,
}

/// `left comparison right`; `None` is unknown.
pub(super) fn compare(comparison: Comparison, left: View<'_>, right: View<'_>) -> Option<bool> {
    use Comparison as C;
    match relation(left, right) {
        Relation::None => None,
        Relation::Equality(equal) => match comparison {
            C::Equal => Some(equal),
            C::NotEqual => Some(!equal),
            _ => None,
        },
        Relation::Order(order) => Some(match comparison {
            C::Equal => order.is_eq(),
            C::NotEqual => order.is_ne(),
            C::Less => order.is_lt(),
            C::LessOrEqual => order.is_le(),
            C::Greater => order.is_gt(),
            C::GreaterOrEqual => order.is_ge(),
        }),
        Relation::Unordered => Some(comparison == C::NotEqual),
    }
}

fn relation(left: View<'_>, right: View<'_>) -> Relation {
    match (left, right) {
        (View::Integer(left), View::Integer(right)) | (View::Instant(left), View::Instant(right)) => {
            Relation::Order(left.cmp(&right))
        }
        (View::Span(left), View::Span(right)) => Relation::Order(left.cmp(&right)),
        (View::Bool(left), View::Bool(right)) => Relation::Equality(left == right),
        (View::Uuid(left), View::Uuid(right)) | (View::Decimal(left), View::Decimal(right)) => {
            Relation::Equality(left == right)
        }
        (View::Bytes(left), View::Bytes(right)) => Relation::Equality(left == right),
        _ => match (left.float(), right.float()) {
            (Some(left), Some(right)) => left.partial_cmp(&right).map_or(Relation::Unordered, Relation::Order),
            _ => match (left.text(&mut [0; 4]), right.text(&mut [0; 4])) {
                (Some(left), Some(right)) => Relation::Order(left.cmp(right)),
                _ => Relation::None,
            },
        },
    }
}
