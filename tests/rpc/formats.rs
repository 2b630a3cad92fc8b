//! In which format a reply is written.

use consign::{
    Message,
    codecs::{And, Bincode, Cbor, CodecSet, Codecs, Json, MessagePack, NoCodec},
    consumer::Consumer,
    routing::Body,
    rpc::{Client, Reply, Responder},
    transport::{ReceiverExt, Sender},
};

use crate::{Bench, within};

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    id: u64,
    sku: String,
}

async fn next(Body(order): Body<Order>) -> Reply<Order> {
    Reply(Order { id: order.id + 1, ..order })
}

/// Answers with these codecs, of which the first is the default.
fn serve<C: CodecSet>(bench: &Bench, codecs: Codecs<C>) {
    let responder = Responder::builder(bench.senders()).codecs(codecs).fallback(next).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
}

/// Asks in the first of these formats, which is the only one that the requester knows.
async fn ask<C: CodecSet>(bench: &Bench, codecs: Codecs<C>) {
    let client = Client::new(bench.requester(), codecs);
    let order = Order { id: 1, sku: "nail".into() };
    assert_eq!(within(client.call::<Order>(&order)).await.unwrap(), Order { id: 2, sku: "nail".into() });
}

macro_rules! only {
    ($codec:expr) => {
        Codecs::builder().with($codec).build().unwrap()
    };
}

macro_rules! all {
    ($first:expr, $second:expr, $third:expr, $fourth:expr) => {
        Codecs::builder().with($first).with($second).with($third).with($fourth).build().unwrap()
    };
}

/// Rules: R-16.
#[tokio::test(start_paused = true)]
async fn four_formats_of_requests_by_four_defaults_of_services() {
    for default in 0..4 {
        let bench = Bench::new();
        match default {
            0 => serve(&bench, all!(Json::default(), MessagePack, Cbor, Bincode::fixint())),
            1 => serve(&bench, all!(MessagePack, Cbor, Bincode::fixint(), Json::default())),
            2 => serve(&bench, all!(Cbor, Bincode::fixint(), Json::default(), MessagePack)),
            _ => serve(&bench, all!(Bincode::fixint(), Json::default(), MessagePack, Cbor)),
        }
        ask(&bench, only!(Json::default())).await;
        ask(&bench, only!(MessagePack)).await;
        ask(&bench, only!(Cbor)).await;
        ask(&bench, only!(Bincode::fixint())).await;
    }
}

type Two = And<And<NoCodec, Json>, MessagePack>;

fn two() -> Codecs<Two> {
    Codecs::builder().with(Json::default()).with(MessagePack).build().unwrap()
}

/// The ContentType of the reply to a request that is JSON, or says nothing, with this list.
async fn format_of(declared: Option<&'static str>, list: Option<&'static str>) -> String {
    let codecs = Codecs::builder().with(Cbor).with(Json::default()).with(MessagePack).fallback(["json"]).build();
    reply_of(codecs.unwrap(), declared, list).await
}

async fn reply_of<C: CodecSet>(
    codecs: Codecs<C>,
    declared: Option<&'static str>,
    list: Option<&'static str>,
) -> String {
    let bench = Bench::new();
    serve(&bench, codecs);
    let mut request = Message::builder().message_id("question").reply_to("replies");
    if let Some(declared) = declared {
        request = request.content_type(declared);
    }
    if let Some(list) = list {
        request = request.property(consign::rpc::ACCEPT, list);
    }
    bench.requests.sender().unwrap().send(request.build(r#"{"id":1,"sku":"nail"}"#).unwrap()).await.unwrap();
    let delivery = within(bench.replies.receiver().receive()).await.unwrap();
    delivery.message.content_type().unwrap().to_owned()
}

/// Rules: R-16.
#[tokio::test(start_paused = true)]
async fn a_list_of_formats_goes_first_then_the_request_then_the_default() {
    let (json, cbor, msgpack) = ("application/json", "application/cbor", "application/msgpack");
    let packed = format_of(Some(json), Some(msgpack)).await;
    for (declared, list, expected) in [
        (Some(json), None, json),
        (Some("Application/JSON; charset=utf-8"), None, json),
        (None, None, cbor),
        (Some(json), Some("application/cbor;q=0.1, application/json"), json),
        (Some(json), Some("application/cbor, application/json;q=0.9"), cbor),
        (Some(json), Some("application/cbor;q=0, text/html"), json),
        (Some(json), Some("application/JSON;q=0"), cbor),
        (Some(json), Some("*/*"), cbor),
        (Some(json), Some("application/cbor;q=0, */*"), json),
        (Some(json), Some("application/cbor;q=0, application/json;q=0, */*"), &packed),
        (Some(json), Some("application/cbor;q=0, application/json;q=0"), &packed),
        (None, Some("application/cbor;q=0"), json),
        (None, Some("application/cbor;q=0, application/json;q=0, application/msgpack;q=0"), cbor),
        (Some(json), Some("application/json;q=high"), json),
        (Some(json), Some("garbage;;q=,"), json),
        (None, Some("text/html"), cbor),
        (Some(json), Some("text/html, application/msgpack;q=0.001"), &packed),
    ] {
        assert_eq!(format_of(declared, list).await, expected, "{declared:?} {list:?}");
    }
}

/// Rules: R-16.
#[tokio::test(start_paused = true)]
async fn a_refused_default_is_not_any_format() {
    for declared in [None, Some("application/json")] {
        for list in ["application/json;q=0, */*", "application/json;q=0", "*/*, application/json; charset=utf-8;q=0"] {
            let encoded = reply_of(two(), declared, Some(list)).await;
            assert_eq!(encoded, "application/msgpack", "{declared:?} {list}");
        }
    }
}

/// Rules: R-16.
#[tokio::test(start_paused = true)]
async fn a_client_says_what_it_likes() {
    let bench = Bench::new();
    serve(&bench, two());
    let client = Client::new(bench.requester(), two()).accept("application/msgpack");
    let order = Order { id: 1, sku: "nail".into() };
    assert_eq!(within(client.call::<Order>(&order)).await.unwrap().id, 2);
}
