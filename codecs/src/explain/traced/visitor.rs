use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::{
    super::{Place, Step, Trace},
    Key, Traced,
};
use crate::serde_error::Refused;

/// A visitor that passes traced deserializers to the visitor of the type.
pub(super) struct Watched<'t, V> {
    pub(super) visitor: V,
    pub(super) trace: &'t Trace,
    /// The names of the fields or variants, if the type is a struct or an enum.
    pub(super) names: &'static [&'static str],
    pub(super) key: Option<Key<'t>>,
}

macro_rules! leaves {
    ($($name:ident($($value:ident: $type:ty)?) $(key $bytes:expr)?;)*) => {$(
        fn $name<E: Error>(self, $($value: $type)?) -> Result<V::Value, E> {
            $(if let Some(key) = self.key {
                key.look_up($bytes);
            })?
            self.visitor.$name($($value)?).map_err(|refused| self.trace.lower(refused))
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    leaves! {
        visit_bool(value: bool);
        visit_i8(value: i8);
        visit_i16(value: i16);
        visit_i32(value: i32);
        visit_i64(value: i64);
        visit_i128(value: i128);
        visit_u8(value: u8);
        visit_u16(value: u16);
        visit_u32(value: u32);
        visit_u64(value: u64);
        visit_u128(value: u128);
        visit_f32(value: f32);
        visit_f64(value: f64);
        visit_char(value: char);
        visit_str(value: &str) key value.as_bytes();
        visit_borrowed_str(value: &'de str) key value.as_bytes();
        visit_string(value: String) key value.as_bytes();
        visit_bytes(value: &[u8]) key value;
        visit_borrowed_bytes(value: &'de [u8]) key value;
        visit_byte_buf(value: Vec<u8>) key &value;
        visit_none();
        visit_unit();
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let Self { visitor, trace, .. } = self;
        visitor.visit_some(Traced::new(inner, trace)).map_err(|refused| trace.lower(refused))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let Self { visitor, trace, .. } = self;
        visitor.visit_newtype_struct(Traced::new(inner, trace)).map_err(|refused| trace.lower(refused))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        let mut seq = Seq::new(inner, trace, names);
        let result = visitor.visit_seq(&mut seq);
        seq.end(result).map_err(|refused| trace.lower(refused))
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        visitor.visit_map(Map::new(inner, trace, names)).map_err(|refused| trace.lower(refused))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, trace, names, .. } = self;
        visitor.visit_enum(Enum { inner, trace, names }).map_err(|refused| trace.lower(refused))
    }
}

struct Seed<'t, T> {
    inner: T,
    trace: &'t Trace,
    key: Option<Key<'t>>,
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        let Self { inner: seed, trace, key } = self;
        seed.deserialize(Traced::new(inner, trace).with_key(key)).map_err(|refused| trace.lower(refused))
    }
}

/// The elements of a sequence, or the fields of a struct without names in the body.
///
/// The number of such a field does not determine its name: the list of names from serde includes the aliases of fields. So
/// after a failure the type gets the end of the sequence. The number of fields that it then reports shows whether the list has
/// one name for each.
struct Seq<'t, A> {
    inner: A,
    trace: &'t Trace,
    names: &'static [&'static str],
    next: usize,
    failed: Option<usize>,
}

