use std::{cell::Cell, error, fmt};

use serde::{
    Deserialize,
    de::{self, Expected, Unexpected},
};

use super::{Node, View};
use crate::{
    DecodeError, DecodeErrorKind, Limits,
    explain::{Trace, explain},
    names::Names,
    serde_error::Refused,
};

/// Reads a Rust type from a value. It may borrow texts and bytes from the value.
///
/// # Errors
/// The value is not of the type, or exceeds a limit. The error has the [path](DecodeError::path) in the type, such as
/// `items[3].price`, and never a part of the value.
pub fn from_value<'de, T: Deserialize<'de>, N: Node<'de>>(value: N, limits: &Limits) -> Result<T, DecodeError> {
    let budget = Budget::new(limits);
    T::deserialize(Deserializer::root(value, &budget)).map_err(|error| {
        let again = |trace: &Trace| trace.read::<T, _>(Deserializer::root(value, &Budget::new(limits)));
        explain(budget.limit.take().map_or(error.0.into_inner(), DecodeError::new), again, |_| None)
    })
}

/// The levels and elements that are left.
#[derive(Debug)]
pub(super) struct Budget {
    depth: usize,
    elements: Cell<usize>,
    /// The limit that was exceeded.
    limit: Cell<Option<DecodeErrorKind>>,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        let limits = limits.depth(limits.depth).elements(limits.elements);
        Self { depth: limits.depth, elements: Cell::new(limits.elements), limit: Cell::new(None) }
    }

    #[cold]
    fn exceeded(&self, kind: DecodeErrorKind) -> Error {
        self.limit.set(Some(kind));
        DecodeError::new(kind).into()
    }

    /// Counts one element.
    pub(super) fn element(&self) -> Result<(), Error> {
        let left = self.elements.get().checked_sub(1).ok_or_else(|| self.exceeded(DecodeErrorKind::Count))?;
        self.elements.set(left);
        Ok(())
    }

    /// How many elements a visitor may reserve memory for.
    pub(super) fn hint(&self, lower: usize) -> usize {
        lower.min(self.elements.get())
    }
}

/// A [`serde::Deserializer`] over a value, within limits. [`from_value`] adds the path to its errors.
#[derive(Debug)]
pub struct Deserializer<'b, N> {
    pub(super) node: N,
    pub(super) budget: &'b Budget,
    pub(super) depth: usize,
    /// What the value is, if it is an identifier.
    pub(super) names: Names,
}

impl<'b, N> Deserializer<'b, N> {
    pub(super) const fn root(node: N, budget: &'b Budget) -> Self {
        Self::new(node, budget, 0)
    }

    pub(super) const fn new(node: N, budget: &'b Budget, depth: usize) -> Self {
        Self { node, budget, depth, names: Names::Keys }
    }

    pub(super) const fn naming(self, names: Names) -> Self
    where
        N: Copy,
    {
        Self { names, ..self }
    }
}

/// The error of a [`Deserializer`].
#[derive(Debug)]
pub struct Error(Refused);

impl Error {
    /// Returns the refusal. It has no path.
    #[must_use]
    pub fn into_inner(self) -> DecodeError {
        self.0.into_inner()
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Refused::custom(message))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_type(found, expected))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_value(found, expected))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self(Refused::invalid_length(length, expected))
    }
}

impl<'b, 'de, N: Node<'de>> Deserializer<'b, N> {
    /// The value without its descriptors, and its depth.
    pub(super) fn undescribed(self) -> Result<(View<'de, N>, &'b Budget, usize), Error> {
        let Self { mut node, budget, mut depth, .. } = self;
        loop {
            match node.view() {
                View::Described(inner) => {
                    depth = deeper(budget, depth)?;
                    node = inner;
                }
                view => return Ok((view, budget, depth)),
            }
        }
    }
}

/// The depth of a value inside one of this depth.
pub(super) fn deeper(budget: &Budget, depth: usize) -> Result<usize, Error> {
    if depth < budget.depth { Ok(depth + 1) } else { Err(budget.exceeded(DecodeErrorKind::Depth)) }
}

/// Text that is a key in place of a value.
pub(super) fn text(text: &str) -> de::value::BorrowedStrDeserializer<'_, Error> {
    de::value::BorrowedStrDeserializer::new(text)
}
