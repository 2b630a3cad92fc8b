use crate::{
    Message,
    transport::{Batch, SendError},
};

/// A request whose bodies are encoded: a message, or each message of a batch. A layer that works through this trait
/// cannot skip a path.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bytes yet",
    note = "a layer that changes bytes comes after encode: a `Message` or a `Batch` has bytes, a value that is still to be encoded has none"
)]
pub trait Rewrite: Sized {
    /// Replaces each message by what `f` makes of it, up to the first error.
    fn try_each(self, f: &mut dyn FnMut(Message) -> Result<Message, SendError>) -> Result<Self, SendError>;
}

impl Rewrite for Message {
    #[inline]
    fn try_each(self, f: &mut dyn FnMut(Message) -> Result<Message, SendError>) -> Result<Self, SendError> {
        f(self)
    }
}

impl Rewrite for Batch {
    fn try_each(self, f: &mut dyn FnMut(Message) -> Result<Message, SendError>) -> Result<Self, SendError> {
        self.0.into_iter().map(f).collect::<Result<_, _>>().map(Batch)
    }
}
