use std::fmt;

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::Null;

type Name = &'static str;

impl<T: Serialize + ?Sized> Serialize for Null<&T> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Null(serializer))
    }
}

macro_rules! leaves {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name(self, value: $type) -> Result<S::Ok, S::Error> {
            self.0.$name(value)
        }
    )*};
}

macro_rules! containers {
    ($($name:ident($($arg:ident: $type:ty),*) -> $compound:ident),* $(,)?) => {$(
        #[inline]
        fn $name(self, $($arg: $type),*) -> Result<Null<S::$compound>, S::Error> {
            self.0.$name($($arg),*).map(Null)
        }
    )*};
}

impl<S: Serializer> Serializer for Null<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Null<S::SerializeSeq>;
    type SerializeTuple = Null<S::SerializeTuple>;
    type SerializeTupleStruct = Null<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Null<S::SerializeTupleVariant>;
    type SerializeMap = Null<S::SerializeMap>;
    type SerializeStruct = Null<S::SerializeStruct>;
    type SerializeStructVariant = Null<S::SerializeStructVariant>;

    #[inline]
    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.0.serialize_none()
    }

    #[inline]
    fn serialize_unit_struct(self, _: Name) -> Result<S::Ok, S::Error> {
        self.0.serialize_none()
    }

    #[inline]
    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.0.serialize_none()
    }

    leaves! {
        serialize_bool: bool, serialize_char: char, serialize_f32: f32, serialize_f64: f64,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_str: &str, serialize_bytes: &[u8],
    }

    containers! {
        serialize_seq(len: Option<usize>) -> SerializeSeq,
        serialize_tuple(len: usize) -> SerializeTuple,
        serialize_tuple_struct(name: Name, len: usize) -> SerializeTupleStruct,
        serialize_tuple_variant(name: Name, index: u32, variant: Name, len: usize) -> SerializeTupleVariant,
        serialize_map(len: Option<usize>) -> SerializeMap,
        serialize_struct(name: Name, len: usize) -> SerializeStruct,
        serialize_struct_variant(name: Name, index: u32, variant: Name, len: usize) -> SerializeStructVariant,
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.serialize_some(&Null(value))
    }

    #[inline]
    fn serialize_unit_variant(self, name: Name, index: u32, variant: Name) -> Result<S::Ok, S::Error> {
        self.0.serialize_unit_variant(name, index, variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: Name, value: &T) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_struct(name, &Null(value))
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: Name,
        index: u32,
        variant: Name,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.0.serialize_newtype_variant(name, index, variant, &Null(value))
    }

    #[inline]
    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.0.collect_str(value)
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! compounds {
    ($($compound:ident: $name:ident($($key:ident: $type:ty)?)),* $(,)?) => {$(
        impl<S: $compound> $compound for Null<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            #[inline]
            fn $name<T: Serialize + ?Sized>(&mut self, $($key: $type,)? value: &T) -> Result<(), S::Error> {
                self.0.$name($($key,)? &Null(value))
            }

            #[inline]
            fn end(self) -> Result<S::Ok, S::Error> {
                self.0.end()
            }
        }
    )*};
}

compounds! {
    SerializeSeq: serialize_element(),
    SerializeTuple: serialize_element(),
    SerializeTupleStruct: serialize_field(),
    SerializeTupleVariant: serialize_field(),
    SerializeStruct: serialize_field(key: Name),
    SerializeStructVariant: serialize_field(key: Name),
}

impl<S: SerializeMap> SerializeMap for Null<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.0.serialize_key(&Null(key))
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.0.serialize_value(&Null(value))
    }

    #[inline]
    fn end(self) -> Result<S::Ok, S::Error> {
        self.0.end()
    }
}
