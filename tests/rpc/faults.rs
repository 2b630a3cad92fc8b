//! What a fault says, and what it cannot make its reader do.

use std::{future::pending, time::Duration};

use consign::{
    Message,
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::{Body, CorrelationId},
    rpc::{CallErrorKind, Client, Fault, FaultCode, Reply, Responder},
    transport::{ReceiverExt, SendError, Sender},
};
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::{Bench, within};

async fn priced(_: CorrelationId, Body(_): Body<u32>) -> Reply<u32> {
    Reply(1)
}

async fn sold(Body(count): Body<u32>) -> Result<u32, Fault> {
    if count > 9 { Err(Fault::application("SoldOut").with_detail("none is left")) } else { Ok(count) }
}

fn serve(bench: &Bench) {
    let builder = Responder::builder(bench.senders()).codecs(Codecs::json());
    let responder = builder.answer("price", priced).answer("sell", sold).build().unwrap();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
}

/// Rules: R-34, R-35.
#[tokio::test(start_paused = true)]
async fn a_fault_is_an_error_to_match_on_and_comes_at_once() {
    let bench = Bench::new();
    serve(&bench);
    let client = Client::new(bench.requester(), Codecs::json());
    for (subject, code, reason) in [
        ("sell", FaultCode::Application("SoldOut".into()), None),
        ("price", FaultCode::InvalidRequest, Some("MissingProperty")),
        ("praise", FaultCode::UnknownRequest, Some("UnknownMessageType")),
    ] {
        let began = Instant::now();
        let error = within(client.clone().subject(subject).call::<u32>(&10)).await.unwrap_err();
        assert_eq!(error.kind(), CallErrorKind::Fault, "{subject}: {error}");
        let fault = error.fault().unwrap();
        assert_eq!((fault.code(), fault.reason()), (&code, reason));
        assert!(fault.request_id().is_some_and(|id| id.len() == 32));
        assert!(!error.is_retryable() && !error.is_outcome_unknown());
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    // The handler answered, so its request is done; the others are dead letters.
    assert_eq!(bench.requests.counts().dead_lettered, 2);
}

/// Rules: R-38.
#[tokio::test(start_paused = true)]
async fn a_fault_has_the_body_of_its_responder_for_clients_that_do_not_check() {
    for has_body in [false, true] {
        let bench = Bench::new();
        let mut builder = Responder::builder(bench.senders());
        if has_body {
            builder =
                builder.fault_body("application/json", |fault| format!(r#"{{"code":"{}"}}"#, fault.code().as_str()));
        }
        let responder = builder.codecs(Codecs::json()).answer("sell", sold).build().unwrap();
        tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
        for (request, code) in [("10", "SoldOut"), ("{", "UndecodableRequest")] {
            let call = Message::builder().message_id("m").subject("sell").reply_to("replies");
            bench.requests.sender().unwrap().send(call.build(request).unwrap()).await.unwrap();
            let reply = within(bench.replies.receiver().receive()).await.unwrap();
            assert_eq!(Fault::of_reply(&reply.message).unwrap().code().as_str(), code);
            let (body, content_type) = if has_body {
                (format!(r#"{{"code":"{code}"}}"#), Some("application/json"))
            } else {
                (String::new(), None)
            };
            assert_eq!((reply.message.payload(), reply.message.content_type()), (Some(body.as_bytes()), content_type));
            reply.complete().await.unwrap();
        }
    }
}

/// Rules: R-34.
/// Whoever asks names where the fault goes.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_waits_for_its_fault_no_longer_than_five_seconds() {
    let bench = Bench::new();
    let stalled = |_: &EntityPath| Ok(service_fn(|_: Message| pending::<Result<(), SendError>>()));
    let responder = Responder::builder(stalled).codecs(Codecs::json()).answer("sell", sold).build().unwrap();
    let stats = responder.stats();
    tokio::spawn(Consumer::new(bench.requests.receiver(), responder).run());
    let poison = Message::builder().subject("sell").reply_to("replies").build("{").unwrap();
    bench.requests.sender().unwrap().send(poison).await.unwrap();
    sleep(Duration::from_millis(4_999)).await;
    assert_eq!((bench.requests.counts().dead_lettered, stats.undelivered()), (0, 0));
    sleep(Duration::from_millis(2)).await;
    assert_eq!((bench.requests.counts().dead_lettered, stats.undelivered()), (1, 1));
}

/// Rules: R-36.
#[test]
fn a_fault_from_elsewhere_is_bounded_and_shown_escaped() {
    let hostile = "\u{1b}[2J\n\u{202e}x".repeat(600);
    let reply = |code: &str| {
        let builder = Message::builder().property(Fault::CODE, code.to_owned()).correlation_id(hostile.clone());
        let builder = builder.property(Fault::REASON, hostile.clone()).property(Fault::DETAIL, hostile.clone());
        builder.property(Fault::TRAIL, hostile.clone()).build("").unwrap()
    };
    let long = "x".repeat(65);
    for code in [hostile.as_str(), "", "two words", "line\n", &long, "Unrecognised"] {
        let fault = Fault::of_reply(&reply(code)).unwrap();
        assert_eq!(fault.code(), &FaultCode::Unrecognised, "{code:?}");
        assert_eq!((fault.reason(), fault.trail().is_empty()), (None, true));
        let longest = fault.detail().unwrap().chars().count().max(fault.request_id().unwrap().chars().count());
        assert_eq!(longest, Fault::MAX_DETAIL);
        for shown in [fault.to_string(), format!("{fault:?}"), serde_json::to_string(&fault).unwrap()] {
            assert!(!shown.contains(['\u{1b}', '\n']), "{shown}");
        }
        assert!(!fault.to_string().contains('\u{202e}'));
    }
    let number = Message::builder().property(Fault::CODE, 7).build("").unwrap();
    assert_eq!(Fault::of_reply(&number).unwrap().code(), &FaultCode::Unrecognised);
    assert_eq!(Fault::of_reply(&Message::new("")), None);
}

#[test]
fn a_fault_is_serialisable_and_reads_itself() {
    let fault = Fault::application("SoldOut").with_detail("none is left");
    let json = serde_json::to_string(&fault).unwrap();
    assert_eq!(json, r#"{"code":"SoldOut","detail":"none is left"}"#);
    assert_eq!(serde_json::from_str::<Fault>(&json).unwrap(), fault);
    let read: Fault = serde_json::from_str(r#"{"code":"Failed","trail":"json;exact;Syntax;1:5"}"#).unwrap();
    assert_eq!((read.code(), read.trail().entries().len()), (&FaultCode::Failed, 1));
    assert_eq!(serde_json::from_str::<Fault>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
}

/// Rules: R-36.
#[test]
fn a_fault_that_is_deserialised_is_held_to_the_same() {
    let hostile = r#"{"code":"a\nb","request_id":"ID","reason":"a\nb","detail":"DETAIL","trail":"no trail"}"#;
    let long = "x".repeat(100_000);
    let fault: Fault = serde_json::from_str(&hostile.replace("ID", &long).replace("DETAIL", &long)).unwrap();
    assert_eq!((fault.code(), fault.reason(), fault.trail().is_empty()), (&FaultCode::Unrecognised, None, true));
    assert_eq!((fault.detail().unwrap().len(), fault.request_id().unwrap().len()), (1_024, 1_024));
    let forged = Fault::new(FaultCode::Application("a\nb".into()));
    assert_eq!(forged.code(), &FaultCode::Unrecognised);
}

/// Rules: R-35.
#[test]
fn an_application_cannot_make_a_code_that_is_none_or_the_librarys() {
    let own = ["UndecodableRequest", "UnknownRequest", "InvalidRequest", "Failed", "Unrecognised", "NoResponders"];
    for text in own.into_iter().chain(["a b", ""]) {
        for fault in [Fault::application(text), Fault::new(FaultCode::Application(text.into()))] {
            assert_eq!(fault.code(), &FaultCode::Unrecognised, "{text}");
        }
    }
    for code in [FaultCode::InvalidRequest, FaultCode::Failed] {
        assert_eq!(Fault::new(code.clone()).code(), &code);
    }
}
