//! An element of a document, and what it has inside.

use std::borrow::Cow;

use super::{
    base64_text,
    document::{Document, Kind, Namespace},
    value::Value,
};
use crate::{DecodeError, DecodeErrorKind, serde_error::Refused};

/// One element.
#[derive(Clone, Copy)]
pub(super) struct Reader<'d, 'de> {
    pub(super) document: &'d Document<'de>,
    pub(super) node: usize,
}

/// What an element has inside.
pub(super) enum Content<'d, 'de> {
    Nil,
    Empty,
    One(&'d Value<'de>),
    /// Several texts.
    Texts,
    Elements,
}

/// What the text of an element is, after its pieces are put together.
pub(super) enum Scalar<'d, 'de> {
    Value(&'d Value<'de>),
    Text(String),
    Bytes(Vec<u8>),
}

impl<'d, 'de> Reader<'d, 'de> {
    pub(super) const fn new(document: &'d Document<'de>, node: usize) -> Self {
        Self { document, node }
    }

    pub(super) fn content(self) -> Result<Content<'d, 'de>, Refused> {
        let Some(element) = self.document.element(self.node) else { return Ok(Content::Empty) };
        if element.is_reference {
            let error = DecodeError::new(DecodeErrorKind::Type);
            return Err(error.with_detail("references to other objects are not supported").into());
        }
        if element.is_nil {
            return Ok(Content::Nil);
        }
        let (mut first, mut texts) = (None, 0_usize);
        for (_, kind) in self.document.inside(self.node) {
            match kind {
                Kind::Element(_) => return Ok(Content::Elements),
                Kind::Value(value) => {
                    first = first.or(Some(value));
                    texts += 1;
                }
            }
        }
        Ok(match first {
            None => Content::Empty,
            Some(value) if texts == 1 => Content::One(value),
            Some(_) => Content::Texts,
        })
    }

    /// Puts the texts of an element together: all are bytes, or all are text.
    pub(super) fn joined(self) -> Scalar<'d, 'de> {
        let values = || {
            self.document.inside(self.node).filter_map(|(_, kind)| match kind {
                Kind::Value(value) => Some(value),
                Kind::Element(_) => None,
            })
        };
        if values().all(|value| matches!(value, Value::Bytes(_))) {
            let parts = values().filter_map(|value| if let Value::Bytes(bytes) = value { Some(*bytes) } else { None });
            return Scalar::Bytes(parts.collect::<Vec<_>>().concat());
        }
        Scalar::Text(values().map(Value::text).collect())
    }

    /// Returns the text of the element; `None` if it has none.
    pub(super) fn scalar(self, content: &Content<'d, 'de>) -> Option<Scalar<'d, 'de>> {
        match content {
            Content::Nil | Content::Elements => None,
            Content::Empty => Some(Scalar::Text(String::new())),
            Content::One(value) => Some(Scalar::Value(value)),
            Content::Texts => Some(self.joined()),
        }
    }

    /// Returns the text, for types that take text and for numbers.
    pub(super) fn text(self) -> Result<Option<Cow<'d, str>>, Refused> {
        let content = self.content()?;
        Ok(self.scalar(&content).map(|scalar| match scalar {
            Scalar::Value(value) => value.text(),
            Scalar::Text(text) => Cow::Owned(text),
            Scalar::Bytes(bytes) => Cow::Owned(base64_text::encode(&bytes)),
        }))
    }

    /// Returns the bytes of the element: bytes, or text in base64. `None` if it is something else.
    pub(super) fn bytes(self) -> Result<Option<Cow<'de, [u8]>>, Refused> {
        let content = self.content()?;
        Ok(match self.scalar(&content) {
            Some(Scalar::Value(Value::Bytes(bytes))) => Some(Cow::Borrowed(*bytes)),
            Some(Scalar::Value(Value::Text(text))) => base64_text::decode(text).map(Cow::Owned),
            Some(Scalar::Text(text)) => base64_text::decode(&text).map(Cow::Owned),
            Some(Scalar::Bytes(bytes)) => Some(Cow::Owned(bytes)),
            // `0` and `1` as text have the records of numbers, but one character is not base64.
            Some(Scalar::Value(_)) | None => None,
        })
    }

    /// Returns the text of the element, borrowed if it can be.
    pub(super) fn string(self) -> Result<Option<Cow<'de, str>>, Refused> {
        if let Content::One(value) = self.content()?
            && let Some(text) = value.borrowed()
        {
            return Ok(Some(Cow::Borrowed(text)));
        }
        Ok(self.text()?.map(|text| Cow::Owned(text.into_owned())))
    }

    /// Adds the place of this element to an error that has none.
    #[cold]
    pub(super) fn at(self, refused: Refused) -> Refused {
        let error = refused.into_inner();
        if error.position().is_some() { error.into() } else { error.at(self.document.position(self.node)).into() }
    }

    /// Whether the elements inside are entries of a dictionary.
    pub(super) fn is_dictionary(self) -> bool {
        let first = self.elements().next().and_then(|node| self.document.element(node));
        first.is_some_and(|it| it.namespace == Namespace::Arrays && it.name.starts_with("KeyValueOf"))
    }

    /// Whether the elements inside look like those of a list: simple values, or more than one of the same name.
    pub(super) fn is_list(self) -> bool {
        let mut elements = self.elements().filter_map(|node| self.document.element(node));
        let Some(first) = elements.next() else { return false };
        if first.namespace == Namespace::Arrays {
            return true;
        }
        let mut others = elements.peekable();
        others.peek().is_some() && others.all(|other| other.name == first.name)
    }

    pub(super) fn elements(self) -> impl Iterator<Item = usize> + 'd
    where
        'de: 'd,
    {
        self.document.inside(self.node).filter(|(_, kind)| matches!(kind, Kind::Element(_))).map(|(node, _)| node)
    }
}
