use std::borrow::Cow;

use crate::{DecodeError, DecodeErrorKind, Limits, names::Names, serde_error::Refused};

pub(super) const UNSIGNED: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
const TAG: u8 = 6;
pub(super) const SIMPLE: u8 = 7;

pub(super) const FALSE: u8 = 0xf4;
pub(super) const TRUE: u8 = 0xf5;
pub(super) const NULL: u8 = 0xf6;
pub(super) const UNDEFINED: u8 = 0xf7;
const BREAK: u8 = 0xff;

/// The first byte of an item and its argument: a value, a length, a count, or the bits of a float.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) first: u8,
    pub(super) argument: u64,
}

impl Head {
    #[inline]
    pub(super) const fn major(self) -> u8 {
        self.first >> 5
    }

    #[inline]
    pub(super) const fn is_indefinite(self) -> bool {
        self.first & 0x1f == 31
    }
}

/// A position in a body that the walk over its limits has found well-formed.
pub(super) struct Reader<'de> {
    len: usize,
    left: &'de [u8],
    /// The number of remaining bytes at the start of the item that is being read.
    item: usize,
    /// The innermost tag that was skipped, and the number of remaining bytes after it.
    tag: (usize, u64),
    /// Options that may still be inside each other: a type of nothing but options recurses and reads no bytes.
    options: usize,
    has_whole_integers: bool,
    /// What the next identifier is.
    pub(super) names: Names,
}

impl<'de> Reader<'de> {
    #[inline]
    pub(super) fn new(body: &'de [u8], limits: &Limits) -> Self {
        const SELF_DESCRIBED: &[u8] = &[0xd9, 0xd9, 0xf7];
        let left = body.strip_prefix(SELF_DESCRIBED).unwrap_or(body);
        let options = 4 * (limits.depth.min(Limits::MAX_DEPTH) + 1);
        let (len, item) = (body.len(), left.len());
        Self { len, left, item, tag: (usize::MAX, 0), options, has_whole_integers: false, names: Names::Keys }
    }

    /// Reads floats that are whole numbers as integers in untyped values. Serde buffers fields of internally tagged enums
    /// and flattened fields as untyped values, and the type of the field may be an integer.
    pub(super) const fn with_whole_integers(mut self) -> Self {
        self.has_whole_integers = true;
        self
    }

    pub(super) const fn has_whole_integers(&self) -> bool {
        self.has_whole_integers
    }

    /// Returns the start of the item that is being read, or was read last.
    #[cold]
    pub(super) fn offset(&self) -> usize {
        self.len - self.item
    }

    #[inline]
    pub(super) const fn item(&self) -> usize {
        self.item
    }

    /// Sets the item that is being read to one that [began](Self::item) earlier.
    #[inline]
    pub(super) const fn back_to(&mut self, item: usize) {
        self.item = item;
    }

