//! Bodies that .NET's `DataContractSerializer` has written, in binary and in text XML. They are only read.

mod access;
mod base64_text;
mod binary;
mod document;
mod read;
mod reader;
mod time;
mod value;
mod xml;

use std::{borrow::Cow, str};

use bytes::BytesMut;
use serde::{Deserialize, Serialize};

use self::{
    document::{Document, Namespace},
    reader::Reader,
};
use super::{charset, empty};
use crate::serde_error::Refused;
use crate::{
    Codec, DecodeContext, DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, Format, Limits, MediaType,
    explain::{Trace, explain},
    limits::text_position,
};

/// Binary XML of .NET's `DataContractSerializer`: the body of a `BrokeredMessage` that was made of an object. `application/msbin1`.
///
/// Such a body usually has no ContentType, so the codec is a member of the fallback chain, or the default. It reads a body whose
/// outermost element is in one of these namespaces, and refuses others with [`DecodeErrorKind::Type`]:
///
/// - `http://schemas.microsoft.com/2003/10/Serialization/`: `string`, `base64Binary`, `int` and the other simple values
/// - `http://schemas.microsoft.com/2003/10/Serialization/Arrays`: lists and dictionaries of them
/// - `http://schemas.datacontract.org/2004/07/...`: data contracts without a namespace of their own
///
/// [`with_roots`](Self::with_roots) adds data contracts with a namespace of their own.
///
/// # Types
///
/// | .NET | Rust |
/// |---|---|
/// | `string`, `Uri`, a member of an enum | text; an enum by the names of its variants |
/// | `byte[]` | `Vec<u8>`, and types such as `serde_bytes::ByteBuf`; as text it is base64 |
/// | `bool`, numbers | `bool`, numbers; a whole float and a whole decimal also as an integer of up to 64 bits |
/// | `decimal` | text with all of its digits, also where the type is not known; the nearest float |
/// | `char` | `char`, `u16`: .NET writes the number of the UTF-16 unit |
/// | `DateTime` | text of RFC 3339 with `Z`. A `DateTime` without a kind is text without a zone: `2024-03-01T00:00:00`. In binary XML a local one is converted to UTC |
/// | `DateTimeOffset` | a struct with the fields `DateTime`, in UTC, and `OffsetMinutes` |
/// | `TimeSpan` | text, a duration of XML Schema: `P1DT2H3M4.5S` |
/// | `Guid` | text with hyphens, in lower case |
/// | an object | a struct with the names of the members; a map |
/// | a list, an array | a sequence, a tuple |
/// | a dictionary | a map |
/// | null, a nullable without a value | `None`, unit |
///
/// Namespaces of members and the attribute `type` are ignored. A reference to another object in the same body (`IsReference`) is
/// refused with [`DecodeErrorKind::Type`], except in fields that the type ignores. So is a number of a dictionary, which writers
/// use only if both sides have that dictionary.
///
/// A number, `0` and `1`, is not distinguished from text where the type is not known. There, elements are a list if there are
/// several of one name or they are in the namespace of lists, and otherwise an object.
///
/// # Limits
///
/// The body is read as a whole before the type sees it. Each element but the outermost is an element of [`Limits::elements`], and
/// takes less than 300 bytes of memory while the body is read; text and bytes are not copied. At most 64 prefixes are declared at
/// a time, and an element has at most 64 attributes.
///
/// ```
/// use consign_codecs::{Codec, DataContractBinary, DecodeContext, Limits};
///
/// let body = b"\x40\x06string\x08\x33http://schemas.microsoft.com/2003/10/Serialization/\x99\x05Hello";
/// let limits = Limits::default();
/// let text: &str = DataContractBinary::default().decode(body, &DecodeContext::new(&limits))?;
/// assert_eq!(text, "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataContractBinary {
    roots: &'static [(&'static str, &'static str)],
}

/// Text XML of .NET's `DataContractSerializer`, in UTF-8: `application/xml`, `text/xml` and every `+xml`.
///
/// It reads the same outermost elements and types as [`DataContractBinary`]. The text of a time is passed on unchanged: a local time
/// is not converted to UTC. It is not a codec for other XML: it ignores attributes, and refuses text beside elements and a
/// document type.
///
/// The encoding in the XML declaration has no effect on text that is valid UTF-8: .NET's `StringWriter` declares UTF-16, whatever the
/// text is sent as. Other bytes are refused.
///
/// Text XML does not mark bytes and numbers. A type that takes bytes reads base64, one that takes numbers reads numbers, and
/// where the type is not known every value is text.
///
/// ```
/// use consign_codecs::{Codec, DataContractXml, DecodeContext, Limits};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "PascalCase")]
/// struct Order {
///     id: u32,
///     note: Option<String>,
/// }
///
/// let body = br#"<Order xmlns="http://schemas.datacontract.org/2004/07/Shop"
///     xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Id>7</Id><Note i:nil="true"/></Order>"#;
/// let limits = Limits::default();
/// let order: Order = DataContractXml::default().decode(body, &DecodeContext::new(&limits))?;
/// assert_eq!((order.id, order.note), (7, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataContractXml {
    roots: &'static [(&'static str, &'static str)],
}

