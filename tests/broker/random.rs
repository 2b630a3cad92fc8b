//! Random operations on the broker and on the model of it, which have to agree after each.

use std::{sync::Arc, time::Duration};

use consign::{
    Disposition, Message,
    broker::{Broker, Queue, QueueLease, QueueReceiver, QueueSettings},
    message::{ApplicationProperties, MessageState, PropertyValue, SequenceNumber},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    time::{ManualClock, Timestamp},
    transport::{Batch, Delivery, ErrorKind, Lease, Sender},
};

use crate::{
    model::{Model, Refused, Settle, Stored},
    support::{self, Ended, START, facts, why},
};

const SEEDS: [u64; 4] = [1, 0x00C0_FFEE, 0x5EED_5EED, 0xDEAD_1E77];
const OPS: u64 = 20_000;
/// Operations on one queue, before another with other settings is begun.
const OPS_EACH: u64 = 1_000;

#[test]
fn i_01_random_operations_agree_with_the_model() {
    let ops = number("CONSIGN_OPS").unwrap_or(OPS);
    let seeds = number("SEED").map_or(SEEDS.to_vec(), |seed| vec![seed]);
    for seed in seeds {
        for queue in 0..ops.div_ceil(OPS_EACH) {
            run(seed.wrapping_add(queue), OPS_EACH.min(ops - queue * OPS_EACH));
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64, ops: u64) {
    let _replay = Replay { seed, ops };
    let mut pair = Pair::new(fastrand::Rng::with_seed(seed));
    for op in 0..ops {
        pair.step();
        pair.compare_counts();
        if op % 64 == 0 {
            pair.compare_all();
        }
    }
    pair.drain();
}

/// Says how to repeat a run that fails.
struct Replay {
    seed: u64,
    ops: u64,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, ops } = self;
            eprintln!(
                "seed {seed}; replay: SEED={seed} CONSIGN_OPS={ops} cargo test --features full --test broker i_01_"
            );
        }
    }
}

/// The broker's queue and the model, with what has been received from both.
struct Pair {
    rng: fastrand::Rng,
    clock: Arc<ManualClock>,
    queues: [Queue; 2],
    receivers: [QueueReceiver; 2],
    model: Model,
    held: Vec<Held>,
    next_body: u64,
}

/// A delivery and the model's lock for it. Either may be lost by now.
struct Held {
    delivery: Delivery<QueueLease>,
    lock: u64,
}

