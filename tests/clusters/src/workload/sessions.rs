//! Sessions: numbered messages of each, one after the other, and holders that pass the sessions on.

use std::{future::poll_fn, time::Duration};

use consign::{
    Message,
    transport::{DynSession, ErrorKind, ReceiverExt, Session, SessionSource, Sessions},
};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Part,
    pace::{PAUSE, RETRY, bounded, chain, retried},
    receiving::complete,
    sending::{self, send},
};
use crate::history::{Queue, What};

/// The sessions of one client's messages.
const SESSIONS: usize = 3;
/// How long a session is held at most, and without a message: less than its lock, which is not renewed.
const HELD: Duration = Duration::from_secs(4);
const IDLE: Duration = Duration::from_millis(1_500);

pub(super) async fn produce(part: Part) {
    let sender = &sending::sender(&part, Queue::Sessions).await;
    let part = &part;
    join_all((0..SESSIONS).map(|session| async move {
        let session = format!("{}-{session}", part.client.number);
        let mut number = 0_u64;
        while part.is_producing() {
            number += 1;
            let id = format!("{session}-{number}");
            let message = Message::builder().message_id(id.clone()).session_id(session.clone());
            send(part, sender, Queue::Sessions, &message.build(id).expect("a valid message")).await;
            sleep(PAUSE * 3).await;
        }
    }))
    .await;
}

/// Holds one session after the other.
pub(super) async fn consume(part: Part) {
    let path = part.queue(Queue::Sessions);
    let mut source = retried(&part.recorder, "sessions", || part.transport.sessions(&path)).await;
    loop {
        let accepted = timeout(IDLE * 4, poll_fn(|cx| source.poll_accept(cx))).await;
        match accepted {
            Ok(Ok(session)) => hold(&part, session).await,
            Ok(Err(error)) => {
                eprintln!("accept: {}", chain(&error));
                sleep(RETRY).await;
            }
            // No session has messages.
            Err(_) => {}
        }
    }
}

async fn hold(part: &Part, mut session: DynSession) {
    let (id, hold) = (session.session_id().to_owned(), fastrand::u64(..1 << 53));
    part.recorder.record(What::Accepted { session: id.clone(), hold });
    let until = Instant::now() + HELD;
    while Instant::now() < until {
        match session.receive_within(IDLE).await {
            Ok(delivery) => {
                // Behind a message that is not completed no other may be handled.
                if !complete(part, Queue::Sessions, delivery, Some(hold)).await {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::ServiceTimeout => break,
            Err(error) => {
                eprintln!("receive of a session: {}", chain(&error));
                break;
            }
        }
    }
    // From here on another one may have it.
    part.recorder.record(What::Released { session: id, hold });
    if let Some(Err(error)) = bounded(&part.recorder, "close", session.close()).await {
        eprintln!("close: {}", chain(&error));
    }
}
