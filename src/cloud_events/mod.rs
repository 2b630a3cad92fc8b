//! CloudEvents 1.0.2, in binary and in structured mode: conversions from messages and to them.
//!
//! ```
//! use consign::{Message, cloud_events::{CloudEvent, Mode}, codecs::Codecs};
//!
//! let codecs = Codecs::json();
//! let event = CloudEvent::new("A234-1234-1234", "/mycontext", "com.example.someevent")?
//!     .with_extension("comexampleextension1", "value")?
//!     .with_value(&codecs, &("sku-7", 3))?;
//! let message: Message = event.to_message(Mode::Structured)?;
//! assert_eq!(message.content_type(), Some("application/cloudevents+json; charset=utf-8"));
//!
//! let event = CloudEvent::from_message(&message)?;
//! assert_eq!((event.id(), event.event_type()), ("A234-1234-1234", "com.example.someevent"));
//! assert_eq!(event.decode::<(&str, u32), _>(&codecs)?, ("sku-7", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler takes a [`CloudEvent`] or a [`CloudEventBatch`] as an argument; a message that is not one is dead-lettered. To
//! send an event, send the message of [`CloudEvent::to_message`] or [`CloudEventBatch::to_message`].
//!
//! # Binary mode
//!
//! The body is the data, the message's ContentType is `datacontenttype`, and every other attribute is an application
//! property whose key is a prefix and the attribute's name.
//!
//! | prefix | comes from | is read | is written |
//! |---|---|---|---|
//! | `cloudEvents_` | the AMQP binding since 1.0.3, the SDK for Python | yes | [`Mode::Binary`] |
//! | `cloudEvents:` | the AMQP binding up to 1.0.2, Azure | yes | [`Prefix::Colon`] |
//! | `ce-` | the RabbitMQ binding of Knative, the NATS and the HTTP binding | in any case | [`Prefix::Ce`] |
//! | `ce_` | the Kafka binding | in any case | [`Prefix::Kafka`] |
//!
//! An event without data that has a `datacontenttype` has an empty body in this mode, and is read as one with empty data.
//!
//! A prefix counts if the message has `specversion` under it. With more than one, an attribute that differs between them is
//! an error. Values under `ce-` are not decoded: the percent encoding of the NATS and the HTTP binding belongs to the
//! transport.
//!
//! | value | is read as |
//! |---|---|
//! | text, a URI, a truth value | what it is |
//! | an integer | an integer if it fits into 32 bits, else its digits; as `time` milliseconds since 1970, up to the year 9999 |
//! | an AMQP timestamp, a `DateTimeOffset` | text of RFC 3339 |
//! | bytes | base64; under `ce_` text |
//! | null | a missing attribute |
//! | any other | an error |
//!
//! # Structured mode
//!
//! The JSON event format, with the ContentType `application/cloudevents+json`, in any case and with any parameters; a byte
//! order mark is skipped. Data is in `data`, as JSON if `datacontenttype` is a JSON type or missing, and as text if it is a
//! text or XML type. Other data, and data that is not valid as that or has white space around it, is in `data_base64`. JSON data is
//! unchanged, byte for byte. Other formats, such as `application/cloudevents+avro`, are an error.
//!
//! Some producers set another ContentType: Dapr on RabbitMQ sets `text/plain`, on other brokers none. So a message without the
//! `specversion` of binary mode is read in this mode too if its body is a JSON object with the member `specversion`. Its ContentType
//! has to be missing, `application/json`, `text/plain` or `application/octet-stream`. [`CloudEvent::from_json`] reads such an object from anywhere.
//!
//! # Batches
//!
//! A [`CloudEventBatch`] is a JSON array of events in one message, with the ContentType
//! `application/cloudevents-batch+json`. An invalid event is an error of the whole batch, with its index.
//!
//! # Signed and encrypted messages
//!
//! [Signing](crate::middleware::signing) and [encryption](crate::middleware::encryption) authenticate all attributes of
//! both modes: if an attribute is changed, added or removed, or gets another prefix, the message is a dead letter.
//!
//! # Validation
//!
//! `specversion` is `1.0`. `id`, `source` and `type` are present and not empty. `subject`, `dataschema` and `time` are not
//! empty if present. `time` has the form of RFC 3339, where a space before the time becomes `T`. In JSON an attribute that
//! is null is missing, and no member occurs twice.
//!
//! A name has 1 to 128 characters of `a` to `z` and `0` to `9`. In received events the names of extensions may also have
//! upper case, `_`, `-` and `.`, because SDKs permit them; such an event cannot be written.
//!
//! A violation is a [`CloudEventError`]: for a sender an error of the call, for a receiver a dead letter with the reason
//! `DeserializationFailed`. A compressed message is a dead letter with the reason `UnsupportedEncoding`, unless
//! [a layer](crate::middleware::content_encoding) has decompressed it.

mod attribute;
mod batch;
mod binary;
mod error;
mod event;
mod prefix;
mod structured;

pub use self::{
    attribute::Attribute,
    batch::CloudEventBatch,
    error::CloudEventError,
    event::{CloudEvent, Mode},
    prefix::Prefix,
};
