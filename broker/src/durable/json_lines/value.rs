//! Conversion of values to JSON and back.

use std::{fmt, marker::PhantomData};

use base64::{Engine, display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use consign_core::{
    message::{ApplicationProperties, PropertyValue, Value},
    wire::json::{As, Natural},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

pub(super) struct Base64<B>(pub(super) B);

impl<B: AsRef<[u8]>> Serialize for Base64<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0.as_ref(), &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64<Vec<u8>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(|_| D::Error::custom("not base64"))
    }
}

impl Base64<Vec<u8>> {
    pub(super) fn bytes(self) -> Bytes {
        self.0.into()
    }
}

pub(super) type Simple<'a> = As<Natural, &'a PropertyValue>;
pub(super) type Any<'a> = As<Natural, &'a Value>;
pub(super) type Read = As<Natural, Value>;

/// An object of the name of a type and a value of it.
pub(super) fn typed<S: Serializer>(
    serializer: S,
    name: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_variant("Typed", 0, name, value)
}

/// What is written with names. A derived `Deserialize` alone would take a list too.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// Application properties, with one value for each key.
pub(super) struct Application(pub(super) ApplicationProperties);

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PropertiesVisitor;
        impl<'de> Visitor<'de> for PropertiesVisitor {
            type Value = Application;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("application properties")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut properties = ApplicationProperties::new();
                while let Some((key, value)) = map.next_entry::<Box<str>, As<Natural, PropertyValue>>()? {
                    if properties.insert(key, value.into_inner()).is_some() {
                        return Err(A::Error::custom("two properties of one key"));
                    }
                }
                Ok(Application(properties))
            }
        }
        deserializer.deserialize_map(PropertiesVisitor)
    }
}
