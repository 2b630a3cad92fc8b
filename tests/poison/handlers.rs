//! The endpoint that is attacked: a router with a handler for each kind of type, and sets of codecs with and without a
//! chain.

use std::{
    convert::Infallible,
    error::Error,
    fmt::Write,
    sync::{Arc, Mutex},
};

use consign::{
    Disposition, Message, MessageExt,
    codecs::{
        Bincode, Cbor, CodecSet, Codecs, CodecsBuilder, DecodeOwned, Json, MessagePack, NoCodec, Policy, Postcard,
        Protobuf, Text,
    },
    routing::{Body, ReplyTo, Router, State},
    settlement::Permanent,
};
use serde::Deserialize;
use tower::util::BoxCloneSyncService;

pub(crate) type Stack = BoxCloneSyncService<Message, Disposition, Infallible>;

/// The ids of the orders that a handler got.
pub(crate) type Handled = Arc<Mutex<Vec<u64>>>;

#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: u64,
    #[serde(rename = "sku")]
    _sku: String,
    #[serde(default, rename = "state")]
    _state: Option<OrderState>,
    #[serde(default, rename = "zone")]
    _zone: Option<Zone>,
}

/// The same for formats without names, where no field can be missing.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    #[serde(rename = "id")]
    _id: u64,
    #[serde(rename = "sku")]
    _sku: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OrderState {
    Open,
    Closed,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Zone;

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("there is no zone {text}"))
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(message, optional, boxed, tag = "1")]
    next: Option<Box<Node>>,
    #[prost(string, tag = "2")]
    name: String,
}

/// What the consumer does with a ContentType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Every format, no chain.
    Alone,
    /// Every format; the chain JSON, MessagePack, CBOR.
    Chained,
    /// JSON, then bincode, which was asked for by name.
    OptedIn,
    /// JSON that refuses a key twice.
    Strict,
    /// Only JSON is allowed.
    JsonOnly,
    /// No ContentType is no format.
    Declared,
}

fn formats() -> CodecsBuilder<impl CodecSet> {
    let self_describing = Codecs::<NoCodec>::builder().with(Json::default()).with(MessagePack).with(Cbor);
    self_describing.with(Bincode::default()).with(Postcard).with(Text)
}

impl Endpoint {
    pub(crate) fn stack(self, handled: &Handled) -> Stack {
        match self {
            Self::Alone => stack(formats().build().unwrap(), handled),
            Self::Chained => stack(formats().fallback(["json", "msgpack", "cbor"]).build().unwrap(), handled),
            Self::OptedIn => {
                let chain = formats().fallback(["json", "bincode"]).allow_positional("bincode");
                stack(chain.build().unwrap(), handled)
            }
            Self::Strict => stack(Codecs::builder().with(Json::strict()).build().unwrap(), handled),
            Self::JsonOnly => stack(formats().allow(["application/json"]).build().unwrap(), handled),
            Self::Declared => stack(formats().on_missing(Policy::Reject).build().unwrap(), handled),
        }
    }

    /// All texts of the error that decoding `message` gives, as the handler of its subject decodes it.
    pub(crate) fn texts(self, message: &Message) -> String {
        match self {
            Self::Alone => texts(&formats().build().unwrap(), message),
            Self::Chained => texts(&formats().fallback(["json", "msgpack", "cbor"]).build().unwrap(), message),
            Self::OptedIn => {
                let chain = formats().fallback(["json", "bincode"]).allow_positional("bincode");
                texts(&chain.build().unwrap(), message)
            }
            Self::Strict => texts(&Codecs::builder().with(Json::strict()).build().unwrap(), message),
            Self::JsonOnly => texts(&formats().allow(["application/json"]).build().unwrap(), message),
            Self::Declared => texts(&formats().on_missing(Policy::Reject).build().unwrap(), message),
        }
    }
}

fn stack<C: CodecSet>(codecs: Codecs<C>, handled: &Handled) -> Stack {
    let router = Router::with_state(codecs, Arc::clone(handled))
        .route("order", order)
        .route("line", ignore::<Line>)
        .route("units", ignore::<Vec<()>>)
        .route("value", ignore::<serde_json::Value>)
        .route("text", ignore::<String>)
        .route("node", ignore::<Protobuf<Node>>)
        .route("refused", refuse)
        .route("answered", answer)
        .build()
        .unwrap();
    BoxCloneSyncService::new(router)
}

async fn order(State(handled): State<Handled>, Body(order): Body<Order>) {
    handled.lock().unwrap().push(order.id);
}

async fn ignore<T>(State(handled): State<Handled>, Body(_): Body<T>) {
    handled.lock().unwrap().push(0);
}

/// A handler that knows, and does not tell what it saw.
async fn refuse(Body(_): Body<serde_json::Value>) -> Result<(), Permanent> {
    Err("the order is closed")?
}

async fn answer(_to: ReplyTo, Body(_): Body<serde_json::Value>) {}

fn texts<C: CodecSet>(codecs: &Codecs<C>, message: &Message) -> String {
    match message.subject() {
        Some("order") => texts_as::<Order, C>(codecs, message),
        Some("line") => texts_as::<Line, C>(codecs, message),
        Some("units") => texts_as::<Vec<()>, C>(codecs, message),
        Some("text") => texts_as::<String, C>(codecs, message),
        Some("node") => texts_as::<Protobuf<Node>, C>(codecs, message),
        _ => texts_as::<serde_json::Value, C>(codecs, message),
    }
}

fn texts_as<T: DecodeOwned, C: CodecSet>(codecs: &Codecs<C>, message: &Message) -> String {
    let mut texts = String::new();
    if let Err(error) = message.decode::<T, C>(codecs) {
        let mut cause: Option<&dyn Error> = Some(&error);
        while let Some(error) = cause {
            writeln!(texts, "{error}\n{error:?}").unwrap();
            cause = error.source();
        }
    }
    texts
}
