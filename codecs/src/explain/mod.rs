//! Where in the type a body was refused, and what stood there. A body that was read pays nothing for that: after a
//! refusal it is read a second time, and [`Traced`] stands between the type and the decoder and follows the path.
//!
//! The decoders' errors cannot be relied on for what a type said: some drop it, some make text of it that quotes the
//! body. So the type sees errors of this crate's own ([`Refused`]) in the second reading, and the decoder's error only
//! says that there was one.

mod access;
mod path;
mod traced;
mod visitor;

use std::cell::{Cell, RefCell};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Expected},
};

pub(crate) use self::path::{Place, Step};
use self::traced::Traced;
use crate::{DecodeError, DecodeErrorKind, Position, formats::Refused};

/// Reads the body again, and adds to `error` what that shows: the path, what was expected and what was found.
///
/// `read` calls [`Trace::read`] with a decoder at the first byte that keeps to the same limits. `locate` finds the refused
/// value in the body, for a format whose decoder does not tell where it stands.
///
/// If the second reading succeeds or fails in another way, as a type may that does not read the same each time, `error`
/// is returned as it is.
#[cold]
#[inline(never)]
pub(crate) fn explain(
    error: DecodeError,
    mut read: impl FnMut(&Trace),
    locate: impl FnOnce(&[Step]) -> Option<Position>,
) -> DecodeError {
    // Of too many elements there is nothing to be found but the number, at the price of so many steps.
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
        // The decoder makes an error of its own out of what the type says, as of text that is not UTF-8.
        Some(_) | None => error,
    };
    // A decoder may refuse a value without a word of what the type expected. Then the type says it, at that call.
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
/// A type may swallow a failure and go on, as one does that takes a default instead. So a failure counts only until
/// a later step begins, or one around it succeeds.
#[derive(Default)]
pub(crate) struct Trace {
    steps: RefCell<Vec<Step>>,
    failure: RefCell<Option<Failure>>,
    /// How many times the type has asked for a value.
    calls: Cell<usize>,
    /// The call for which the type is to say what it expects.
    asked: Option<usize>,
    expected: RefCell<Option<String>>,
}

struct Failure {
    steps: Vec<Step>,
    /// What the type said; none if the decoder refused the bytes by itself.
    said: Option<DecodeError>,
    /// The call that the decoder refused.
    call: Option<usize>,
}

impl Trace {
    /// Reads a value, and keeps no more of it than a failure.
    pub(crate) fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(&self, decoder: D) {
        if let Err(refused) = T::deserialize(Traced::new(decoder, self)) {
            self.fail(Some(refused), None);
        }
    }

    /// The number of a call of the type for a value, which the visitor will take.
    fn call(&self, expected: &dyn Expected) -> usize {
        let call = self.calls.get();
        self.calls.set(call + 1);
        if self.asked == Some(call) {
            self.expected.replace(Some(expected.to_string()));
        }
        call
    }

    /// Reads what is one step further inside.
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

    /// Keeps the first failure, and where it occurred.
    fn fail(&self, said: Option<Refused>, call: Option<usize>) {
        let mut failure = self.failure.borrow_mut();
        if failure.is_none() {
            let steps = self.steps.borrow().clone();
            *failure = Some(Failure { steps, said: said.map(Refused::into_inner), call });
        }
    }

    /// An error of the decoder becomes one that the type sees.
    fn lift<E>(&self, _: E, call: Option<usize>) -> Refused {
        self.fail(None, call);
        DecodeError::new(DecodeErrorKind::Type).into()
    }

    /// An error of the type becomes one of the decoder.
    fn lower<E: Error>(&self, refused: Refused) -> E {
        self.fail(Some(refused), None);
        E::custom("refused")
    }

    /// Gives the step at this depth of the failure the name that it turned out to have.
    fn name(&self, depth: usize, name: &'static str) {
        if let Some(step) = self.failure.borrow_mut().as_mut().and_then(|failure| failure.steps.get_mut(depth)) {
            *step = step.named(name);
        }
    }
}
