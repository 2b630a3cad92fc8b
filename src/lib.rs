//! `async fn(Message) -> Disposition`
//!
//! That is a consumer of messages, and this crate puts a [tower] stack around it: codecs that are chosen by a message's
//! ContentType, a fallback chain that is explicit, bounded and recorded, dead letters that say why, and any tower layer
//! between. The message model is that of Azure Service Bus; a broker with those semantics is built in (`broker`) and lives
//! in memory. Other brokers come in by the [seam](transport), or stay outside of it altogether.
//!
//! [tower]: https://docs.rs/tower
//!
//! # A queue and a handler
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "embedded"))] {
//! use consign::{
//!     Message,
//!     broker::{Broker, QueueSettings},
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
//! # Around a client that you have
//!
//! A sending stack is a service whose innermost part may be a call of your client's; a receiving stack is a service that
//! your own loop calls. The right to settle never enters a stack.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use consign::{
//!     Disposition, Message,
//!     codecs::Codecs,
//!     middleware::{encode::{EncodeLayer, Outgoing}, message_id::MessageIdLayer},
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
//! sender.oneshot(Outgoing::new(("sku-7", 3))).await?;
//!
//! let stack = Router::new(Codecs::json()).otherwise(async |Body((_sku, _count)): Body<(String, u32)>| {}).build()?;
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
//!     Message,
//!     codecs::{Cbor, Codecs, Decoded, Json, MessagePack},
//! };
//!
//! let codecs =
//!     Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).fallback(["json", "msgpack", "cbor"]).build()?;
//!
//! // Declared as JSON, and MessagePack.
//! let message = Message::builder().content_type("application/json").build(b"\x92\xa5sku-7\x03")?;
//! let order: Decoded<(&str, u32)> = message.decode_traced(&codecs)?;
//! assert_eq!((order.value, order.by), (("sku-7", 3), "msgpack"));
//! assert_eq!(order.attempts[0].codec, "json");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! A feature only adds; none changes a type or a behaviour.
//!
//! | feature | on by default | what it adds |
//! |---|---|---|
//! | `json` | yes | the JSON codec |
//! | `embedded` | yes | the broker in memory: `broker` |
//! | `msgpack`, `cbor` | | formats that describe themselves |
//! | `bincode`, `postcard` | | positional formats, which have no place in a chain unless you say so |
//! | `protobuf` | | types that carry their own protobuf form |
//! | `erased` | | codecs that are chosen at run time, as plug-ins |
//! | `derive` | | [`types::MessageTypes`] as a derive: an enum of types of messages |
//! | `testing` | | for your tests: a broker on virtual time, a connection that takes time and fails, a record: `testing` |
//! | `gzip`, `deflate`, `zstd` | | encodings of bodies: `middleware::content_encoding`; `zstd` needs a C compiler |
//! | `encryption`, `signing` | | of bodies: `middleware::encryption`, `middleware::signing` |
//! | `claim-check` | | large bodies elsewhere: `middleware::claim_check` |
//! | `cloud-events` | | CloudEvents in and out of messages: `cloud_events` |
//! | `interop` | | messages of NServiceBus and MassTransit: `middleware::interop` |
//! | `full` | | all of the above |
//!
//! # Where to go next
//!
//! - [`routing`]: handlers and what they take out of a message.
//! - [`types`]: an enum of the types of messages, and steps from old versions to the newest.
//! - [`codecs`]: formats, chains and the record of what was tried.
//! - [`middleware`]: the layers, in their order.
//! - [`pipeline`]: a stack that is checked when it is built, and says what it is made of.
//! - [`consumer`]: the loop, if you do not have one.
//! - [`rpc`]: typed calls: a request, and its reply or a fault.
//! - [`rules`]: which messages a subscription gets, and what is changed on its copies.
//! - [`settlement`]: what becomes of a message.
//! - [`dead_letters`]: what has become of those that could not be handled.
//! - [`transport`]: what a broker of yours implements.
#![forbid(unsafe_code)]

#[cfg(feature = "embedded")]
pub mod broker;
#[cfg(feature = "cloud-events")]
pub mod cloud_events;
pub mod consumer;
mod counters;
pub mod dead_letters;
mod decode;
pub mod message;
pub mod middleware;
pub mod pipeline;
pub mod routing;
pub mod rpc;
pub mod rules;
pub mod settlement;
#[cfg(feature = "embedded")]
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod transport;
pub mod types;

pub use consign_codecs as codecs;
pub use consign_codecs::mime;

pub use crate::{message::Message, settlement::Disposition};

#[cfg(all(
    doctest,
    feature = "json",
    feature = "msgpack",
    feature = "cbor",
    feature = "bincode",
    feature = "derive",
    feature = "embedded"
))]
#[doc = include_str!("../README.md")]
struct Readme;