    #[inline]
    pub(super) const fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }

    /// Reads a head, and skips the tags before it.
    #[inline]
    pub(super) fn head(&mut self) -> Result<Head, Refused> {
        if self.is_at_tag() {
            self.tags()?;
        }
        self.item = self.left.len();
        self.bare_head()
    }

    /// Returns the innermost tag of the item whose head was read last.
    #[inline]
    pub(super) fn tag(&self) -> Option<u64> {
        (self.tag.0 == self.item).then_some(self.tag.1)
    }

    #[inline]
    pub(super) fn is_at_tag(&self) -> bool {
        matches!(self.left.first(), Some(first) if first >> 5 == TAG)
    }

    /// Skips a null, in tags too, if there is one.
    #[inline]
    pub(super) fn take_null(&mut self) -> Result<bool, Refused> {
        let before = self.left;
        if self.is_at_tag() {
            self.tags()?;
        }
        if let Some((&(NULL | UNDEFINED), left)) = self.left.split_first() {
            self.item = self.left.len();
            self.left = left;
            return Ok(true);
        }
        self.left = before;
        Ok(false)
    }

    /// Skips a break, if there is one.
    #[inline]
    pub(super) fn take_break(&mut self) -> bool {
        let Some((&BREAK, left)) = self.left.split_first() else { return false };
        self.left = left;
        true
    }

    /// Returns whether text follows.
    #[inline]
    pub(super) fn is_at_text(&self) -> bool {
        matches!(self.left.first(), Some(first) if first >> 5 == TEXT)
    }

    #[cold]
    pub(super) fn tags(&mut self) -> Result<(), Refused> {
        while self.is_at_tag() {
            self.item = self.left.len();
            let tag = self.bare_head()?.argument;
            self.tag = (self.left.len(), tag);
            let detail = match tag {
                // A reference to a string or a value elsewhere in the body; and a mark of values that others refer to.
                25 | 28 | 29 | 256 => format!("references inside a body (tag {tag}) are not supported"),
                // The tags of cbor-x: definitions, one definition with its record, and records. Without the
                // tag, a record is an array of its values, which other types would be read from.
                57_342..=57_599 => {
                    format!("records of cbor-x (tag {tag}) are not supported; encode with `useRecords: false`")
                }
                _ => continue,
            };
            return Err(DecodeError::new(DecodeErrorKind::Type).with_detail(detail).into());
        }
        Ok(())
    }

    #[inline]
    fn bare_head(&mut self) -> Result<Head, Refused> {
        let Some((&first, left)) = self.left.split_first() else { return Err(truncated()) };
        self.left = left;
        let short = first & 0x1f;
        let argument = if short < 24 { short.into() } else { self.argument(short)? };
        Ok(Head { first, argument })
    }

    fn argument(&mut self, width: u8) -> Result<u64, Refused> {
        Ok(match width {
            24 => u8::from_be_bytes(self.take()?).into(),
            25 => u16::from_be_bytes(self.take()?).into(),
            26 => u32::from_be_bytes(self.take()?).into(),
            27 => u64::from_be_bytes(self.take()?),
            _ => 0,
        })
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let Some((bytes, left)) = self.left.split_first_chunk() else { return Err(truncated()) };
        self.left = left;
        Ok(*bytes)
    }

    /// Returns the bytes of a string of a definite length.
    #[inline]
    pub(super) fn bytes(&mut self, head: Head) -> Result<&'de [u8], Refused> {
        let split = usize::try_from(head.argument).ok().and_then(|len| self.left.split_at_checked(len));
        let Some((bytes, left)) = split else { return Err(truncated()) };
        self.left = left;
        Ok(bytes)
    }

    /// Returns the bytes of a string, which are joined if its length is indefinite.
    #[inline]
    pub(super) fn string(&mut self, head: Head) -> Result<Cow<'de, [u8]>, Refused> {
        if !head.is_indefinite() {
            return self.bytes(head).map(Cow::Borrowed);
        }
        let mut bytes = Vec::new();
        while !self.take_break() {
            let chunk = self.bare_head()?;
            bytes.extend_from_slice(self.bytes(chunk)?);
        }
        Ok(Cow::Owned(bytes))
    }

    #[inline]
    pub(super) fn text(&mut self, head: Head) -> Result<&'de str, Refused> {
        str::from_utf8(self.bytes(head)?).map_err(|_| not_text())
    }

    /// Skips an item and its contents. Only indefinite lengths recurse, as deep as the limits permit.
    pub(super) fn skip(&mut self) -> Result<(), Refused> {
        self.item = self.left.len();
        let mut items = 1_u64;
        while items > 0 {
            items -= 1;
            let head = self.bare_head()?;
            match head.major() {
                BYTES | TEXT | ARRAY | MAP if head.is_indefinite() => {
                    while !self.take_break() {
                        self.skip()?;
                    }
                }
                BYTES | TEXT => drop(self.bytes(head)?),
                ARRAY => items += head.argument,
                MAP => items += 2 * head.argument,
                TAG => items += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Does one more thing inside an option.
    #[inline]
    pub(super) fn in_option<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Refused>) -> Result<T, Refused> {
        let Some(options) = self.options.checked_sub(1) else {
            return Err(DecodeError::new(DecodeErrorKind::Depth).into());
        };
        self.options = options;
        let value = f(self)?;
        self.options += 1;
        Ok(value)
    }
}

#[cold]
fn truncated() -> Refused {
    DecodeError::new(DecodeErrorKind::Truncated).into()
}

#[cold]
pub(super) fn not_text() -> Refused {
    DecodeError::new(DecodeErrorKind::Utf8).into()
}