impl DataContractBinary {
    /// Returns a codec that also reads these outermost elements. Each is a name and a namespace, as in
    /// `[DataContract(Name = "shipment", Namespace = "urn:example:shipping")]`.
    #[must_use]
    pub const fn with_roots(roots: &'static [(&'static str, &'static str)]) -> Self {
        Self { roots }
    }

    /// Returns the content of a body that is one `byte[]` or one `string`: the bytes, or the text in UTF-8. They are borrowed
    /// from the body if it has them in one piece.
    ///
    /// A producer that has encoded its message itself sends such a body; the content may be JSON.
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Codec::decode). [`DecodeErrorKind::Type`] if the body is another value, or null.
    pub fn contents<'a>(body: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, DecodeError> {
        limits.check_size(body)?;
        contents(&binary::parse(body, limits)?)
    }
}

impl DataContractXml {
    /// Returns a codec that also reads these outermost elements, as [`DataContractBinary::with_roots`].
    #[must_use]
    pub const fn with_roots(roots: &'static [(&'static str, &'static str)]) -> Self {
        Self { roots }
    }

    /// Returns the content of a body that is one `byte[]` or one `string`, as [`DataContractBinary::contents`].
    ///
    /// # Errors
    ///
    /// Those of [`decode`](Codec::decode). [`DecodeErrorKind::Type`] if the body is another value, or null.
    pub fn contents<'a>(body: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, DecodeError> {
        limits.check_size(body)?;
        let contents = xml(body, limits).and_then(|document| contents(&document));
        contents.map_err(|error| behind_mark(error, body))
    }
}

impl Codec for DataContractBinary {
    fn name(&self) -> &'static str {
        "datacontract-binary"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] = &[MediaType::exact("application/msbin1")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if body.is_empty() {
            return empty::decode();
        }
        read(&binary::parse(body, cx.limits())?, self.roots)
    }

    /// Refuses every value with [`EncodeErrorKind::Unsupported`].
    fn encode<T: Serialize + ?Sized>(&self, _: &T, _: &mut BytesMut) -> Result<(), EncodeError> {
        Err(only_read())
    }
}

impl Codec for DataContractXml {
    fn name(&self) -> &'static str {
        "datacontract-xml"
    }

    fn media_types(&self) -> &'static [MediaType] {
        const TYPES: &[MediaType] =
            &[MediaType::exact("application/xml"), MediaType::exact("text/xml"), MediaType::suffix("xml")];
        TYPES
    }

    fn format(&self) -> Format {
        Format::SelfDescribing
    }

    fn decode<'de, T: Deserialize<'de>>(&self, body: &'de [u8], cx: &DecodeContext<'_>) -> Result<T, DecodeError> {
        cx.limits().check_size(body)?;
        if let Some(charset) = cx.parameter("charset")
            && !["utf-8", "us-ascii", "utf8"].iter().any(|known| known.eq_ignore_ascii_case(charset))
        {
            return Err(charset::unsupported(charset, "utf-8 or us-ascii"));
        }
        if charset::strip_bom(body).is_empty() {
            return empty::decode();
        }
        let value = xml(body, cx.limits()).and_then(|document| read(&document, self.roots));
        value.map_err(|error| behind_mark(error, body))
    }

    /// Refuses every value with [`EncodeErrorKind::Unsupported`].
    fn encode<T: Serialize + ?Sized>(&self, _: &T, _: &mut BytesMut) -> Result<(), EncodeError> {
        Err(only_read())
    }
}

/// Reads text XML. Its places are those behind a byte order mark.
fn xml<'a>(body: &'a [u8], limits: &Limits) -> Result<Document<'a>, DecodeError> {
    let body = charset::strip_bom(body);
    let text = str::from_utf8(body)
        .map_err(|error| DecodeError::new(DecodeErrorKind::Utf8).at(text_position(body, error.valid_up_to())))?;
    xml::parse(text, limits)
}

#[cold]
fn behind_mark(error: DecodeError, body: &[u8]) -> DecodeError {
    error.behind_mark(body.len() - charset::strip_bom(body).len())
}

fn read<'de, T: Deserialize<'de>>(document: &Document<'de>, roots: &[(&str, &str)]) -> Result<T, DecodeError> {
    document.check_root(roots)?;
    T::deserialize(Reader::new(document, 0)).map_err(|refused| {
        let read = |trace: &Trace| trace.read::<T, _>(Reader::new(document, 0));
        explain(refused.into_inner(), read, |_| None)
    })
}

fn contents<'a>(document: &Document<'a>) -> Result<Cow<'a, [u8]>, DecodeError> {
    let reader = Reader::new(document, 0);
    let root = document.root().filter(|root| root.namespace == Namespace::Serialization && !root.is_nil);
    let found = match root.map(|root| root.name) {
        Some("string") => reader.string().map(|text| {
            text.map(|text| match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            })
        }),
        Some("base64Binary") => reader.bytes(),
        _ => Ok(None),
    };
    let found = found.map_err(Refused::into_inner)?;
    found.ok_or_else(|| {
        let error = DecodeError::new(DecodeErrorKind::Type).with_expected("one `byte[]` or `string`");
        error.at(document.position(0))
    })
}

#[cold]
fn only_read() -> EncodeError {
    EncodeError::new(EncodeErrorKind::Unsupported).with_detail("bodies of .NET's DataContractSerializer are only read")
}
