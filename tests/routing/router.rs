use std::{convert::Infallible, sync::Arc};

use consign::{
    Disposition, Message,
    codecs::{Codecs, DataContractBinary, Json, MessagePack},
    routing::{Body, Router, State, Subject},
    settlement::DeadLetterReason,
};
use tower::{ServiceExt, util::BoxCloneSyncService};
use tower_service::Service;

use crate::support::{Order, Seen, call, codecs, dead, delivered, full, note, taken};

fn about(subject: &'static str) -> Message {
    Message::builder().subject(subject).build("{}").unwrap()
}

async fn say(State(seen): State<Seen>, subject: Option<Subject>) {
    note(&seen, format!("{:?}", subject.as_deref()));
}

async fn fallback(State(seen): State<Seen>, subject: Option<Subject>) {
    note(&seen, format!("otherwise {:?}", subject.as_deref()));
}

#[tokio::test]
async fn a_message_goes_to_the_route_of_its_subject() {
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen))
        .fallback(fallback)
        .route("order.created", say)
        .route("order.cancelled", |State(seen): State<Seen>| async move { note(&seen, "cancelled") })
        .build()
        .unwrap();
    for subject in ["order.created", "order.cancelled", "Order.Created", "order", ""] {
        assert_eq!(call(&router, about(subject)).await, Disposition::Complete);
    }
    call(&router, Message::new("")).await;
    let expected = [
        r#"Some("order.created")"#,
        "cancelled",
        r#"otherwise Some("Order.Created")"#,
        r#"otherwise Some("order")"#,
        r#"otherwise Some("")"#,
        "otherwise None",
    ];
    assert_eq!(taken(&seen), expected);
}

