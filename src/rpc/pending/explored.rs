//! Calls, replies and the end of the replies in any order of threads: `cargo xtask shuttle`.

use std::{future::poll_fn, sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::*;
use crate::sync::explored::explore;

fn pending() -> Arc<Pending> {
    let address = ReplyAddress { reply_to: "replies".into(), session_id: None, has_time_to_live: true };
    Arc::new(Pending::new(2, address))
}

/// A call, and what a replier does to answer it.
fn call(pending: &Arc<Pending>) -> (Key, impl Fn() + Clone + Send + 'static) {
    let (key, id, _) = pending.register(Instant::now() + Duration::from_secs(10)).unwrap();
    let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
    let replied = Arc::clone(pending);
    let reply = move || replied.offer(Message::builder().correlation_id(id.clone()).build("reply").unwrap());
    (key, reply)
}

/// Waits without an end: a wake-up that is lost is a deadlock.
fn wait(pending: &Pending, key: Key) -> Result<Message, CallErrorKind> {
    block_on(poll_fn(|cx| pending.poll_reply(key, cx).map_or(Poll::Pending, Poll::Ready)))
}

#[test]
fn one_of_two_replies_ends_a_call() {
    explore("one_of_two_replies_ends_a_call", || {
        let pending = pending();
        let (key, reply) = call(&pending);
        let threads = [reply.clone(), reply].map(thread::spawn);
        wait(&pending, key).unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((pending.answered(), pending.orphans(), pending.len()), (1, 1, 0));
    });
}

#[test]
fn a_call_ends_when_the_replies_do() {
    explore("a_call_ends_when_the_replies_do", || {
        let pending = pending();
        let (key, reply) = call(&pending);
        let ending = Arc::clone(&pending);
        let threads = [thread::spawn(reply), thread::spawn(move || ending.end())];
        let answer = wait(&pending, key);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        match answer {
            Ok(_) => assert_eq!(pending.answered(), 1),
            Err(error) => assert_eq!((error, pending.orphans()), (CallErrorKind::Disconnected, 1)),
        }
        assert!(matches!(pending.register(Instant::now()), Err(CallErrorKind::Closed)));
    });
}

#[test]
fn a_call_that_is_given_up_leaves_nothing() {
    explore("a_call_that_is_given_up_leaves_nothing", || {
        let pending = pending();
        let (key, reply) = call(&pending);
        let replier = thread::spawn(reply);
        let is_answered = pending.poll_reply(key, &mut Context::from_waker(Waker::noop())).is_ok();
        pending.remove(key);
        replier.join().unwrap();
        assert!(!is_answered || pending.answered() == 1);
        assert_eq!((pending.answered() + pending.orphans(), pending.len()), (1, 0));
    });
}

/// The keeper of the deadlines comes and goes while a call begins. A call whose deadline it keeps ends with it.
#[test]
fn no_call_outlives_its_keeper() {
    explore("no_call_outlives_its_keeper", || {
        let pending = pending();
        let kept = Arc::clone(&pending);
        let keeper = thread::spawn(move || {
            let mut timer = DeadlineTimer::new(Arc::clone(&kept));
            timer.poll(&mut Context::from_waker(Waker::noop()));
            thread::yield_now();
            drop(timer);
            kept.end();
        });
        let registered = pending.register(Instant::now() + Duration::from_secs(10));
        if let Ok((key, ..)) = registered {
            assert_eq!(wait(&pending, key).unwrap_err(), CallErrorKind::Disconnected);
        }
        keeper.join().unwrap();
        assert_eq!(pending.len(), 0);
    });
}
