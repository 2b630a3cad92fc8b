//! A tower-based messaging library: routers, handlers and layers form a [`tower_service::Service`] from a [`Message`] to a
//! [`Disposition`].
//!
//! A set of codecs reads a body with the codec of its ContentType. By default, the first codec of the set reads a body
//! without a ContentType. If the codec fails, or none reads the ContentType, the codecs of a fallback chain that you
//! define are tried in order. A message that cannot be read is dead-lettered with the reason and the codecs that were
//! tried. The message model is that of Azure Service Bus. `broker` is an embedded broker, in memory or on a disk; the
//! crate `consign-server` serves it to clients of the Azure SDKs. Transport crates for Azure Service Bus, RabbitMQ, NATS
//! JetStream, PostgreSQL and AMQP 1.0 implement the traits of [`transport`]. The layers also work around a client of your
//! own.
//!
//! # Quick start
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "embedded"))] {
//! use consign::{
//!     Message,
//!     administration::QueueSettings,
//!     broker::Broker,
//!     codecs::Codecs,
//!     consumer::Consumer,
//!     routing::{Body, Router},
//!     settlement::Transient,
//!     transport::{ReceiverExt, Sender},
//! };
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! async fn created(Body(order): Body<Order>) -> Result<(), Transient> {
//!     println!("order {}", order.id);
//!     Ok(())
//! }
//!
//! # tokio_test::block_on(async {
//! let queue = Broker::new().create_queue("orders", QueueSettings::default())?;
//! let order = |body: &'static str| Message::builder().subject("order.created").build(body);
//! queue.sender()?.send(order(r#"{"id":1}"#)?).await?;
//! queue.sender()?.send(order(r#"{"id":"#)?).await?;
//!
//! let router = Router::new(Codecs::json()).route("order.created", created).build()?;
//! let mut dead = queue.dead_letter().receiver();
//! let stats = Consumer::new(queue.receiver(), router).run_until(dead.receive()).await?;
//! assert_eq!((stats.completed(), stats.dead_lettered()), (1, 1));
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! # Wrapping a client
//!
//! A sending stack is a set of layers around a service that calls your client. A receiving stack is a set of layers around a
//! router. Your loop calls it, and settles each delivery by the returned `Disposition`.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     Disposition, Message,
//!     codecs::Codecs,
//!     middleware::{encode::{EncodeLayer, OutboundMessage}, message_id::MessageIdLayer},
//!     routing::{Body, Router},
//!     transport::SendError,
//! };
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio_test::block_on(async {
//! let sender = ServiceBuilder::new()
//!     .layer(MessageIdLayer::new())
//!     .layer(EncodeLayer::new(Codecs::json()))
//!     .service(service_fn(async |message: Message| {
//!         // Here your client publishes.
//!         assert_eq!(message.content_type(), Some("application/json"));
//!         Ok::<_, SendError>(())
//!     }));
//! sender.oneshot(OutboundMessage::new(("sku-7", 3))).await?;
//!
//! let stack = Router::new(Codecs::json()).fallback(async |Body((_sku, _count)): Body<(String, u32)>| {}).build()?;
//! match stack.oneshot(Message::new(r#"["sku-7",3]"#)).await? {
//!     Disposition::Complete => { /* here it acknowledges */ }
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! # One queue, many formats
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "msgpack", feature = "cbor"))] {
//! use consign::{
//!     Message, MessageExt,
//!     codecs::{Cbor, Codecs, Decoded, Json, MessagePack},
//! };
//!
//! let codecs =
//!     Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).fallback(["json", "msgpack", "cbor"]).build()?;
//!
//! // The ContentType is JSON, and the body is MessagePack.
//! let message = Message::builder().content_type("application/json").build(b"\x92\xa5sku-7\x03")?;
//! let order: Decoded<(&str, u32)> = message.decode_traced(&codecs)?;
//! assert_eq!((order.value, order.by), (("sku-7", 3), "msgpack"));
//! assert_eq!(order.attempts[0].codec, "json");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Feature flags
//!
//! Features are additive, with one exception: `amqp-value` changes how bodies that are AMQP values are handled. They are
//! decoded instead of dead-lettered.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `json` | yes | the JSON codec |
//! | `embedded` | yes | the embedded broker in memory: `broker` |
//! | `durable` | | the embedded broker on a disk: `broker::Broker::open` |
//! | `msgpack`, `cbor`, `postcard`, `bincode`, `protobuf` | | these codecs; `postcard` and `bincode` are positional (their bytes contain no types and no field names) and can be in a fallback chain only with `allow_positional` |
//! | `avro` | | `codecs::Avro`: Avro with your own schemas, in the single-object encoding |
//! | `dotnet` | | `codecs::DataContractBinary`, `codecs::DataContractXml`: read bodies of .NET's `DataContractSerializer` |
//! | `erased` | | `codecs::Plugin`: codecs as trait objects, chosen at run time |
//! | `amqp-value` | | bodies that are AMQP values are decoded, and not dead-lettered: `amqp_value` |
//! | `derive` | | [`message_types::MessageTypes`] as a derive: an enum of message types |
//! | `gzip`, `deflate`, `zstd` | | compression: `middleware::content_encoding`; `zstd` needs a C compiler |
//! | `encryption`, `signing` | | `middleware::encryption`, `middleware::signing` |
//! | `claim-check` | | large bodies in a blob store: `middleware::claim_check` |
//! | `cloud-events` | | CloudEvents in and out of messages: `cloud_events` |
//! | `json-schema` | | validation of JSON bodies: `middleware::json_schema` |
//! | `asyncapi` | | an AsyncAPI 3 document of a service: `asyncapi` |
//! | `interop` | | messages of NServiceBus and MassTransit: `middleware::interop`. Includes `dotnet` |
//! | `testing` | | for tests: a broker on virtual time, fault injection, a record of sends and settlements: `testing` |
//! | `signal` | | `Supervisor::run_until_signal`: SIGTERM and Ctrl-C |
//! | `full` | | all of the above |
//!
//! # Modules
//!
//! - [`routing`]: routers, handlers and extractors.
//! - [`message_types`]: an enum of message types, and conversions of old versions to the newest one.
//! - [`codecs`]: formats, fallback chains and the trail of the codecs that were tried.
//! - [`middleware`]: the layers, in their order.
//! - [`pipeline`]: a stack that is checked when it is built, and can print its layers, routes and types.
//! - [`publisher`]: a handle for application state that encodes values and sends them.
//! - [`consumer`]: the loop that receives, calls a stack and settles.
//! - [`supervisor`]: runs consumers and requesters together, restarts those that fail, and drains them at a shutdown.
//! - [`rpc`]: typed requests, replies and faults.
//! - [`rules`]: filters and actions of subscriptions.
//! - [`settlement`]: dispositions, dead letters, and error types of handlers that convert into dispositions.
//! - [`dead_letters`]: explain, filter, edit, resubmit and purge dead letters.
//! - [`transport`]: the traits that a transport implements.
//! - [`message`], [`mime`], [`time`]: the message, its properties and limits, media types, times and clocks.
//! - [`administration`]: the settings of queues, topics and subscriptions.
//! - `broker`, `testing`, `cloud_events`, `amqp_value`, `asyncapi`: see [Feature flags](#feature-flags).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "amqp-value")]
pub mod amqp_value;
#[cfg(feature = "asyncapi")]
pub mod asyncapi;
mod body;
mod build_error;
#[cfg(feature = "cloud-events")]
pub mod cloud_events;
pub mod consumer;
mod content_encoding;
mod counters;
pub mod dead_letters;
mod decode;
pub mod message_types;
pub mod middleware;
pub mod pipeline;
pub mod publisher;
pub mod routing;
pub mod rpc;
pub mod settlement;
pub mod supervisor;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;

pub use crate::build_error::{BuildError, BuildErrorKind};
pub use crate::decode::MessageExt;
#[doc(no_inline)]
pub use crate::{message::Message, settlement::Disposition};
// `cargo doc --no-deps` has no pages of these crates to link to.
#[cfg(feature = "embedded")]
#[doc(inline)]
pub use consign_broker as broker;
#[doc(inline)]
pub use consign_codecs as codecs;
pub use consign_core::{administration, message, mime, time};
#[doc(inline)]
pub use consign_rules as rules;

#[cfg(all(
    doctest,
    feature = "avro",
    feature = "json",
    feature = "msgpack",
    feature = "cbor",
    feature = "bincode",
    feature = "dotnet",
    feature = "derive",
    feature = "durable",
    feature = "embedded",
    feature = "asyncapi",
    feature = "json-schema"
))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/broker.md")]
#[doc = include_str!("../docs/describing-a-service.md")]
#[doc = include_str!("../docs/formats.md")]
#[doc = include_str!("../docs/layers.md")]
#[doc = include_str!("../docs/operating.md")]
struct Readme;
