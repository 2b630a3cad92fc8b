//! The place in the type at which a body was refused, and the value there. An accepted body costs nothing more. A refused one
//! is read a second time: [`Traced`] is between the type and the decoder and follows the path.
//!
//! The decoders' errors do not reliably have the text of a type: some drop it, some make text of it that quotes the body. So
//! the type gets errors of this crate ([`Refused`]) in the second reading, and the decoder's error only shows that there was
//! one.

mod path;
mod traced;

use std::cell::{Cell, RefCell};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Expected},
};

pub(crate) use self::path::{Place, Step};
use self::traced::Traced;
use crate::{DecodeError, DecodeErrorKind, Position, serde_error::Refused};

/// Reads the body again, and adds the results to `error`: the path, what was expected and what was found.
///
/// `read` calls [`Trace::read`] with a decoder at the first byte that has the same limits. `locate` finds the refused value in
/// the body, for a format whose decoder does not report its position.
///
/// If the second reading succeeds or fails in another way, as with a type that does not read the same each time, `error` is
/// returned unchanged.
#[cold]
#[inline(never)]
pub(crate) fn explain(
    error: DecodeError,
    mut read: impl FnMut(&Trace),
    locate: impl FnOnce(&[Step]) -> Option<Position>,
) -> DecodeError {
    // For too many elements a second reading finds nothing but the number, at the cost of as many steps.
    if matches!(error.kind(), DecodeErrorKind::Trailing | DecodeErrorKind::EmptyBody | DecodeErrorKind::Count) {
        return error;
    }
    let trace = Trace::default();
    read(&trace);
    let Some(Failure { steps, said, call }) = trace.failure.into_inner() else { return error };
    let is_of_type = |kind| matches!(kind, DecodeErrorKind::Type | DecodeErrorKind::DuplicateKey);
    let mut error = match said {
        Some(said) if said.kind() == error.kind() => error.with_words_of(&said),
        Some(_) if is_of_type(error.kind()) => return error,
        // The decoder replaces the error of the type by its own, as for text that is not UTF-8.
        Some(_) | None => error,
    };
    // A decoder may refuse a value without the expectation of the type. Then the type reports it, at that call.
    if let Some(call) = call.filter(|_| error.kind() == DecodeErrorKind::Type && error.expected().is_none()) {
        let trace = Trace { asked: Some(call), ..Trace::default() };
        read(&trace);
        if let Some(expected) = trace.expected.into_inner() {
            error = error.with_expected(expected);
        }
    }
    if let Some(path) = path::text(&steps) {
        error = error.with_path(path);
    }
    match error.position() {
        Some(_) => error,
        None => match locate(&steps) {
            Some(position) => error.at(position),
            None => error,
        },
    }
}

/// The steps from the outermost value to the one that is being read, and the first failure.
///
/// A type may ignore a failure and continue, such as a type that takes a default instead. So a failure counts only until a
/// later step begins, or one around it succeeds.
#[derive(Default)]
pub(crate) struct Trace {
    steps: RefCell<Vec<Step>>,
    failure: RefCell<Option<Failure>>,
    /// How many times the type has requested a value.
    calls: Cell<usize>,
    /// The call for which the type is to report what it expects.
    asked: Option<usize>,
    expected: RefCell<Option<String>>,
}

struct Failure {
    steps: Vec<Step>,
    /// The error of the type; none if the decoder refused the bytes by itself.
    said: Option<DecodeError>,
    /// The call that the decoder refused.
    call: Option<usize>,
}

impl Trace {
    /// Reads a value, and keeps only a failure.
    pub(crate) fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(&self, decoder: D) {
        if let Err(refused) = T::deserialize(Traced::new(decoder, self)) {
            self.fail(Some(refused), None);
        }
    }

    /// Returns the number of a call of the type for a value, which the visitor will take.
    fn call(&self, expected: &dyn Expected) -> usize {
        let call = self.calls.get();
        self.calls.set(call + 1);
        if self.asked == Some(call) {
            self.expected.replace(Some(expected.to_string()));
        }
        call
    }

    /// Reads a value one step further inside.
    fn inside<R>(&self, step: Step, read: impl FnOnce() -> Result<R, Refused>) -> Result<R, Refused> {
        self.failure.take();
        self.steps.borrow_mut().push(step);
        let result = read();
        self.steps.borrow_mut().pop();
        if result.is_ok() {
            self.failure.take();
        }
        result
    }

    fn depth(&self) -> usize {
        self.steps.borrow().len()
    }

    /// Stores the first failure, and where it occurred.
    fn fail(&self, said: Option<Refused>, call: Option<usize>) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            let steps = self.steps.borrow().clone();
            *failure = Some(Failure { steps, said: said.map(Refused::into_inner), call });
        }
    }

    /// Converts an error of the decoder into one that the type sees.
    fn lift<E>(&self, _: E, call: Option<usize>) -> Refused {
        self.fail(None, call);
        DecodeError::new(DecodeErrorKind::Type).into()
    }

    /// Converts an error of the type into one of the decoder.
    fn lower<E: Error>(&self, refused: Refused) -> E {
        self.fail(Some(refused), None);
        E::custom("refused")
    }

    /// Sets the name of the step at this depth of the failure.
    fn name(&self, depth: usize, name: &'static str) {
        if let Some(step) = self.failure.borrow_mut().as_mut().and_then(|failure| failure.steps.get_mut(depth)) {
            *step = step.named(name);
        }
    }
}
