//! What is more than one batch may have, where the disk has little space.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use consign_core::{
    Message,
    administration::{QueueSettings, Status},
    settlement::{DeadLetter, DeadLetterReason},
    time::{ManualClock, Timestamp},
    transport::{ErrorKind, ReceiverExt, Sender},
};
use futures_util::FutureExt;

use super::{super::writer::Writer, open};
use crate::{
    Broker, Queue,
    durable::disk::{Faults, SimulatedDisk},
};

const MIB: usize = 1 << 20;
const COUNT: usize = 12;

/// A disk with 4 MiB, and the reserve of 16 MiB, beside what it has.
fn limit(disk: &SimulatedDisk) {
    let used: usize = disk.lengths().iter().map(|(_, length)| length).sum();
    disk.set_faults(Faults { capacity: (used + 4 * MIB) as u64, ..Faults::NONE });
}

fn started() -> (SimulatedDisk, Arc<ManualClock>) {
    let disk = SimulatedDisk::new();
    disk.set_reserve(16 << 20);
    disk.forget_history();
    (disk, Arc::new(ManualClock::new(Timestamp::EPOCH)))
}

fn settings() -> QueueSettings {
    QueueSettings::default().max_message_size(100 * MIB)
}

fn step(broker: &Broker, writer: &mut Writer) {
    writer.step(Arc::clone(&broker.shared)).unwrap();
}

/// Sends messages of 1 MiB.
fn send(broker: &Broker, writer: &mut Writer, queue: &Queue, session: Option<&'static str>) {
    let body = Bytes::from(vec![7; MIB]);
    for _ in 0..COUNT {
        let mut message = Message::builder();
        if let Some(session) = session {
            message = message.session_id(session);
        }
        let sent = queue.sender().unwrap().send(message.build(body.clone()).unwrap());
        step(broker, writer);
        sent.now_or_never().unwrap().unwrap();
    }
}

/// Rules: D-07.
#[test]
fn settlements_that_the_disk_does_not_take_are_refused_and_completions_are_not() {
    let (disk, clock) = started();
    let (broker, mut writer) = open(&disk, &clock).unwrap();
    let queue = broker.create_queue("orders", settings()).unwrap();
    send(&broker, &mut writer, &queue, None);
    let held = queue.receiver().receive_batch(COUNT).now_or_never().unwrap().unwrap();
    limit(&disk);
    step(&broker, &mut writer);
    let (mut taken, mut refused) = (Vec::new(), 0);
    for (nth, delivery) in held.into_iter().enumerate() {
        let mut settled = match nth % 3 {
            0 => delivery.abandon(),
            1 => delivery.defer(),
            _ => delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application("x".into()), "y")),
        };
        match (&mut settled).now_or_never() {
            None => taken.push(settled),
            Some(Ok(())) => panic!("nothing is written yet"),
            Some(Err(error)) => {
                assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::ServiceBusy, true));
                refused += 1;
            }
        }
    }
    assert!(taken.len() > 4 && refused > 2, "{} of {COUNT}", taken.len());
    let active = queue.counts().active;
    assert_eq!(queue.counts().locked, refused, "their locks hold");
    step(&broker, &mut writer);
    for settled in taken {
        settled.now_or_never().unwrap().unwrap();
    }
    assert_eq!(queue.counts().active, active);
}