/// Rules: P-55, P-58.
#[tokio::test]
async fn a_handler_gets_bodies_of_dotnet_json_and_messagepack() {
    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(DataContractBinary::default())
        .fallback(["json", "msgpack", "datacontract-binary"])
        .build()
        .unwrap();
    let dotnet = b"\x40\x05Order\x08\x2chttp://schemas.datacontract.org/2004/07/Shop\x40\x02id\x89\x07\x40\x03sku\x99\x04nail\x01";
    let seen = Seen::default();
    let handler = |State(seen): State<Seen>, Body(order): Body<Order>| async move { note(&seen, format!("{order:?}")) };
    let router = Router::with_state(codecs, Arc::clone(&seen)).fallback(handler).build().unwrap();
    let bodies: [&[u8]; 3] = [br#"{"id":7,"sku":"nail"}"#, b"\x82\xa2id\x07\xa3sku\xa4nail", dotnet];
    for body in bodies {
        assert_eq!(call(&router, Message::new(body)).await, Disposition::Complete);
    }
    assert_eq!(taken(&seen), [r#"Order { id: 7, sku: "nail" }"#; 3]);
    let (reason, description) = dead(call(&router, Message::new(&dotnet[..70])).await);
    assert_eq!(reason, DeadLetterReason::DeserializationFailed);
    let text = "datacontract-binary: the body ends inside the value at byte 70";
    assert!(description.lines().any(|line| line == text), "{description}");
}

#[tokio::test]
async fn a_message_without_a_route_is_an_unknown_message_type() {
    let router = Router::new(codecs()).route("order.created", || async {}).build().unwrap();
    let found = dead(call(&router, about("order.deleted")).await);
    let text = r#"no handler takes the subject "order.deleted""#;
    assert_eq!(found, (DeadLetterReason::UnknownMessageType, text.to_owned()));
    let found = dead(call(&router, Message::new("")).await);
    let text = "the message has no subject, and no handler takes it";
    assert_eq!(found, (DeadLetterReason::UnknownMessageType, text.to_owned()));
    let nothing = Router::new(codecs()).build().unwrap();
    assert_eq!(dead(call(&nothing, about("order.created")).await).0, DeadLetterReason::UnknownMessageType);
}

#[test]
fn two_routes_cannot_have_one_subject() {
    let error = Router::new(codecs())
        .route("a", || async {})
        .route("b", || async {})
        .route("a", || async {})
        .route("b", || async {})
        .build()
        .unwrap_err();
    assert_eq!(error.name(), "a");
    assert_eq!(error.to_string(), "two routes have the subject \"a\"; remove one of them");
}

#[tokio::test]
async fn twenty_routes() {
    let seen = Seen::default();
    let route = |number: u8| {
        move |State(seen): State<Seen>, Body(_): Body<serde_json::Value>| async move {
            note(&seen, number.to_string());
        }
    };
    let router = Router::with_state(codecs(), Arc::clone(&seen))
        .route("1", route(1))
        .route("2", route(2))
        .route("3", route(3))
        .route("4", route(4))
        .route("5", route(5))
        .route("6", route(6))
        .route("7", route(7))
        .route("8", route(8))
        .route("9", route(9))
        .route("10", route(10))
        .route("11", route(11))
        .route("12", route(12))
        .route("13", route(13))
        .route("14", route(14))
        .route("15", route(15))
        .route("16", route(16))
        .route("17", route(17))
        .route("18", route(18))
        .route("19", route(19))
        .route("20", route(20))
        .build()
        .unwrap();
    for number in 1..=20 {
        let message = Message::builder().subject(number.to_string()).build("{}").unwrap();
        assert_eq!(call(&router, message).await, Disposition::Complete);
    }
    assert_eq!(taken(&seen), (1..=20).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(dead(call(&router, about("21")).await).0, DeadLetterReason::UnknownMessageType);
}

#[tokio::test]
async fn a_clone_is_the_same_router() {
    let seen = Seen::default();
    let router = Router::with_state(codecs(), Arc::clone(&seen)).route("a", say).build().unwrap();
    let clone = router.clone();
    drop(router);
    call(&clone.clone(), about("a")).await;
    call(&clone, about("a")).await;
    assert_eq!(taken(&seen).len(), 2);
}

/// Handlers of all kinds, erased at the edge.
fn erased(seen: &Seen) -> BoxCloneSyncService<Message, Disposition, Infallible> {
    let router = Router::with_state(Codecs::json(), Arc::clone(seen))
        .fallback(fallback)
        .route("order.created", |State(seen): State<Seen>, Body(order): Body<Order>| async move {
            note(&seen, order.sku);
        })
        .build()
        .unwrap();
    BoxCloneSyncService::new(router)
}

#[tokio::test]
async fn a_router_is_erased_by_towers_own_box() {
    let seen = Seen::default();
    let mut service = erased(&seen);
    service.ready().await.unwrap();
    assert_eq!(service.call(delivered(full())).await, Ok(Disposition::Complete));
    let other = service.clone();
    tokio::spawn(async move { call(&other, about("other")).await }).await.unwrap();
    assert_eq!(taken(&seen), ["nail", r#"otherwise Some("other")"#]);
}

#[test]
fn debug_of_a_router_has_its_subjects() {
    let router = Router::new(codecs()).fallback(|| async {}).route("a", || async {}).build().unwrap();
    let text = format!("{router:?}");
    assert!(text.contains("\"a\"") && text.contains("Fallback"), "{text}");
}

#[tokio::test]
async fn otherwise_stands_before_between_or_after_the_routes() {
    let builder = |seen: &Seen| Router::with_state(codecs(), Arc::clone(seen));
    let routed = async |State(seen): State<Seen>| note(&seen, "routed");
    for place in 0..3 {
        let seen = Seen::default();
        match place {
            0 => {
                let router = builder(&seen).fallback(fallback).route("a", routed).route("b", routed).build().unwrap();
                call(&router, about("b")).await;
                call(&router, about("c")).await;
            }
            1 => {
                let router = builder(&seen).route("a", routed).fallback(fallback).route("b", routed).build().unwrap();
                call(&router, about("a")).await;
                call(&router, about("c")).await;
            }
            _ => {
                let router = builder(&seen).route("a", routed).route("b", routed).fallback(fallback).build().unwrap();
                call(&router, about("a")).await;
                call(&router, about("c")).await;
            }
        }
        assert_eq!(taken(&seen), ["routed", r#"otherwise Some("c")"#], "{place}");
    }
}
