//! Values in JSON, in three forms. [`As`] serializes and deserializes a value in one of them, by any format of serde that
//! describes itself.
//!
//! | value | [`Text`] | [`Tagged`] | [`Natural`] |
//! |---|---|---|---|
//! | null | `"null:"` | `"null"` | `null` |
//! | bool | `"bool:true"` | `{"bool":true}` | `true` |
//! | `i64` | `"i64:5"` | `{"i64":5}` | `5` |
//! | other integers | `"u8:5"` | `{"u8":5}` | `{"u8":5}` |
//! | `f32`, `f64` | `"f64:1.5"` | the bits: `{"f64":4609434218613702656}` | `{"f64":"1.5"}`, `"inf"`, `"-inf"`; of a NaN the bits, `"0x7ff8000000000000"` |
//! | char | `"char:a"` | `{"char":"a"}` | `{"char":"a"}` |
//! | string | `"s:a"` | `{"string":"a"}` | `"a"` |
//! | decimal | `"decimal:00…"` | `{"decimal":"00…"}`, 32 hexadecimal digits | `{"decimal":"AA…"}`, base64 of 16 bytes |
//! | UUID | `"uuid:00…"` | `{"uuid":"00…"}`, 32 hexadecimal digits | `{"uuid":"00000000-…"}`, with hyphens |
//! | instants, spans | `"time:5"` | `{"date_time":5}` | `{"date_time":5}` |
//! | URI | `"uri:a"` | `{"uri":"a"}` | `{"uri":"a"}` |
//! | bytes | `"bytes:FF"` | `{"bytes":"ff"}`, hexadecimal digits | `{"bytes":"/w=="}`, base64 |
//! | a simple value in a [`Value`](crate::message::Value) | the same | `{"simple":…}` | the same |
//! | symbol | `{"symbol":"a"}` | `{"symbol":"a"}` | `{"symbol":"a"}` |
//! | list, array | `{"list":[…]}`, `{"array":[…]}` | as `Text` | `["list",…]`, `["array",…]` |
//! | map | `{"map":[[key,value],…]}` | as `Text` | `["map",key,value,…]` |
//! | described value | `{"described":[descriptor,value]}` | as `Text` | `["described",descriptor,value]` |
//!
//! Strings of `Text` are those of [`text`](super::text). An object has one member; a further one is an error, and so are an
//! unknown name and a number that is not within its type. A number has no fraction and no exponent. Hexadecimal digits are
//! read in either case; base64 is that of RFC 4648, section 4, with its padding.
//!
//! ```
//! use consign_core::{message::Value, wire::json::{As, Natural}};
//!
//! let value = Value::List(vec![Value::from(5_i64), Value::from(5_u8)]);
//! let text = serde_json::to_string(&As::<Natural, _>::new(&value))?;
//! assert_eq!(text, r#"["list",5,{"u8":5}]"#);
//! let read: As<Natural, Value> = serde_json::from_str(&text)?;
//! assert_eq!(read.into_inner(), value);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod read;
mod write;

use std::marker::PhantomData;

use crate::message::limits;

/// A value in a form: `&PropertyValue` and `&Value` are serialized, `PropertyValue` and `Value` deserialized, and a `Cow` of
/// either is both.
#[derive(Clone, Debug)]
pub struct As<F, T> {
    value: T,
    form: PhantomData<fn() -> F>,
}

impl<F: Form, T> As<F, T> {
    /// Takes a value to be serialized.
    pub const fn new(value: T) -> Self {
        Self { value, form: PhantomData }
    }

    /// Returns the value that was deserialized.
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// A form of values in JSON: [`Text`], [`Tagged`] or [`Natural`].
pub trait Form: sealed::Form {
    /// The most levels that are read.
    const LEVELS: usize;
}

/// Simple values are strings that begin with their type.
#[derive(Clone, Copy, Debug)]
pub struct Text;

/// Every value is an object that names its type.
#[derive(Clone, Copy, Debug)]
pub struct Tagged;

/// Values of the types of JSON are themselves; objects name the other types.
#[derive(Clone, Copy, Debug)]
pub struct Natural;

impl Form for Text {
    const LEVELS: usize = limits::VALUE_LEVELS;
}

impl Form for Tagged {
    /// More than a message may have, so that a row of another program is dead-lettered as such. Each takes up to three of
    /// the 128 levels that a parser of JSON usually has.
    const LEVELS: usize = 40;
}

impl Form for Natural {
    /// More than a message may have: a store of the durable broker can hold as many.
    const LEVELS: usize = 65;
}

mod sealed {
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Kind {
        Text,
        Tagged,
        Natural,
    }

    pub trait Form {
        const KIND: Kind;
    }

    impl Form for super::Text {
        const KIND: Kind = Kind::Text;
    }

    impl Form for super::Tagged {
        const KIND: Kind = Kind::Tagged;
    }

    impl Form for super::Natural {
        const KIND: Kind = Kind::Natural;
    }
}
