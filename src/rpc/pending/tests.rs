use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio_test::task;

use super::*;

const LATER: Duration = Duration::from_secs(10);

fn pending(limit: usize) -> Pending {
    let address = ReplyAddress { reply_to: "replies".into(), session_id: None, has_time_to_live: true };
    Pending::new(limit, address)
}

fn reply_to(id: &Token, body: &'static str) -> Message {
    let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
    Message::builder().correlation_id(id).build(body).unwrap()
}

fn body(reply: &Message) -> &[u8] {
    reply.payload().unwrap()
}

/// The call may be polled only after the connection has ended.
#[tokio::test(start_paused = true)]
async fn a_reply_that_has_arrived_outlives_the_connection() {
    let pending = pending(2);
    let mut cx = Context::from_waker(Waker::noop());
    let (call, id, _) = pending.register(Instant::now() + LATER).unwrap();
    let (gathering, id_of_several, _) = pending.register_several(2, Instant::now() + LATER).unwrap();
    pending.offer(reply_to(&id, "one"));
    pending.offer(reply_to(&id_of_several, "first"));
    pending.disconnect();
    let Ok(Ok(reply)) = pending.poll_reply(call, &mut cx) else { panic!("the reply is lost") };
    assert_eq!(body(&reply), b"one");
    let Poll::Ready(Ok(reply)) = pending.poll_next(gathering, &mut cx) else { panic!("the reply is lost") };
    assert_eq!(body(&reply), b"first");
    let ended = pending.poll_next(gathering, &mut cx).map(Result::err);
    assert_eq!(ended, Poll::Ready(Some(CallErrorKind::Disconnected)));
}

/// The task that fails calls sleeps until the earliest deadline, so it is woken by an earlier one, and by no other.
#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_wakes_the_task_that_fails_calls() {
    let pending = Arc::new(pending(10));
    let mut timer = DeadlineTimer::new(Arc::clone(&pending));
    let mut keeper = task::spawn(poll_fn(move |cx| {
        timer.poll(cx);
        Poll::<()>::Pending
    }));
    let register = |after: Duration| pending.register(Instant::now() + after).unwrap().0;
    register(LATER);
    assert!(keeper.poll().is_pending());
    register(LATER * 2);
    assert!(!keeper.is_woken());
    let early = register(LATER / 2);
    assert!(keeper.is_woken());
    assert!(keeper.poll().is_pending());
    tokio::time::sleep(LATER / 2).await;
    assert!(keeper.is_woken());
    assert!(keeper.poll().is_pending());
    let failed = pending.poll_reply(early, &mut Context::from_waker(Waker::noop()));
    assert!(matches!(failed, Ok(Err(CallErrorKind::Timeout))));
}
