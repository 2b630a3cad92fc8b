//! Requests and replies.

use std::sync::Arc;

use consign::{
    codecs::Codecs,
    consumer::Consumer,
    message::EntityPath,
    routing::Body,
    rpc::{Client as RpcClient, Fault, ReplyQueue, Requester, Responder},
    transport::{ErrorKind, ReceiveMode, SendError, SendService, Sender, Transport},
};
use tokio::time::sleep;
use tower::service_fn;

use super::{
    Part,
    pace::{DEADLINE, PAUSE, RETRY, bounded, chain, retried},
    replies, requests,
};
use crate::{history::What, run::CLIENTS};

async fn square(Body(number): Body<u64>) -> Result<u64, Fault> {
    number.checked_mul(number).ok_or_else(|| Fault::application("TooLarge"))
}

/// Answers the requests of all clients.
pub(super) async fn answer(part: Part) {
    let (recorder, transport, name) = (&part.recorder, &part.transport, &part.client.name);
    let mut senders = Vec::new();
    for client in 0..CLIENTS {
        let path = replies(name, client);
        let sender = retried(recorder, "reply sender", || transport.sender(&path)).await;
        senders.push((path, Arc::new(sender)));
    }
    loop {
        let senders = senders.clone();
        let senders = move |address: &EntityPath| {
            let known = senders.iter().find(|(path, _)| path == address);
            let (_, sender) = known.ok_or(SendError::new(ErrorKind::EntityNotFound))?;
            let sender = Arc::clone(sender);
            Ok(service_fn(move |reply| sender.send(reply)))
        };
        let responder = Responder::builder(senders).codecs(Codecs::json()).fallback(square).build();
        let responder = responder.expect("a responder of one function");
        let path = requests(name);
        let receiver = retried(recorder, "requests", || transport.receiver(&path, ReceiveMode::PeekLock)).await;
        let ended = Consumer::new(receiver, responder).run().await;
        let error = ended.err().map(|error| chain(&error)).unwrap_or_default();
        recorder.record(What::Stopped { part: "responder".into(), error });
        sleep(RETRY).await;
    }
}

/// Calls with growing numbers.
pub(super) async fn call(part: Part) {
    let (recorder, transport, name) = (part.recorder.clone(), part.transport.clone(), part.client.name.clone());
    let (to, from) = (requests(&name), replies(&name, part.client.number % CLIENTS));
    let mut number = u64::from(part.client.number) << 20;
    loop {
        let sender = retried(&recorder, "request sender", || transport.sender(&to)).await;
        let receiver = retried(&recorder, "replies", || transport.receiver(&from, ReceiveMode::PeekLock)).await;
        let source = ReplyQueue::new(from.as_str(), receiver);
        let built = Requester::builder(SendService::new(sender)).timeout(DEADLINE).build(source);
        let (requester, replies) = built.expect("a requester of a queue of its own");
        let mut replies = tokio::spawn(replies.run());
        let client = RpcClient::new(requester, Codecs::json());
        while part.is_producing() && !replies.is_finished() {
            number += 1;
            let call = number.to_string();
            recorder.record(What::Calling { call: call.clone() });
            let what = match bounded(&recorder, "call", client.call::<u64>(&number)).await {
                Some(Ok(answer)) => What::Answered { call, is_right: answer == number * number },
                Some(Err(error)) => What::Unanswered { call, error: chain(&error) },
                None => What::Unanswered { call, error: "hung".into() },
            };
            let has_failed = matches!(what, What::Unanswered { .. });
            recorder.record(what);
            sleep(if has_failed { RETRY } else { PAUSE }).await;
        }
        if !part.is_producing() {
            return;
        }
        let ended = (&mut replies).await;
        let error = ended
            .map_or_else(|error| chain(&error), |ended| ended.err().map(|error| chain(&error)).unwrap_or_default());
        recorder.record(What::Stopped { part: "replies".into(), error });
    }
}
