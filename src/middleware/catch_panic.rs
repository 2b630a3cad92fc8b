//! A layer that turns a panic of the handler into an error, so that it fails one delivery and not the receive loop.
//!
//! ```
//! use consign::{Disposition, Message, middleware::catch_panic::{CatchPanicLayer, Panicked}};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let stack = ServiceBuilder::new().layer(CatchPanicLayer::new()).service(service_fn(|message: Message| async move {
//!     assert!(message.subject().is_some(), "no subject");
//!     Ok::<_, BoxError>(Disposition::Complete)
//! }));
//! let error = stack.oneshot(Message::new("body")).await.unwrap_err();
//! assert_eq!(error.downcast_ref::<Panicked>().and_then(Panicked::payload), Some("no subject"));
//! # }
//! ```
//!
//! # Failure
//!
//! A panic of the inner service in `poll_ready`, in `call` or in a poll of its future becomes the error [`Panicked`], and
//! the future is dropped. The panic hook runs before. With `panic = "abort"` no panic can be caught.
//!
//! The service must tolerate a call that ended half-way: check values that calls share, as with a poisoned mutex.
//!
//! # Order
//!
//! Outside of every layer whose panic should fail one delivery only, and inside of layers that map errors to dispositions.
//! A [`Consumer`](crate::consumer::Consumer) does not need this layer, because it catches panics itself.
//!
//! # Cost
//!
//! The call and each poll run in a frame that catches panics, which takes a few instructions. Only a panic allocates. The
//! table *Layers* of `docs/benchmarks.md` has the figures.

mod service;

use std::{
    any::Any,
    error, fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tower_layer::Layer;

use self::service::CatchPanic;

/// A layer that turns a panic into an error; see the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct CatchPanicLayer(());

impl CatchPanicLayer {
    /// Catches panics.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic { inner }
    }
}

/// A handler panicked. The text of the panic is [`payload`](Self::payload), and the source of this error.
pub struct Panicked(Option<PanicText>);

/// The text in at most `most` characters, with those escaped that are not printable. No escape is cut.
fn shown(text: &str, most: usize) -> String {
    let (mut shown, mut left) = (String::new(), most);
    for character in text.chars() {
        let is_plain = matches!(character, '\'' | '"' | '\\');
        let length = if is_plain { 1 } else { character.escape_debug().count() };
        if length > left {
            break;
        }
        left -= length;
        if is_plain { shown.push(character) } else { shown.extend(character.escape_debug()) }
    }
    shown
}

/// The text of a panic. It may quote the message.
struct PanicText(Box<str>);

impl Panicked {
    const LONGEST: usize = 256;

    #[cold]
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = match payload.downcast_ref::<&'static str>() {
            Some(text) => Some(*text),
            None => payload.downcast_ref::<String>().map(String::as_str),
        };
        let cut = |text: &str| PanicText(shown(text, Self::LONGEST).into());
        let error = Self(text.map(cut));
        // The payload may be of any type, and so may panic when it is dropped.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // And so may the payload of that panic.
            std::mem::forget(another);
        }
        error
    }

    /// A panic whose text is not kept.
    pub(crate) const fn in_error() -> Self {
        Self(None)
    }

    /// Returns the panic message, if it was text: cut to 256 characters, those that are not printable escaped.
    #[must_use]
    pub fn payload(&self) -> Option<&str> {
        self.0.as_ref().map(|text| &*text.0)
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panicked").finish_non_exhaustive()
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the handler panicked")
    }
}

impl error::Error for Panicked {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.as_ref().map(|text| text as _)
    }
}

impl fmt::Debug for PanicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PanicText")
    }
}

impl fmt::Display for PanicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for PanicText {}
