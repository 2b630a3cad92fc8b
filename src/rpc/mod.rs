//! Requests and replies over queues: a client sends a request to one entity, and receives the reply from another.
//!
//! ```
//! # #[cfg(all(feature = "json", feature = "embedded"))] {
//! use consign::{
//!     administration::QueueSettings,
//!     broker::Broker,
//!     codecs::Codecs,
//!     consumer::Consumer,
//!     message::EntityPath,
//!     routing::Body,
//!     rpc::{Client, Fault, ReplyQueue, Requester, Responder},
//!     transport::SendService,
//! };
//!
//! async fn half(Body(number): Body<u32>) -> Result<u32, Fault> {
//!     if number % 2 == 0 { Ok(number / 2) } else { Err(Fault::application("Odd")) }
//! }
//!
//! # tokio_test::block_on(async {
//! let broker = Broker::new();
//! let requests = broker.create_queue("requests", QueueSettings::default())?;
//! let replies = broker.create_queue("replies.7f3a", QueueSettings::default())?;
//!
//! // The responder: handlers that return values, in a receiving stack.
//! let reply_to = broker.clone();
//! let responder = Responder::builder(move |to: &EntityPath| Ok(SendService::new(reply_to.sender(to)?)))
//!     .codecs(Codecs::json())
//!     .answer("half", half)
//!     .build()?;
//! tokio::spawn(Consumer::new(requests.receiver(), responder).run());
//!
//! // The requester: a service from a request to its reply, and a task that receives the replies.
//! let (requester, receiving) = Requester::builder(SendService::new(requests.sender()?))
//!     .build(ReplyQueue::new("replies.7f3a", replies.receiver()))?;
//! tokio::spawn(receiving.run());
//!
//! let client = Client::new(requester, Codecs::json()).subject("half");
//! assert_eq!(client.call::<u32>(&42).await?, 21);
//!
//! let error = client.call::<u32>(&7).await.unwrap_err();
//! assert_eq!(error.fault().map(|fault| fault.code().as_str()), Some("Odd"));
//! # Ok::<(), tower::BoxError>(())
//! # }).unwrap();
//! # }
//! ```
//!
//! # Client
//!
//! A [`Requester`] is a `Service<Message, Response = Message>`. Put layers of tower around it: a timeout, a limit, load
//! shedding, or a retry, for which each attempt is a call with an id of its own. A [`Client`] around such a stack encodes
//! requests and decodes replies. A [`Gather`], or [`Client::call_many`], is one request with several replies.
//!
//! Replies arrive in a queue of the process, [`ReplyQueue`], or in a session of an entity that many processes share,
//! [`ReplySession`]. [`Replies::run`] receives them, in a task beside the calls.
//!
//! A call takes an entry of a table until it is answered, fails, or is dropped. The [size of the
//! table](RequesterBuilder::max_in_flight) is limited.
//!
//! # Server
//!
//! A [`Responder`] is a `Service<Message, Response = Disposition>`, like a router. Its handlers return a [`Reply`], or a
//! `Result`. The error is a [`Fault`], which the requester gets, or a disposition of the request. A request that cannot be
//! decoded is dead-lettered, and answered with a fault that has the attempts.
//!
//! Requests are delivered at least once, so a handler may run twice for one call. A requester accepts one reply and drops
//! the other.
//!
//! # Untrusted input
//!
//! The sender of a request names the entity for the reply; see [`ResponderBuilder::allow`]. A reply is only accepted if it
//! has the id of a call, which is 122 random bits. The text of a [`Fault`] has a maximum length, and is displayed escaped.
//!
//! # Signed and encrypted calls
//!
//! Requests and replies are signed and encrypted like other messages: by sending layers around the requester's sender and
//! in the stacks of [`ReplySenders`], and by receiving layers around the [`Responder`]. A reply does not pass through a
//! receiving stack, so verify and decrypt it around the requester:
//!
//! ```
//! # #[cfg(all(feature = "encryption", feature = "signing"))] {
//! use consign::{
//!     Message,
//!     middleware::{encryption::DecryptLayer, signing::VerifyLayer},
//!     rpc::{CallError, Requester},
//! };
//! use tower::{BoxError, ServiceBuilder};
//!
//! fn opening<S: Clone>(requester: Requester<S>, verify: VerifyLayer, decrypt: DecryptLayer) {
//!     let open = move |reply: Result<Message, CallError>| -> Result<Message, BoxError> {
//!         Ok(decrypt.decrypt(verify.verify(reply?)?)?)
//!     };
//!     // For `Client::new`.
//!     let requester = ServiceBuilder::new().map_result(open).service(requester);
//!     # drop(requester);
//! }
//! # }
//! ```
//!
//! In the same place, [`DecompressLayer::decompress`](crate::middleware::content_encoding::DecompressLayer::decompress) reads
//! a reply whose sending stack has a `CompressLayer`. For a claim, call
//! [`ResolveClaimLayer::resolve`](crate::middleware::claim_check::ResolveClaimLayer::resolve) in an `async` layer.
//!
//! Signatures and encryption authenticate ReplyTo, `ReplyToSessionId`, `x-accept`, the fault in a reply, and the MessageId of the request, which
//! is the CorrelationId of the reply. They do not authenticate the token that RabbitMQ appends to the ReplyTo of a direct
//! reply, and the time to live.
//!
//! The specification rules of family R in `docs/semantics.md` describe the exact behaviour.

mod address;
mod client;
mod correlate;
mod error;
mod fault;
mod pending;
mod replies;
mod requester;
mod responder;

pub use self::{
    client::{Client, TypedAnswers},
    correlate::Correlate,
    error::{CallError, CallErrorKind},
    fault::{Fault, FaultCode},
    replies::{Replies, ReplyQueue, ReplySession},
    requester::{Answers, Gather, Requester, RequesterBuilder},
    responder::{
        ACCEPT, HandlersBuilder, IntoAnswer, MemoryReplies, RecordedReplies, RecordedReply, Refusal,
        RepliesDescription, Reply, ReplySenders, ReplyStore, Responder, ResponderBuilder, ResponderStats,
        reply_senders,
    },
};
