use bytes::BytesMut;
use prost::Message;

use crate::{DecodeContext, DecodeError, DecodeErrorKind, EncodeError, MediaType, limits};

/// A protobuf message of `prost`, as a type that reads and writes its own bytes.
///
/// Unlike the serde formats, an empty body is a message whose fields all have their defaults: that is how protobuf
/// writes one. Bytes are checked for lengths, the nesting of groups and the number of fields of the outer message;
/// messages inside messages are bounded by prost's own limit of 100 levels.
///
/// ```
/// use bytes::BytesMut;
/// use consign_codecs::{DecodeContext, Limits, Protobuf};
///
/// let mut out = BytesMut::new();
/// Protobuf("hello".to_owned()).write(&mut out)?;
///
/// let limits = Limits::default();
/// let Protobuf(text) = Protobuf::<String>::read(&out, &DecodeContext::new(&limits))?;
/// assert_eq!(text, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protobuf<M>(pub M);

impl<M> Protobuf<M> {
    /// The media types of protobuf. The first is the one that is written.
    pub const MEDIA_TYPES: &'static [MediaType] = &[
        MediaType::exact("application/protobuf"),
        MediaType::exact("application/x-protobuf"),
        MediaType::exact("application/vnd.google.protobuf"),
    ];
}

impl<M: Message + Default> Protobuf<M> {
    /// Reads a message out of the whole body.
    pub fn read(body: &[u8], cx: &DecodeContext<'_>) -> Result<Self, DecodeError> {
        cx.limits().check_size(body)?;
        limits::protobuf::check(body, cx.limits())?;
        M::decode(body).map(Self).map_err(|error| refusal(&error))
    }
}

impl<M: Message> Protobuf<M> {
    /// Appends the message to `out`.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.0.encode(out).map_err(super::detail::unsupported)
    }
}

/// Names and numbers in prost's texts may come from the body, so only the kind is kept, and prost tells that by text
/// alone.
#[cold]
fn refusal(error: &prost::DecodeError) -> DecodeError {
    const KINDS: [(&str, DecodeErrorKind); 5] = [
        ("recursion limit reached", DecodeErrorKind::Depth),
        ("buffer underflow", DecodeErrorKind::Truncated),
        ("data is not UTF-8 encoded", DecodeErrorKind::Utf8),
        ("delimited length exceeded", DecodeErrorKind::Length),
        ("length delimiter exceeds maximum usize value", DecodeErrorKind::Length),
    ];
    let text = error.to_string();
    let kind = KINDS.iter().find(|(end, _)| text.ends_with(end)).map(|&(_, kind)| kind);
    // A field of another wire type than the schema has.
    let of_type = text.contains("invalid wire type: ").then_some(DecodeErrorKind::Type);
    DecodeError::new(kind.or(of_type).unwrap_or(DecodeErrorKind::Syntax))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[derive(Clone, PartialEq, Message)]
    struct Node {
        #[prost(message, optional, boxed, tag = "1")]
        next: Option<Box<Node>>,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(uint32, tag = "3")]
        qty: u32,
    }

    fn read(body: &[u8]) -> Result<Node, DecodeErrorKind> {
        let limits = Limits::default();
        Protobuf::read(body, &DecodeContext::new(&limits)).map(|Protobuf(node)| node).map_err(|error| error.kind())
    }

    fn nested(levels: usize) -> BytesMut {
        let mut node = Node::default();
        for _ in 0..levels {
            node = Node { next: Some(Box::new(node)), ..Node::default() };
        }
        let mut out = BytesMut::new();
        Protobuf(node).write(&mut out).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let node = Node { next: Some(Box::default()), name: "n".into(), qty: 7 };
        let mut out = BytesMut::new();
        Protobuf(node.clone()).write(&mut out).unwrap();
        assert_eq!(read(&out), Ok(node));
        assert_eq!(read(&[]), Ok(Node::default()));
    }

    #[test]
    fn kinds_of_refusals() {
        assert!(read(&nested(60)).is_ok());
        assert_eq!(read(&nested(120)), Err(DecodeErrorKind::Depth));
        assert_eq!(read(&[0x12, 1, 0xff]), Err(DecodeErrorKind::Utf8));
        assert_eq!(read(&[0x12, 5, b'a']), Err(DecodeErrorKind::Truncated));
        assert_eq!(read(&[0x0a, 2, 0x12, 5]), Err(DecodeErrorKind::Truncated));
        assert_eq!(read(&[0x10, 5]), Err(DecodeErrorKind::Type));
        assert_eq!(read(&[0x0f]), Err(DecodeErrorKind::Syntax));
    }
}
