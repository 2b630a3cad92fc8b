use bytes::BytesMut;
use prost::Message;

use crate::{DecodeContext, DecodeError, DecodeErrorKind, EncodeError, Limits, MediaType, ValueKind, limits};

/// A protobuf message of `prost`, as a type that reads and writes its own bytes.
///
/// Unlike the serde formats, an empty body is a message whose fields all have their defaults: that is how protobuf
/// writes one. Bytes are checked for lengths, the nesting of groups and the number of fields of the outer message.
/// Messages inside messages are bounded by prost's own limit of 100 levels. Their fields count too, though not exactly:
/// up to [`Limits::elements`](crate::Limits::elements) fields and elements of packed fields are always read, and more than
/// three times as many never.
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
    /// Reads a message from the whole body.
    pub fn read(body: &[u8], cx: &DecodeContext<'_>) -> Result<Self, DecodeError> {
        cx.limits().check_size(body)?;
        limits::protobuf::check(body, cx.limits())?;
        // A field and an element of a packed one have at least a byte, so a short body cannot have too many.
        if body.len() <= cx.limits().elements.min(Limits::MAX_ELEMENTS) {
            return M::decode(body).map(Self).map_err(|error| refusal(&error));
        }
        let mut counted = limits::protobuf::Counted::new(body, cx.limits());
        let message = M::decode(&mut counted);
        if counted.is_over() {
            return Err(DecodeError::new(DecodeErrorKind::Count));
        }
        message.map(Self).map_err(|error| refusal(&error))
    }
}

impl<M: Message> Protobuf<M> {
    /// Appends the message to `out`.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.0.encode(out).map_err(crate::serde_error::unsupported)
    }
}

/// Returns the refusal for an error of prost. Numbers in prost's texts come from the body, so of these only the kind is kept.
/// The names are those of the message types and their fields. Prost reports all of that by text alone.
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
    let (path, text) = path(text.strip_prefix("failed to decode Protobuf message: ").unwrap_or(&text));
    let error = if let Some(types) = text.strip_prefix("invalid wire type: ") {
        wire_types(types)
    } else {
        let kind = KINDS.iter().find(|(end, _)| text.ends_with(end)).map(|&(_, kind)| kind);
        DecodeError::new(kind.unwrap_or(DecodeErrorKind::Syntax))
    };
    if path.is_empty() { error } else { error.with_path(path) }
}

/// Returns the fields at the start of a text, as `Line.name: Order.lines: `, and the text after them.
fn path(mut text: &str) -> (String, &str) {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut fields = Vec::new();
    while let Some((head, rest)) = text.split_once(": ") {
        match head.split_once('.') {
            Some((message, field)) if is_name(message) && is_name(field) => fields.push(field),
            _ => break,
        }
        text = rest;
    }
    // Prost names the innermost field first.
    fields.reverse();
    (fields.join("."), text)
}

/// Returns the refusal of a field of another wire type than the schema has: `Varint (expected LengthDelimited)`.
fn wire_types(text: &str) -> DecodeError {
    const NAMES: [(&str, &str, Option<ValueKind>); 6] = [
        ("Varint", "a varint", Some(ValueKind::Integer)),
        ("LengthDelimited", "a length-delimited value", Some(ValueKind::Bytes)),
        ("SixtyFourBit", "a value of 64 bits", None),
        ("ThirtyTwoBit", "a value of 32 bits", None),
        ("StartGroup", "a group", None),
        ("EndGroup", "the end of a group", None),
    ];
    let error = DecodeError::new(DecodeErrorKind::Type);
    let Some((actual, expected)) = text.split_once(" (expected ") else { return error };
    let find = |name: &str| NAMES.iter().find(|(wire, ..)| *wire == name);
    let error = match find(expected.trim_end_matches(')')) {
        Some((_, expected, _)) => error.with_expected(*expected),
        None => error,
    };
    match find(actual).and_then(|&(.., found)| found) {
        Some(found) => error.with_found(found),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_written_value_is_read_back() {
        let node = Node { next: Some(Box::default()), name: "n".into(), qty: 7 };
        let mut out = BytesMut::new();
        Protobuf(node.clone()).write(&mut out).unwrap();
        assert_eq!(read(&out), Ok(node));
        assert_eq!(read(&[]), Ok(Node::default()));
    }

    /// Rules: P-121, P-122.
    #[test]
    fn the_path_has_the_fields_and_no_numbers() {
        let limits = Limits::default();
        let read = |body: &[u8]| Protobuf::<Node>::read(body, &DecodeContext::new(&limits)).unwrap_err();
        let error = read(&[0x0a, 4, 0x0a, 2, 0x10, 5]);
        assert_eq!(error.path(), Some("next.next.name"));
        assert_eq!((error.expected(), error.found()), (Some("a length-delimited value"), Some(ValueKind::Integer)));
        let error = read(&[0x1a, 0]);
        assert_eq!(error.path(), Some("qty"));
        assert_eq!((error.expected(), error.found()), (Some("a varint"), Some(ValueKind::Bytes)));
        let error = read(&[0x0a, 3, 0x12, 1, 0xff]);
        assert_eq!((error.kind(), error.path()), (DecodeErrorKind::Utf8, Some("next.name")));
    }

    /// Rules: P-124.
    #[test]
    fn fields_count_in_messages_inside_of_messages() {
        #[derive(Clone, PartialEq, Message)]
        struct Tree {
            #[prost(message, repeated, tag = "1")]
            children: Vec<Tree>,
            #[prost(uint32, repeated, tag = "2")]
            numbers: Vec<u32>,
        }
        let limits = Limits::default().elements(30);
        let read = |children: usize, numbers: usize| {
            let leaf = Tree { children: vec![Tree::default(); children], numbers: vec![1; numbers] };
            let mut body = BytesMut::new();
            Protobuf(Tree { children: vec![leaf], numbers: vec![] }).write(&mut body).unwrap();
            Protobuf::<Tree>::read(&body, &DecodeContext::new(&limits)).map(drop).map_err(|error| error.kind())
        };
        for within in [(29, 0), (0, 28), (14, 14)] {
            assert_eq!(read(within.0, within.1), Ok(()), "{within:?}");
        }
        for over in [(91, 0), (0, 91), (45, 46)] {
            assert_eq!(read(over.0, over.1), Err(DecodeErrorKind::Count), "{over:?}");
        }
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