/// Rules: D-07.
#[test]
fn dead_letters_leave_as_far_as_the_disk_takes_them() {
    for opens in [false, true] {
        let (disk, clock) = started();
        let (mut broker, mut writer) = open(&disk, &clock).unwrap();
        broker.create_queue("target", settings().status(Status::SendDisabled)).unwrap();
        let mut queue = broker.create_queue("orders", settings().forward_dead_letters_to("target")).unwrap();
        send(&broker, &mut writer, &queue, None);
        for delivery in queue.receiver().receive_batch(COUNT).now_or_never().unwrap().unwrap() {
            drop(delivery.dead_letter(DeadLetter::new(DeadLetterReason::Application("x".into()), "y")));
            step(&broker, &mut writer);
        }
        assert_eq!(queue.counts().dead_lettered, COUNT);
        broker.update_queue("target", settings()).unwrap();
        step(&broker, &mut writer);
        if opens {
            drop((queue, broker, writer));
            disk.set_faults(Faults::NONE);
            limit(&disk);
            (broker, writer) = open(&disk, &clock).unwrap();
            queue = broker.queue("orders").unwrap();
        } else {
            limit(&disk);
            step(&broker, &mut writer);
            clock.advance(Duration::from_secs(10));
        }
        let target = broker.queue("target").unwrap();
        let (mut before, mut batches) = (0, 0);
        while before < COUNT {
            let active = target.counts().active;
            assert!(active > before && active - before < COUNT, "{active} of {COUNT} after {before}");
            assert_eq!(queue.counts().dead_lettered, COUNT - active);
            (before, batches) = (active, batches + 1);
            step(&broker, &mut writer);
            limit(&disk);
            step(&broker, &mut writer);
        }
        assert!(batches > 1);
    }
}

/// Rules: D-07.
#[test]
fn a_session_ends_as_far_as_the_disk_takes_it() {
    let (disk, clock) = started();
    let (broker, mut writer) = open(&disk, &clock).unwrap();
    let queue = broker.create_queue("orders", settings().requires_session(true)).unwrap();
    send(&broker, &mut writer, &queue, Some("a"));
    let mut session = queue.accept_session("a").unwrap();
    let held = session.receive_batch(COUNT).now_or_never().unwrap().unwrap();
    assert_eq!(held.len(), COUNT);
    limit(&disk);
    step(&broker, &mut writer);
    clock.advance(Duration::from_secs(3_600));
    let (mut before, mut batches) = (COUNT, 0);
    while before > 0 {
        let locked = queue.counts().locked;
        assert!(locked < before && before - locked < COUNT, "{locked} of {COUNT} after {before}");
        (before, batches) = (locked, batches + 1);
        step(&broker, &mut writer);
        limit(&disk);
        step(&broker, &mut writer);
    }
    assert!(batches > 1);
    let mut again = queue.accept_session("a").unwrap();
    let deliveries = again.receive_batch(COUNT).now_or_never().unwrap().unwrap();
    assert!(
        deliveries.iter().all(|delivery| delivery.message.received().unwrap().delivery_count == 2),
        "each counts once"
    );
}

/// Rules: D-07.
#[test]
fn states_of_sessions_are_limited_by_the_disk() {
    let (disk, clock) = started();
    let (broker, mut writer) = open(&disk, &clock).unwrap();
    let queue = broker.create_queue("orders", settings().requires_session(true)).unwrap();
    limit(&disk);
    step(&broker, &mut writer);
    let session = queue.accept_session("a").unwrap();
    let state = Bytes::from(vec![7; 30 * MIB]);
    let set = |bytes: usize| {
        let mut set = session.set_state(Some(state.slice(..bytes)));
        let refused = (&mut set).now_or_never().map(Result::unwrap_err);
        (set, refused)
    };
    let refused = set(30 * MIB).1.expect("it is refused at once");
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert!(refused.to_string().contains("the disk has space for"), "{refused}");
    // Each replaces the one before it, in the same batch.
    let pending: Vec<_> = [3, 5, 7].map(|mib| set(mib * MIB)).into_iter().collect();
    assert!(pending.iter().all(|(_, refused)| refused.is_none()));
    let refused = set(9 * MIB).1.expect("it is refused at once");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::ServiceBusy, true));
    let sent = queue.sender().unwrap().send(Message::builder().session_id("b").build(state.slice(..2 * MIB)).unwrap());
    assert_eq!(sent.now_or_never().unwrap().unwrap_err().kind(), ErrorKind::ServiceBusy);
    step(&broker, &mut writer);
    for (set, _) in pending {
        set.now_or_never().unwrap().unwrap();
    }
    broker.shared.with(|state| state.engine.set_full(true));
    let refused = set(8 * MIB).1.expect("it is refused at once");
    assert!(refused.to_string().contains("the disk is full"), "{refused}");
}
