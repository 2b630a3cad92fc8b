//! Limits for decoders whose bodies cannot be scanned ahead: the bytes of a positional format mean nothing without the type,
//! and those of a plug-in are unknown. A [`Guard`] is between the type and the decoder and counts the requests of the type.

mod visitor;

use std::cell::Cell;

use serde::{
    Deserializer,
    de::{Error, Visitor},
};

use self::visitor::Container;
use crate::{DecodeError, DecodeErrorKind, Limits};

/// The limits of one decoding, and the limit that stopped it. The decoder's own error type cannot carry that.
pub(crate) struct Watch {
    max_depth: usize,
    /// How many more elements the whole body may have.
    elements: Cell<usize>,
    body: usize,
    breach: Cell<Option<DecodeErrorKind>>,
}

impl Watch {
    pub(crate) fn new(limits: &Limits, body: &[u8]) -> Self {
        Self {
            max_depth: limits.depth.min(Limits::MAX_DEPTH),
            elements: Cell::new(limits.elements.min(Limits::MAX_ELEMENTS)),
            body: body.len(),
            breach: Cell::new(None),
        }
    }

    /// Returns the limit that was exceeded, which explains any error of the decoder.
    pub(crate) fn breach(&self) -> Option<DecodeError> {
        self.breach.get().map(DecodeError::new)
    }

    #[cold]
    fn refuse<E: Error>(&self, kind: DecodeErrorKind) -> E {
        self.breach.set(Some(kind));
        E::custom("over a limit")
    }
}

/// A deserializer that enforces the limits of a [`Watch`].
///
/// Sequences, maps, structs, tuples and enum variants with data are a level of depth each, as in a self-describing
/// format. An option is one only directly inside another: a list whose links are options has the depth of its structs.
///
/// Elements are those of sequences and the entries of maps. A tuple or a struct that is encoded as a sequence has as many
/// fields as the type declares, whatever the body says, so these do not count.
pub(crate) struct Guard<'w, D> {
    inner: D,
    level: Level<'w>,
}

/// The place of a guard in the value.
#[derive(Clone, Copy)]
struct Level<'w> {
    watch: &'w Watch,
    depth: usize,
    in_option: bool,
}

impl<'w> Level<'w> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= self.watch.max_depth {
            return Err(self.watch.refuse(DecodeErrorKind::Depth));
        }
        Ok(Self { depth: self.depth + 1, in_option: false, ..self })
    }

    fn option<E: Error>(self) -> Result<Self, E> {
        let level = if self.in_option { self.deeper()? } else { self };
        Ok(Self { in_option: true, ..level })
    }

    /// Counts so many elements, before they are read.
    #[inline]
    fn count<E: Error>(self, elements: usize) -> Result<(), E> {
        match self.watch.elements.get().checked_sub(elements) {
            Some(left) => {
                self.watch.elements.set(left);
                Ok(())
            }
            None => Err(self.watch.refuse(DecodeErrorKind::Count)),
        }
    }

    /// Subtracts declared elements that did not come.
    fn uncount(self, elements: usize) {
        self.watch.elements.set(self.watch.elements.get() + elements);
    }

    /// Returns the capacity that a type may reserve. Elements of no size need nothing, and the others are at least a byte of
    /// the body.
    fn reserve(self, hint: Option<usize>) -> Option<usize> {
        hint.map(|count| count.min(self.watch.body))
    }

    const fn guard<D>(self, inner: D) -> Guard<'w, D> {
        Guard { inner, level: self }
    }
}

impl<'w, D> Guard<'w, D> {
    pub(crate) const fn new(inner: D, watch: &'w Watch) -> Self {
        Self { inner, level: Level { watch, depth: 0, in_option: false } }
    }
}

macro_rules! containers {
    ($($of_type:literal $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name($($arg,)* Container::<_, $of_type> { visitor, level: self.level })
        }
    )*};
}

macro_rules! leaves {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guard<'_, D> {
    type Error = D::Error;

    leaves! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char
    }

    containers! {
        false deserialize_any();
        false deserialize_str();
        false deserialize_string();
        false deserialize_identifier();
        false deserialize_unit();
        false deserialize_bytes();
        false deserialize_byte_buf();
        false deserialize_ignored_any();
        false deserialize_option();
        false deserialize_seq();
        false deserialize_map();
        false deserialize_unit_struct(name: &'static str);
        false deserialize_newtype_struct(name: &'static str);
        true deserialize_tuple(len: usize);
        true deserialize_tuple_struct(name: &'static str, len: usize);
        true deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        false deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