impl<'t, A> Seq<'t, A> {
    const fn new(inner: A, trace: &'t Trace, names: &'static [&'static str]) -> Self {
        Self { inner, trace, names, next: 0, failed: None }
    }

    /// Returns the result of the type for the elements. A failure that it did not see remains a failure.
    fn end<T>(self, result: Result<T, Refused>) -> Result<T, Refused> {
        let Some(failed) = self.failed else { return result };
        let fields = match &result {
            // Each field has a default, and was tried.
            Ok(_) => Some(self.next),
            Err(refused) => refused.fields(),
        };
        if let Some(name) = self.names.get(failed).filter(|_| fields == Some(self.names.len())) {
            self.trace.name(self.trace.depth(), name);
        }
        Err(self.trace.lift((), None))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Seq<'_, A> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let Self { inner, trace, names, next, failed } = self;
        let at = *next;
        *next += 1;
        if failed.is_some() {
            return Ok(None);
        }
        let element = trace.inside(Step::to(Place::Element(at)), || {
            let seed = Seed { inner: seed, trace, key: None };
            inner.next_element_seed(seed).map_err(|error| trace.lift(error, None))
        });
        if element.is_err() && !names.is_empty() {
            *failed = Some(at);
            return Ok(None);
        }
        element
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The entries of a map, or the fields of a struct.
struct Map<'t, A> {
    inner: A,
    trace: &'t Trace,
    names: &'static [&'static str],
    next: usize,
    found: Cell<Option<&'static str>>,
}

impl<'t, A> Map<'t, A> {
    const fn new(inner: A, trace: &'t Trace, names: &'static [&'static str]) -> Self {
        Self { inner, trace, names, next: 0, found: Cell::new(None) }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Map<'_, A> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        let Self { inner, trace, names, next, found } = self;
        let place = Place::Key(*next);
        let step = if names.is_empty() { Step::to(place) } else { Step::hidden(place) };
        found.set(None);
        trace.inside(step, || {
            let seed = Seed { inner: seed, trace, key: Some(Key { names, found }) };
            inner.next_key_seed(seed).map_err(|error| trace.lift(error, None))
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Refused> {
        let Self { inner, trace, next, found, .. } = self;
        let step = Step::to(Place::Value(*next));
        *next += 1;
        trace.inside(found.take().map_or(step, |name| step.named(name)), || {
            let seed = Seed { inner: seed, trace, key: None };
            inner.next_value_seed(seed).map_err(|error| trace.lift(error, None))
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A variant's name.
struct Enum<'t, A> {
    inner: A,
    trace: &'t Trace,
    names: &'static [&'static str],
}

impl<'de, 't, A: EnumAccess<'de>> EnumAccess<'de> for Enum<'t, A> {
    type Error = Refused;
    type Variant = Variant<'t, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), Refused> {
        let Self { inner, trace, names } = self;
        let found = Cell::new(None);
        let (variant, inner) = trace.inside(Step::hidden(Place::Key(0)), || {
            let seed = Seed { inner: seed, trace, key: Some(Key { names, found: &found }) };
            inner.variant_seed(seed).map_err(|error| trace.lift(error, None))
        })?;
        // A variant that was encoded by its number has no name here: the list includes the aliases of variants.
        let step = Step::hidden(Place::Value(0));
        Ok((variant, Variant { inner, trace, step: found.take().map_or(step, |name| step.named(name)) }))
    }
}

/// The data of a variant.
struct Variant<'t, A> {
    inner: A,
    trace: &'t Trace,
    step: Step,
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Variant<'_, A> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        let Self { inner, trace, step } = self;
        trace.inside(step, || inner.unit_variant().map_err(|error| trace.lift(error, None)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        let Self { inner, trace, step } = self;
        trace.inside(step, || {
            let seed = Seed { inner: seed, trace, key: None };
            inner.newtype_variant_seed(seed).map_err(|error| trace.lift(error, None))
        })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        let Self { inner, trace, step } = self;
        trace.inside(step, || {
            let call = trace.call(&visitor);
            let visitor = Watched { visitor, trace, names: &[], key: None };
            inner.tuple_variant(len, visitor).map_err(|error| trace.lift(error, Some(call)))
        })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        let Self { inner, trace, step } = self;
        trace.inside(step, || {
            let call = trace.call(&visitor);
            let visitor = Watched { visitor, trace, names: fields, key: None };
            inner.struct_variant(fields, visitor).map_err(|error| trace.lift(error, Some(call)))
        })
    }
}
