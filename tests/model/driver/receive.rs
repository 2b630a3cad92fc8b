use std::task::{Context, Poll, Waker};

use consign::{
    broker::{Broker, Queue, QueueLease},
    message::SequenceNumber,
    transport::{Delivery, ErrorKind, Receiver},
};

use super::{
    Driver, Held,
    compare::{Shown, assert_same},
    send::timestamp,
    world::Kind,
};
use crate::model::{Part, Place, Source, Taken};

/// Takes what is there, without waiting.
pub(super) fn take<R: Receiver<Lease = QueueLease>>(
    receiver: &mut R,
    max: usize,
) -> Result<Vec<Delivery<QueueLease>>, ErrorKind> {
    let mut taken = Vec::new();
    let polled = receiver.poll_receive(&mut Context::from_waker(Waker::noop()), max, &mut taken);
    receiver.stop();
    match polled {
        Poll::Ready(Ok(_)) | Poll::Pending => Ok(taken),
        Poll::Ready(Err(error)) => Err(error.kind()),
    }
}

/// As [`take`], for messages that are removed, which come when the disk knows it.
pub(super) fn take_deleted<R: Receiver<Lease = QueueLease>>(
    broker: &Broker,
    receiver: &mut R,
    max: usize,
) -> Result<Vec<Delivery<QueueLease>>, ErrorKind> {
    let taken = take(receiver, max)?;
    #[cfg(feature = "durable")]
    if taken.is_empty() && broker.flush().wait().is_ok() {
        return take(receiver, max);
    }
    let _ = broker;
    Ok(taken)
}

impl Driver {
    /// Mostly the main part of a queue or a subscription.
    pub(super) fn any_source(&mut self) -> Option<(usize, Part, Queue)> {
        let at = self.any_handle(|_| true)?;
        let part = match self.rng.u32(0..20) {
            0..4 => Part::Dead,
            4 => Part::Transfer,
            _ => Part::Main,
        };
        let handle = &self.handles[at];
        Some(match (handle.queue(), part) {
            (Some(queue), Part::Main) => (at, part, queue.clone()),
            (Some(queue), Part::Dead) => (at, part, queue.dead_letter()),
            // A topic has no other part to receive from.
            (None, _) | (_, Part::Transfer) => (at, Part::Transfer, handle.transfer()),
        })
    }

    pub(super) fn receive_one(&mut self) {
        self.receive(1);
    }

    pub(super) fn receive_many(&mut self) {
        let max = self.rng.usize(1..6);
        self.receive(max);
    }

