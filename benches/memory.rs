//! How many bytes each thing in a broker takes: `cargo xtask memory`.
//!
//! It counts the bytes that were allocated and not freed, so the numbers are the same on every run. Tables
//! that double in size are counted with their capacity: each number is for 100,000 items.
#![allow(unsafe_code, reason = "a counting allocator")]

mod counting;

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use consign::{
    Disposition, Message,
    administration::QueueSettings,
    broker::{Broker, Queue},
    time::{ManualClock, Timestamp},
    transport::{Lease, Receiver, Sender, SessionSource},
};

const THINGS: usize = 100_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn main() {
    let plain = || QueueSettings::default().max_size(u64::MAX);
    let broker = Broker::with_clock(ManualClock::new(Timestamp::EPOCH));
    let create = |name: &str, settings| broker.create_queue(name, settings).expect("a new queue");
    let queues = 1_000;
    let before = counting::live();
    let idle: Vec<Queue> = (0..queues).map(|n| create(&format!("idle-{n:04}"), plain())).collect();
    // Without the handles.
    drop(idle);
    println!("idle_queue {}", (counting::live() - before) / queues);

    let queue = create("empty", plain());
    each("message_empty", THINGS, || (0..THINGS).for_each(|_| send(&queue, numbered(0, &[]))));
    let queue = create("small", plain());
    each("message_64_bytes", THINGS, || (0..THINGS).for_each(|n| send(&queue, numbered(n, &[b'x'; 64]))));

    let mut receiver = queue.receiver();
    let mut held = Vec::with_capacity(THINGS);
    let mut cx = Context::from_waker(Waker::noop());
    each("lock", THINGS, || {
        assert!(matches!(receiver.poll_receive(&mut cx, THINGS, &mut held), Poll::Ready(Ok(THINGS))));
    });

    let queue = create("scheduled", plain());
    each("scheduled_message", THINGS, || {
        for n in 0..THINGS {
            queue.schedule(vec![numbered(n, &[])], Timestamp::EPOCH.saturating_add(HOUR)).wait().expect("accepted");
        }
    });

    let ids = 1_000_000;
    let queue = create("once", plain().duplicate_detection(HOUR).max_duplicate_ids(ids));
    let mut receiver = queue.receive_and_delete();
    let mut out = Vec::with_capacity(1);
    let before = counting::live();
    each("duplicate_id", ids, || {
        for n in 0..ids {
            send(&queue, numbered(n, &[]));
            assert!(receiver.poll_receive(&mut cx, 1, &mut out).is_ready());
            out.clear();
        }
    });
    assert!(counting::live() - before <= 96 << 20, "a million ids take more than 96 MiB");

    let queue = create("sessions", plain().requires_session(true));
    let mut acceptor = queue.session_acceptor().expect("a queue");
    each("idle_session", THINGS, || {
        for n in 0..THINGS {
            send(&queue, Message::builder().message_id("m").session_id(format!("s-{n:06}")).build("").expect("valid"));
            let Poll::Ready(Ok(mut session)) = acceptor.poll_accept(&mut cx) else { panic!("no session") };
            session.set_state(Some("x".into())).wait().expect("held");
            assert!(session.poll_receive(&mut cx, 1, &mut out).is_ready());
            for delivery in out.drain(..) {
                delivery.lease.settle(Disposition::Complete).wait().expect("settled");
            }
            session.close().expect("held");
        }
    });
}

/// Bytes that each of so many things takes.
fn each(name: &str, things: usize, make: impl FnOnce()) {
    let before = counting::live();
    make();
    // A lock takes nothing, and a burst that is received gives some of its places back.
    println!("{name} {}", counting::live().saturating_sub(before) / things);
}

/// With an id of eleven characters.
fn numbered(n: usize, body: &[u8]) -> Message {
    Message::builder().message_id(format!("m-{n:09}")).build(body.to_vec()).expect("a valid message")
}

fn send(queue: &Queue, message: Message) {
    queue.sender().expect("a queue").send(message).wait().expect("accepted");
}
