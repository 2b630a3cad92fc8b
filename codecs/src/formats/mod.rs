//! The formats. Each is a small value that implements [`Codec`](crate::Codec); `Protobuf` is a type that reads and
//! writes its own bytes.

/// Passes values of these kinds on to the visitor in a field.
#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor", feature = "dotnet", feature = "amqp-value"))]
macro_rules! forward_to {
    ($field:tt; $($name:ident: $type:ty),* $(,)?) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.$field.$name(value)
        }
    )*};
}

#[cfg(feature = "avro")]
mod avro;
#[cfg(feature = "msgpack")]
mod bin;
#[cfg(feature = "bincode")]
mod bincode;
#[cfg(feature = "cbor")]
mod cbor;
mod charset;
#[cfg(feature = "dotnet")]
mod dotnet;
#[cfg(any(
    feature = "avro",
    feature = "json",
    feature = "msgpack",
    feature = "cbor",
    feature = "bincode",
    feature = "postcard",
    feature = "erased",
    feature = "dotnet"
))]
mod empty;
#[cfg(any(feature = "avro", feature = "cbor"))]
mod extension;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "msgpack")]
mod lenient;
#[cfg(feature = "msgpack")]
mod msgpack;
#[cfg(any(feature = "msgpack", feature = "cbor", feature = "dotnet"))]
mod number;
#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor", feature = "dotnet", feature = "amqp-value"))]
pub(crate) mod octets;
#[cfg(feature = "erased")]
mod plugin;
#[cfg(feature = "postcard")]
mod postcard;
#[cfg(feature = "protobuf")]
mod protobuf;
mod raw;
#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor"))]
mod seconds;
#[cfg(any(feature = "avro", feature = "msgpack", feature = "cbor", feature = "dotnet", feature = "amqp-value"))]
pub(crate) mod single;
#[cfg(any(feature = "json", feature = "msgpack", feature = "bincode"))]
mod sink;
mod text;
#[cfg(feature = "msgpack")]
mod time_text;
mod unsupported;
#[cfg(feature = "msgpack")]
mod wide;

#[cfg(feature = "avro")]
pub use self::avro::{Avro, AvroSchema, AvroSchemaError, AvroSchemaErrorKind};
#[cfg(feature = "bincode")]
pub use self::bincode::Bincode;
#[cfg(feature = "cbor")]
pub use self::cbor::Cbor;
#[cfg(feature = "dotnet")]
pub use self::dotnet::{DataContractBinary, DataContractXml};
#[cfg(feature = "json")]
pub use self::json::Json;
#[cfg(feature = "msgpack")]
pub use self::msgpack::MessagePack;
#[cfg(feature = "erased")]
pub use self::plugin::{Plugin, PluginCodec, Visit};
#[cfg(feature = "postcard")]
pub use self::postcard::Postcard;
#[cfg(feature = "protobuf")]
pub use self::protobuf::Protobuf;
pub use self::{raw::Raw, text::Text};