    fn receive(&mut self, max: usize) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let received = take(&mut queue.receiver(), max);
        let expected = self.model.receive(self.handles[at].entity, Source::Part(part), max);
        self.keep(self.handles[at].entity, received, expected, false);
    }

    /// Compares what was received, and holds it.
    pub(super) fn keep(
        &mut self,
        entity: u32,
        received: Result<Vec<Delivery<QueueLease>>, ErrorKind>,
        expected: Result<Vec<Taken>, ErrorKind>,
        in_session: bool,
    ) {
        let (received, expected) = match (received, expected) {
            (Ok(received), Ok(expected)) => (received, expected),
            (received, expected) => {
                assert_eq!(received.map(|it| it.len()), expected.map(|it| it.len()));
                return;
            }
        };
        assert_eq!(received.len(), expected.len());
        for (delivery, (key, lock)) in received.into_iter().zip(expected) {
            let stored = &self.model.messages[&key];
            let mut shown = Shown::of_model(&self.model, stored, stored.failures + 1);
            shown.locked_until = Some(self.model.utc + i64::try_from(lock.until - self.model.now).unwrap());
            assert_eq!(Shown::of_broker(&delivery.message), shown);
            let in_session = in_session && stored.part == Part::Main;
            self.held.push(Held { entity, delivery, lock: lock.number, in_session, part: stored.part });
        }
    }

    pub(super) fn receive_and_delete(&mut self) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let max = self.rng.usize(1..4);
        let received = take_deleted(&self.broker, &mut queue.receive_and_delete(), max);
        let expected = self.model.receive_and_delete(self.handles[at].entity, Source::Part(part), max);
        self.compare_deleted(received, expected);
    }

    pub(super) fn compare_deleted(
        &self,
        received: Result<Vec<Delivery<QueueLease>>, ErrorKind>,
        expected: Result<Vec<crate::model::Stored>, ErrorKind>,
    ) {
        let shown = received.as_ref().map(|it| it.iter().map(|it| Shown::of_broker(&it.message)).collect::<Vec<_>>());
        let expected = expected
            .map(|it| it.iter().map(|it| Shown::of_model(&self.model, it, it.failures + 1)).collect::<Vec<_>>());
        assert_eq!(shown.map_err(|&error| error), expected);
        for delivery in received.into_iter().flatten() {
            let settled = delivery.complete().wait();
            assert_eq!(settled.unwrap_err().kind(), ErrorKind::InvalidOperation);
        }
    }

    /// Numbers of deferred messages of a part, and sometimes one that is something else.
    pub(super) fn numbers(&mut self, entity: u32, part: Part, session: Option<&str>, wrong: bool) -> Vec<u64> {
        let deferred = self.model.messages.values().filter(|it| {
            let is_its = it.entity == entity && it.part == part && it.place == Place::Deferred;
            is_its && (session.is_none() || it.content.session.as_deref() == session)
        });
        let deferred: Vec<u64> = deferred.map(|it| it.sequence).collect();
        let count = self.rng.usize(1..3);
        let mut numbers: Vec<u64> = (0..count).filter_map(|_| self.rng.choice(&deferred).copied()).collect();
        if wrong || numbers.is_empty() {
            numbers.push(self.rng.u64(0..self.next_body + 2));
        }
        numbers
    }

    pub(super) fn receive_deferred(&mut self) {
        self.receive_by_number(false);
    }

    pub(super) fn receive_not_deferred(&mut self) {
        self.receive_by_number(true);
    }

    fn receive_by_number(&mut self, wrong: bool) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let entity = self.handles[at].entity;
        let numbers = self.numbers(entity, part, None, wrong);
        let received = queue.receive_deferred(&sequence_numbers(&numbers)).map_err(|error| error.kind());
        let expected = self.model.receive_deferred(entity, Source::Part(part), &numbers);
        self.keep(entity, received, expected, false);
    }

    pub(super) fn peek(&mut self) {
        if self.one_in(5)
            && let Some(at) = self.any_handle(|handle| handle.kind == Kind::Topic)
        {
            return self.compare_peek(at, Part::Main, 0, 100);
        }
        let Some((at, part, _)) = self.any_source() else { return };
        let (from, max) = (self.rng.u64(0..self.next_body + 2), self.rng.usize(0..9));
        self.compare_peek(at, part, from, max);
    }

    /// A receiver goes on peeking where it has stopped.
    pub(super) fn peek_on(&mut self) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let mut receiver = queue.receiver();
        let mut from = 1;
        for _ in 0..3 {
            let max = self.rng.usize(0..5);
            let peeked: Vec<_> = receiver.peek(max).iter().map(Shown::of_broker).collect();
            let expected = self.model_peek(self.handles[at].entity, Source::Part(part), from, max);
            assert_same(&peeked, &expected, &"peek");
            from = expected.last().map_or(from, |last| last.sequence + 1);
        }
    }

    pub(super) fn delete_messages(&mut self) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let max = self.rng.usize(0..5);
        let before = self.rng.bool().then(|| self.model.utc - self.rng.i64(0..20_000));
        let deleted = queue.delete_messages(max, before.map(timestamp)).wait().map_err(|error| error.kind());
        assert_eq!(deleted, self.model.delete_messages(self.handles[at].entity, part, max, before));
    }

    pub(super) fn ages(&mut self) {
        let Some((at, part, queue)) = self.any_source() else { return };
        let ages = queue.ages();
        let millis = |time: Option<consign::time::Timestamp>| time.map(consign::time::Timestamp::as_millis);
        let ages = crate::model::Ages {
            active: millis(ages.active),
            deferred: millis(ages.deferred),
            dead_lettered: millis(ages.dead_lettered),
            next_scheduled: millis(ages.next_scheduled),
        };
        assert_eq!(ages, self.model.ages(self.handles[at].entity, part));
    }
}

pub(super) fn sequence_numbers(numbers: &[u64]) -> Vec<SequenceNumber> {
    numbers.iter().copied().map(SequenceNumber::new).collect()
}
