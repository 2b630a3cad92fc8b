//! The deserializer that follows a second reading, and the visitor that it passes to the decoder.

mod visitor;

use std::cell::Cell;

use serde::{Deserializer, de::Visitor};

use self::visitor::Watched;
use super::Trace;
use crate::serde_error::Refused;

/// A deserializer that records its place in a [`Trace`].
pub(super) struct Traced<'t, D> {
    inner: D,
    trace: &'t Trace,
    key: Option<Key<'t>>,
}

/// Finds the key that is read among the names of a type.
#[derive(Clone, Copy)]
struct Key<'t> {
    names: &'static [&'static str],
    found: &'t Cell<Option<&'static str>>,
}

impl Key<'_> {
    fn look_up(self, key: &[u8]) {
        self.found.set(self.names.iter().copied().find(|name| name.as_bytes() == key));
    }
}

impl<'t, D> Traced<'t, D> {
    pub(super) const fn new(inner: D, trace: &'t Trace) -> Self {
        Self { inner, trace, key: None }
    }

    fn with_key(mut self, key: Option<Key<'t>>) -> Self {
        self.key = key;
        self
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*) $(named $names:ident)?;)*) => {$(
        fn $name<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, Refused> {
            let Self { inner, trace, key } = self;
            let call = trace.call(&visitor);
            let visitor = Watched { visitor, trace, names: forward!(@names $($names)?), key };
            inner.$name($($arg,)* visitor).map_err(|error| trace.lift(error, Some(call)))
        }
    )*};
    (@names) => { &[] };
    (@names $names:ident) => { $names };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Traced<'_, D> {
    type Error = Refused;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) named fields;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) named variants;
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