impl Pair {
    fn new(mut rng: fastrand::Rng) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let mut model = Model::new(u64::try_from(START.as_millis()).unwrap(), rng.u64(5_000..=20_000), rng.u32(1..=4));
        model.default_ttl = rng.bool().then(|| rng.u64(1_000..=60_000));
        model.bury_expired = rng.bool();
        let mut settings = QueueSettings::default()
            .with_lock_duration(Duration::from_millis(model.lock_duration))
            .with_max_delivery_count(model.max_delivery_count)
            .with_dead_letter_on_expiration(model.bury_expired);
        settings.default_time_to_live = model.default_ttl.map(Duration::from_millis);
        let broker = Broker::with_clock(Arc::clone(&clock));
        let main = broker.create_queue("orders", settings).unwrap();
        let queues = [main.clone(), main.dead_letter()];
        let receivers = queues.each_ref().map(Queue::receiver);
        Self { rng, clock, queues, receivers, model, held: Vec::new(), next_body: 0 }
    }

    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..20 => self.send(),
            20..24 => self.send_batch(),
            24..44 => self.receive(),
            44..46 => self.receive_and_delete(),
            46..76 => self.settle(),
            76..80 => self.drop_one(),
            80..88 => self.receive_deferred(),
            88..90 => self.peek(),
            90..98 => self.pass_time(),
            98 if self.rng.bool() => self.step_utc(),
            98 => self.lose_locks(),
            _ => self.steal_back(),
        }
    }

    fn message(&mut self) -> Message {
        self.next_body += 1;
        let ttl = (self.rng.u32(0..3) == 0).then(|| self.rng.u64(1..40_000));
        self.model.send(self.next_body, ttl);
        let mut message = Message::new(self.next_body.to_string());
        if let Some(ttl) = ttl {
            message.properties_mut().set_time_to_live(Duration::from_millis(ttl)).unwrap();
        }
        message
    }

    fn send(&mut self) {
        let message = self.message();
        self.queues[0].sender().unwrap().send(message).into_inner().unwrap();
    }

    fn send_batch(&mut self) {
        let batch = Batch((0..self.rng.usize(0..6)).map(|_| self.message()).collect());
        self.queues[0].sender().unwrap().send_batch(batch).into_inner().unwrap();
    }

    /// Mostly the main part.
    fn part(&mut self) -> usize {
        usize::from(self.rng.u32(0..5) == 0)
    }

    fn receive(&mut self) {
        let (part, max) = (self.part(), self.rng.usize(1..5));
        let expected = self.model.receive(part == 1, max);
        let received = support::take(&mut self.receivers[part], max);
        self.keep(received, expected);
    }

    fn receive_deferred(&mut self) {
        let part = self.part();
        let deferred: Vec<u64> =
            self.model.stored.iter().filter(|(_, it)| it.is_deferred()).map(|(&at, _)| at).collect();
        let mut numbers: Vec<u64> =
            (0..self.rng.usize(1..3)).filter_map(|_| self.rng.choice(&deferred).copied()).collect();
        if numbers.is_empty() || self.rng.u32(0..8) == 0 {
            numbers.push(self.rng.u64(0..self.next_body + 2));
        }
        let expected = self.model.receive_deferred(part == 1, &numbers);
        let asked: Vec<_> = numbers.iter().copied().map(SequenceNumber::new).collect();
        match (self.queues[part].receive_deferred(&asked), expected) {
            (Ok(received), Some(expected)) => self.keep(received, expected),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::MessageNotFound),
            (received, expected) => panic!("{numbers:?}: {received:?} is not {expected:?}"),
        }
    }

    fn keep(&mut self, received: Vec<Delivery<QueueLease>>, expected: Vec<(u64, u64)>) {
        assert_eq!(received.len(), expected.len());
        for (delivery, (sequence, lock)) in received.into_iter().zip(expected) {
            let stored = &self.model.stored[&sequence];
            assert_same(&delivery.message, sequence, stored, stored.failures + 1);
            let until = self.model.utc + self.model.lock_duration;
            assert_eq!(facts(&delivery.message).locked_until, Some(timestamp(until)));
            self.held.push(Held { delivery, lock });
        }
    }

    fn receive_and_delete(&mut self) {
        let (part, max) = (self.part(), self.rng.usize(1..3));
        let expected = self.model.receive_and_delete(part == 1, max);
        let received = support::take(&mut self.queues[part].receive_and_delete(), max);
        assert_eq!(received.len(), expected.len());
        for (delivery, (sequence, stored)) in received.into_iter().zip(expected) {
            assert_same(&delivery.message, sequence, &stored, stored.failures + 1);
            assert_eq!(facts(&delivery.message).locked_until, None);
            assert_eq!(delivery.complete().refused(), ErrorKind::InvalidOperation);
        }
    }

    fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.rng.usize(0..self.held.len());
        let mark = self.rng.bool().then(|| self.rng.u64(0..1_000));
        let settle = match self.rng.u32(0..12) {
            0..4 => Settle::Complete,
            4..7 => Settle::Abandon(mark),
            7 => Settle::Defer(mark),
            8 => Settle::DeadLetter(mark),
            9 => Settle::Release,
            _ => Settle::Renew,
        };
        let expected = self.model.settle(self.held[at].lock, settle);
        let outcome = if let Settle::Renew = settle {
            let renewed = self.held[at].delivery.lease.renew().ended();
            let until = timestamp(self.model.utc + self.model.lock_duration);
            renewed.map(|it| assert_eq!(it, until))
        } else {
            let lease = self.held.swap_remove(at).delivery.lease;
            let settled = match settle {
                Settle::Complete | Settle::Renew => lease.settle(Disposition::Complete),
                Settle::Abandon(mark) => lease.settle(Disposition::Abandon(changes(mark))),
                Settle::Defer(mark) => lease.settle(Disposition::Defer(changes(mark))),
                Settle::Release => lease.release(),
                Settle::DeadLetter(mark) => {
                    let mut dead_letter = DeadLetter::new(DeadLetterReason::Application("asked".into()), "");
                    dead_letter.changes = changes(mark);
                    lease.settle(Disposition::DeadLetter(Box::new(dead_letter)))
                }
            };
            settled.ended()
        };
        let outcome = outcome.map_err(|error| match error.kind() {
            ErrorKind::MessageLockLost => Refused::LockLost,
            ErrorKind::InvalidOperation => Refused::InvalidOperation,
            other => panic!("{settle:?}: {other:?}"),
        });
        assert_eq!(outcome, expected, "{settle:?}");
    }

    fn drop_one(&mut self) {
        if !self.held.is_empty() {
            let held = self.held.swap_remove(self.rng.usize(0..self.held.len()));
            let _ = self.model.settle(held.lock, Settle::Abandon(None));
        }
    }

    fn peek(&mut self) {
        let (part, from, max) = (self.part(), self.rng.u64(0..self.next_body + 2), self.rng.usize(0..9));
        self.compare_peek(part, from, max);
    }

    /// Small steps, steps to just before, at and after the next lock or expiry, and large steps.
    fn pass_time(&mut self) {
        let by = match self.rng.u32(0..8) {
            0..4 => self.rng.u64(0..100),
            4 => self.model.lock_duration - self.rng.u64(0..2),
            5 => self.rng.u64(0..5_000),
            6 => self.model.lock_duration + self.rng.u64(0..2),
            _ => self.rng.u64(0..60_000),
        };
        self.clock.advance(Duration::from_millis(by));
        self.model.advance(by);
    }

    fn step_utc(&mut self) {
        let hour = 3_600_000;
        self.model.utc = self.model.utc - hour + self.rng.u64(0..2 * hour);
        self.clock.set_utc(timestamp(self.model.utc));
    }

    fn lose_locks(&mut self) {
        let part = self.part();
        self.queues[part].lose_locks();
        self.model.lose_locks(part == 1);
    }

    /// A lease of an earlier delivery of a message that is locked anew has no power over it.
    fn steal_back(&mut self) {
        let current = |held: &Held| {
            let sequence = facts(&held.delivery.message).sequence_number.get();
            self.model.lock_of(sequence).is_some_and(|lock| lock != held.lock)
        };
        if let Some(at) = self.held.iter().position(current) {
            let held = self.held.swap_remove(at);
            assert_eq!(held.delivery.complete().refused(), ErrorKind::MessageLockLost);
        }
    }

    fn compare_counts(&mut self) {
        for (part, queue) in self.queues.iter().enumerate() {
            let counts = queue.counts();
            let counted = [counts.active, counts.locked, counts.deferred, counts.dead_lettered];
            assert_eq!(counted, self.model.counts(part == 1), "part {part}");
        }
    }

    fn compare_all(&mut self) {
        self.compare_peek(0, 0, usize::MAX);
        self.compare_peek(1, 0, usize::MAX);
    }

    fn compare_peek(&mut self, part: usize, from: u64, max: usize) {
        let peeked = self.queues[part].peek(SequenceNumber::new(from), max);
        let expected = self.model.peek(part == 1, from, max);
        assert_eq!(peeked.len(), expected.len(), "part {part}");
        for (message, (sequence, stored)) in peeked.iter().zip(expected) {
            assert_same(message, sequence, stored, stored.failures);
            assert_eq!(facts(message).locked_until, None);
        }
    }

    /// Gives back what is held and empties both parts, but for deferred messages that have expired.
    fn drain(&mut self) {
        while !self.held.is_empty() {
            self.drop_one();
        }
        // A lease that was used up for a refusal has left its lock.
        self.clock.advance(Duration::from_millis(self.model.lock_duration));
        self.model.advance(self.model.lock_duration);
        self.compare_counts();
        self.compare_all();
        for (part, queue) in self.queues.iter().enumerate() {
            support::take(&mut queue.receive_and_delete(), usize::MAX);
            self.model.receive_and_delete(part == 1, usize::MAX);
            for message in queue.peek(SequenceNumber::new(0), usize::MAX) {
                let number = facts(&message).sequence_number;
                let expected = self.model.receive_deferred(part == 1, &[number.get()]);
                assert_eq!(
                    queue.receive_deferred(&[number]).is_ok_and(|mut it| it.remove(0).complete().ended().is_ok()),
                    expected.is_some()
                );
                if let Some(locks) = expected {
                    self.model.settle(locks[0].1, Settle::Complete).unwrap();
                }
            }
        }
        self.compare_counts();
        assert_eq!(self.queues[0].counts().size == 0, self.model.stored.is_empty());
    }
}

fn assert_same(message: &Message, sequence: u64, stored: &Stored, delivery_count: u32) {
    let facts = facts(message);
    assert_eq!(facts.sequence_number.get(), sequence);
    assert_eq!(support::text(message), stored.body.to_string(), "#{sequence}");
    assert_eq!(facts.delivery_count, delivery_count, "#{sequence}");
    assert_eq!(facts.dead_lettered, stored.dead, "#{sequence}");
    assert_eq!(facts.state == MessageState::Deferred, stored.is_deferred(), "#{sequence}");
    assert_eq!(facts.enqueued_time, timestamp(stored.enqueued), "#{sequence}");
    assert_eq!(facts.expires_at, stored.expires_at.map_or(Timestamp::MAX, timestamp), "#{sequence}");
    assert_eq!(why(message).0, stored.reason.unwrap_or_default(), "#{sequence}");
    assert_eq!(message.application().get("mark"), stored.mark.map(PropertyValue::U64).as_ref(), "#{sequence}");
}

fn changes(mark: Option<u64>) -> Changes {
    mark.map(|mark| ("mark", mark)).into_iter().collect::<ApplicationProperties>().into()
}

fn timestamp(millis: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(millis).unwrap())
}
