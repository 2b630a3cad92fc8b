use tower_layer::Layer;

use super::{Encoding, RATIO, encoding::is_compressed};
use crate::{
    Message,
    message::MessageBody,
    middleware::{Rewriter, Rewriting},
    transport::SendError,
};

/// A layer that compresses bodies; see the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct CompressLayer {
    pub(crate) encoding: Encoding,
    pub(crate) threshold: usize,
    pub(crate) level: Option<u32>,
}

impl CompressLayer {
    /// Compresses bodies of at least 1,024 bytes by `encoding`.
    #[must_use]
    pub const fn new(encoding: Encoding) -> Self {
        Self { encoding, threshold: 1_024, level: None }
    }

    /// Sets how hard to try: 1, the fastest, to 9 for gzip and deflate, and to 19 for zstd; a level outside of that is
    /// clamped. By default 1 for gzip and deflate, and 3 for zstd.
    #[must_use]
    pub const fn level(mut self, level: u32) -> Self {
        self.level = Some(level);
        self
    }

    /// Leaves bodies of fewer bytes unchanged.
    #[must_use]
    pub const fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    fn compress(self, mut message: Message) -> Message {
        let MessageBody::Data(data) = message.body() else { return message };
        if message.body().size() < self.threshold {
            return message;
        }
        let is_encoded = message.pass_through().is_some_and(|rest| rest.content_encoding.is_some());
        let body = data.joined();
        if is_encoded || is_compressed(body) {
            return message;
        }
        // A receiver refuses what grows too much.
        let useful = body.len().div_ceil(RATIO)..body.len();
        let Some(compressed) = self
            .encoding
            .compress(body, self.encoding.level(self.level))
            .filter(|compressed| useful.contains(&compressed.len()))
        else {
            return message;
        };
        message = message.with_body(compressed);
        message.properties_mut().pass_through_mut().content_encoding = Some(self.encoding.name().into());
        message
    }
}

impl<S> Layer<S> for CompressLayer {
    type Service = Compress<S>;

    fn layer(&self, inner: S) -> Compress<S> {
        Rewriting::new(inner, *self)
    }
}

/// Compresses bodies; see the [module](super).
pub(super) type Compress<S> = Rewriting<S, CompressLayer>;

impl Rewriter for CompressLayer {
    #[inline]
    fn leaves(&self, message: &Message) -> bool {
        message.body().size() < self.threshold
    }

    #[inline]
    fn rewrite(&self, message: Message) -> Result<Message, SendError> {
        Ok(self.compress(message))
    }
}
