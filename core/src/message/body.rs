use std::{fmt, sync::OnceLock};

use bytes::{Bytes, BytesMut};

use super::Value;

/// The body of a message, opaque to brokers. Codecs write [`MessageBody::Data`].
#[derive(Clone, PartialEq)]
pub enum MessageBody {
    /// Bytes, in one or more sections.
    Data(Data),
    /// One AMQP value.
    Value(Box<Value>),
    /// AMQP sequences.
    Sequence(Box<[Vec<Value>]>),
}

/// The bytes of a body: nearly always one section, which is held inline.
#[derive(Clone)]
pub struct Data(Sections);

#[derive(Clone)]
enum Sections {
    One(Bytes),
    Many(Box<Many>),
}

#[derive(Clone)]
struct Many {
    sections: Box<[Bytes]>,
    joined: OnceLock<Bytes>,
}

impl MessageBody {
    /// A body of one empty section.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Data(Data(Sections::One(Bytes::new())))
    }

    /// Several data sections, kept apart in the raw view. None is one empty section.
    #[must_use]
    pub fn sections(sections: Vec<Bytes>) -> Self {
        if sections.len() <= 1 {
            return sections.into_iter().next().map_or_else(Self::empty, Self::from);
        }
        Self::Data(Data(Sections::Many(Box::new(Many { sections: sections.into(), joined: OnceLock::new() }))))
    }

    /// Returns the bytes that a codec reads: the sections joined, the bytes of a binary or string value, nothing for a null.
    /// `None` for other values and for sequences, which byte codecs cannot read.
    #[must_use]
    #[inline]
    pub fn codec_view(&self) -> Option<&[u8]> {
        match self {
            Self::Data(data) => Some(data.joined()),
            Self::Value(value) => value.codec_view(),
            Self::Sequence(_) => None,
        }
    }

    /// Returns the kind of the body, for error texts.
    #[doc(hidden)]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Data(_) => "data sections",
            Self::Value(value) => value.kind(),
            Self::Sequence(_) => "an AMQP sequence",
        }
    }

    /// Bytes that the body counts for against a size limit. Of several sections, and of values in a sequence, each counts
    /// one more, so that empty ones are bounded too.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Data(Data(Sections::One(bytes))) => bytes.len(),
            Self::Data(data) => data.sections().iter().map(|section| 1 + section.len()).sum(),
            Self::Value(value) => value.size(),
            Self::Sequence(sections) => {
                sections.iter().map(|values| 1 + values.iter().map(Value::size_inside).sum::<usize>()).sum()
            }
        }
    }
}

impl Data {
    /// Returns the sections as they were sent.
    #[must_use]
    pub fn sections(&self) -> &[Bytes] {
        match &self.0 {
            Sections::One(one) => std::slice::from_ref(one),
            Sections::Many(many) => &many.sections,
        }
    }

    /// Returns the sections joined; more than one are copied together once.
    #[must_use]
    #[inline]
    pub fn joined(&self) -> &Bytes {
        match &self.0 {
            Sections::One(one) => one,
            Sections::Many(many) => many.joined.get_or_init(|| {
                let mut all = BytesMut::with_capacity(many.sections.iter().map(Bytes::len).sum());
                many.sections.iter().for_each(|section| all.extend_from_slice(section));
                all.freeze()
            }),
        }
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        self.sections() == other.sections()
    }
}

impl From<Bytes> for MessageBody {
    fn from(bytes: Bytes) -> Self {
        Self::Data(Data(Sections::One(bytes)))
    }
}

impl From<Vec<u8>> for MessageBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static [u8]> for MessageBody {
    fn from(bytes: &'static [u8]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl<const N: usize> From<&'static [u8; N]> for MessageBody {
    fn from(bytes: &'static [u8; N]) -> Self {
        Bytes::from_static(bytes).into()
    }
}

impl From<&'static str> for MessageBody {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<String> for MessageBody {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<Value> for MessageBody {
    fn from(value: Value) -> Self {
        Self::Value(Box::new(value))
    }
}

impl fmt::Debug for MessageBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => fmt::Debug::fmt(data, f),
            Self::Value(_) => write!(f, "Value({} bytes)", self.size()),
            Self::Sequence(_) => write!(f, "Sequence({} bytes)", self.size()),
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.sections().iter().map(Bytes::len).sum::<usize>())
    }
}
