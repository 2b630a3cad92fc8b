//! Messages are received, peeked and purged.

use std::{future::poll_fn, time::Duration};

use consign::{
    message::SequenceNumber,
    time::Timestamp,
    transport::{Delivery, ErrorKind, Lease, Receiver, ReceiverExt},
};
use consign_postgres::PostgresLease;

use crate::{
    driver::{Driver, Held, QUEUES, path_of},
    model::{Part, Place, Source, Taken},
    shown::Shown,
};

type Received = Result<Vec<Delivery<PostgresLease>>, ErrorKind>;

/// Takes what is there. Where nothing is expected, it waits for a moment.
pub(crate) async fn take<R>(receiver: &mut R, max: usize, is_expected: bool) -> Received
where
    R: Receiver<Lease = PostgresLease> + Send,
{
    let wait = if is_expected { Duration::from_secs(60) } else { Duration::from_millis(20) };
    let received = match tokio::time::timeout(wait, receiver.receive_batch(max)).await {
        Ok(received) => received.map_err(|error| error.kind()),
        Err(_) => Ok(Vec::new()),
    };
    receiver.stop();
    poll_fn(|cx| receiver.poll_stopped(cx)).await;
    received
}

impl Driver {
    fn any_source(&mut self) -> (usize, Part) {
        (self.any_queue(), if self.one_in(5) { Part::Dead } else { Part::Main })
    }

    pub(crate) async fn receive(&mut self) {
        let (at, part) = self.any_source();
        let max = self.rng.usize(1..12);
        let expected = self.model.receive(self.entities[at], Source::Part(part), max);
        let mut receiver = self.postgres.receiver(&path_of(at, part)).await.unwrap();
        let is_expected = expected.as_ref().map_or(true, |expected| !expected.is_empty());
        let received = take(&mut receiver, max, is_expected).await;
        self.keep(self.entities[at], received, expected, false);
    }

    /// Compares what was received, and holds it.
    pub(crate) fn keep(
        &mut self,
        entity: u32,
        received: Received,
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
            let mut shown = Shown::of_model(stored, stored.failures + 1).delivered();
            shown.locked_until = Some(lock.shown);
            assert_eq!(Shown::of_message(&delivery.message), shown);
            let in_session = in_session && stored.part == Part::Main;
            self.held.push(Held { entity, delivery, lock: lock.number, in_session });
        }
    }

    pub(crate) async fn receive_and_delete(&mut self) {
        let (at, part) = self.any_source();
        let max = self.rng.usize(1..6);
        let expected = self.model.receive_and_delete(self.entities[at], Source::Part(part), max);
        let mut receiver = self.postgres.receive_and_delete(&path_of(at, part)).await.unwrap();
        let is_expected = expected.as_ref().map_or(true, |expected| !expected.is_empty());
        let received = take(&mut receiver, max, is_expected).await;
        let shown = received.as_ref().map(|it| it.iter().map(|it| Shown::of_message(&it.message)).collect::<Vec<_>>());
        let expected =
            expected.map(|it| it.iter().map(|it| Shown::of_model(it, it.failures + 1).delivered()).collect::<Vec<_>>());
        assert_eq!(shown.map_err(|&error| error), expected);
        for delivery in received.into_iter().flatten() {
            let settled = delivery.lease.settle(consign::Disposition::Complete).await;
            assert_eq!(settled.unwrap_err().kind(), ErrorKind::InvalidOperation);
        }
    }

    /// Numbers of deferred messages of a part, and sometimes one that is something else.
    pub(crate) fn numbers(&mut self, entity: u32, part: Part, session: Option<&str>) -> Vec<u64> {
        let deferred = self.model.messages.values().filter(|it| {
            let is_its = it.entity == entity && it.part == part && it.place == Place::Deferred;
            is_its && (session.is_none() || it.content.session.as_deref() == session)
        });
        let deferred: Vec<u64> = deferred.map(|it| it.sequence).collect();
        let mut numbers: Vec<u64> = self.rng.choice(&deferred).copied().into_iter().collect();
        if numbers.is_empty() || self.one_in(6) {
            numbers.push(self.rng.u64(0..self.next_body + 2));
        }
        numbers
    }

    pub(crate) async fn receive_deferred(&mut self) {
        let (at, part) = self.any_source();
        if QUEUES[at] == "talks" && part == Part::Main {
            // Its deferred messages are received in their session.
            return;
        }
        let entity = self.entities[at];
        let numbers = self.numbers(entity, part, None);
        let expected = self.model.receive_deferred(entity, Source::Part(part), &numbers);
        let numbers: Vec<_> = numbers.into_iter().map(SequenceNumber::new).collect();
        let received = self.postgres.receive_deferred(&path_of(at, part), &numbers).await;
        self.keep(entity, received.map_err(|error| error.kind()), expected, false);
    }

    pub(crate) async fn peek(&mut self) {
        let (at, part) = self.any_source();
        let (from, max) = (self.rng.u64(0..self.next_body + 2), self.rng.usize(0..9));
        self.compare_peek(at, part, from, max).await;
    }

    pub(crate) async fn purge(&mut self) {
        let (at, part) = self.any_source();
        let max = self.rng.usize(0..5);
        let before = self.rng.bool().then(|| self.model.utc - self.rng.i64(0..20_000));
        let expected = self.model.delete_messages(self.entities[at], part, max, before).unwrap();
        let purged = self.postgres.purge(&path_of(at, part), max, before.map(Timestamp::from_millis)).await.unwrap();
        assert_eq!(purged, expected, "{}", QUEUES[at]);
    }
}
