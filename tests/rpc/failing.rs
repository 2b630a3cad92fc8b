//! Senders of replies that fail.

use std::{
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use consign::{
    Disposition, Message,
    codecs::Codecs,
    message::EntityPath,
    routing::Body,
    rpc::{Reply, Responder},
    transport::{ErrorKind, SendError},
};
use tower::{Service, ServiceExt};

use crate::within;

fn request(id: &'static str) -> Message {
    Message::builder().subject("double").message_id(id).reply_to("replies").build("21").unwrap()
}

/// Accepts one message. After that, it and its clones fail before they are ready.
#[derive(Clone)]
struct Once {
    is_used: Arc<AtomicBool>,
    /// Whether it is pending before it fails.
    waits: bool,
    has_waited: bool,
}

impl Service<Message> for Once {
    type Response = ();
    type Error = SendError;
    type Future = Ready<Result<(), SendError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if !self.is_used.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        if self.waits && !std::mem::replace(&mut self.has_waited, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Err(SendError::new(ErrorKind::CommunicationProblem)))
    }

    fn call(&mut self, _: Message) -> Self::Future {
        self.is_used.store(true, Relaxed);
        ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_kept_sender_that_fails_before_it_is_ready_is_replaced() {
    for waits in [false, true] {
        let (made, handled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (making, handling) = (Arc::clone(&made), Arc::clone(&handled));
        let senders = move |_: &EntityPath| {
            making.fetch_add(1, Relaxed);
            Ok(Once { is_used: Arc::default(), waits, has_waited: false })
        };
        let double = move |Body(number): Body<u32>| {
            handling.fetch_add(1, Relaxed);
            ready(Reply(number * 2))
        };
        let responder = Responder::builder(senders).codecs(Codecs::json()).answer("double", double).build().unwrap();
        let stats = responder.stats();
        for id in ["one", "two", "three"] {
            assert_eq!(within(responder.clone().oneshot(request(id))).await.unwrap(), Disposition::Complete);
        }
        assert_eq!((handled.load(Relaxed), made.load(Relaxed), stats.answered()), (3, 3, 3));
    }
}
