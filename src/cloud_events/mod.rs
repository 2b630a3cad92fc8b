//! CloudEvents 1.0.2, in binary and in structured mode: read from messages and written to them.
//!
//! ```
//! use consign::{Message, cloud_events::{CloudEvent, Mode}, codecs::Codecs};
//!
//! let codecs = Codecs::json();
//! let event = CloudEvent::new("A234-1234-1234", "/mycontext", "com.example.someevent")?
//!     .with_extension("comexampleextension1", "value")?
//!     .with_value(&codecs, &("sku-7", 3))?;
//! let message: Message = event.to_message(Mode::Structured)?;
//! assert_eq!(message.content_type(), Some("application/cloudevents+json; charset=UTF-8"));
//!
//! let event = CloudEvent::from_message(&message)?;
//! assert_eq!((event.id(), event.event_type()), ("A234-1234-1234", "com.example.someevent"));
//! assert_eq!(event.decode::<(&str, u32), _>(&codecs)?, ("sku-7", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler takes a [`CloudEvent`] as an argument, in either mode; what is none is a dead letter. To send one is to send
//! the message of [`CloudEvent::to_message`].
//!
//! # Binary mode
//!
//! That of the AMQP protocol binding: the body is the data, the message's ContentType is `datacontenttype`, and every
//! other attribute is an application property, `cloudEvents_` and its name. `cloudEvents:` is read too; both in one message
//! are an error. Text, booleans and signed integers of 32 bits are read as what they are; instants as RFC 3339; other types
//! of properties are an error.
//!
//! # Structured mode
//!
//! The JSON event format, by the ContentType `application/cloudevents+json`, in any case and with parameters. Data is in
//! `data`, as JSON where `datacontenttype` is a JSON type or missing, and as text where it is a text or XML type; what is not valid as
//! either, and all else, is in `data_base64`. JSON data is kept to the byte. Batches, `application/cloudevents-batch+json`, are not read.
//!
//! # Rules
//!
//! `specversion` is `1.0`; `id`, `source` and `type` are there and not empty, as are `subject`, `dataschema` and `time`
//! where they are there; `time` has the form of RFC 3339. A name is 1 to 20 of `a` to `z` and `0` to `9`. In JSON an
//! attribute that is null is not there, and no member stands twice. What breaks a rule is a [`CloudEventError`]: sending
//! it is the caller's error, receiving it a dead letter with the reason `DeserializationFailed`.

mod attribute;
mod binary;
mod error;
mod event;
mod structured;

pub use self::{
    attribute::Attribute,
    error::CloudEventError,
    event::{CloudEvent, Mode},
};
