//! Random operations on sessions, each session with a checker of its own that knows what its holder has to get next.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use consign::{
    Disposition, Message,
    broker::{Broker, Queue, QueueLease, SessionReceiver},
    message::SequenceNumber,
    settlement::DeadLetterReason,
    time::ManualClock,
    transport::{Delivery, ErrorKind, Lease, Sender},
};

use crate::{
    sessions,
    support::{Ended, START, facts, settings},
};

const OPS: u64 = 20_000;
/// Operations on one queue, before another with another seed is begun.
const OPS_EACH: u64 = 1_000;
const SEED: u64 = 0x5E55;
/// So few that they are fought for, and that most of the time some have nothing.
const IDS: [&str; 5] = ["a", "b", "c", "d", ""];

/// Rules: I-24.
#[test]
fn random_sessions_are_in_order_and_have_one_holder() {
    let ops = number("CONSIGN_OPS").unwrap_or(OPS);
    let seed = number("SEED").unwrap_or(SEED);
    let mut inversions = 0;
    for queue in 0..ops.div_ceil(OPS_EACH) {
        inversions += run(seed.wrapping_add(queue), OPS_EACH.min(ops - queue * OPS_EACH));
    }
    println!("session operations: {ops}, inversions: {inversions}");
    assert_eq!(inversions, 0);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64, ops: u64) -> usize {
    let replay = Replay { seed, ops };
    let mut bench = Bench::new(fastrand::Rng::with_seed(seed));
    for _ in 0..ops {
        bench.step();
        bench.compare();
    }
    bench.drain();
    if bench.inversions > 0 {
        replay.print();
    }
    bench.inversions
}

/// Says how to repeat a run that fails.
struct Replay {
    seed: u64,
    ops: u64,
}

impl Replay {
    fn print(&self) {
        let Self { seed, ops } = self;
        eprintln!(
            "seed {seed}; replay: SEED={seed} CONSIGN_OPS={ops} cargo test --features full --test broker random_sessions_are_in_order_and_have_one_holder"
        );
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
        }
    }
}

/// Where a message of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    Held,
    Deferred,
    DeferredHeld,
}

/// What has to hold for one session.
#[derive(Debug, Default)]
struct Checker {
    /// By sequence number: where it is, and how many of its deliveries failed.
    messages: BTreeMap<u64, (Place, u32)>,
    /// The number of the accept that holds it, and until when.
    holder: Option<(u64, u64)>,
    state: Option<Bytes>,
}

impl Checker {
    fn first_ready(&self) -> Option<u64> {
        self.messages.iter().find(|(_, (place, _))| *place == Place::Ready).map(|(&number, _)| number)
    }

    fn is_held_by(&self, accept: u64) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == accept)
    }

    /// Puts a held message back; `counts` if that was a failure. Whether it is dead now.
    fn put_back(&mut self, number: u64, counts: bool, max_deliveries: u32) -> bool {
        let (place, failures) = self.messages.get_mut(&number).unwrap();
        *failures += u32::from(counts);
        let is_dead = *place == Place::Held && counts && *failures >= max_deliveries;
        *place = if *place == Place::Held { Place::Ready } else { Place::Deferred };
        if is_dead {
            self.messages.remove(&number);
        }
        is_dead
    }

    /// The holder lets go of the session, or loses it. How many messages have died.
    fn end(&mut self, counts: bool, max_deliveries: u32) -> usize {
        self.holder = None;
        let held = |place: Place| place == Place::Held || place == Place::DeferredHeld;
        let held: Vec<u64> = self.messages.iter().filter(|(_, (place, _))| held(*place)).map(|(&at, _)| at).collect();
        held.into_iter().filter(|&number| self.put_back(number, counts, max_deliveries)).count()
    }
}

/// A session receiver that may have lost its session.
struct Holder {
    id: &'static str,
    accept: u64,
    receiver: SessionReceiver,
}

/// A delivery of the accept of that number, that may be lost.
struct Held {
    id: &'static str,
    accept: u64,
    number: u64,
    delivery: Delivery<QueueLease>,
}

struct Bench {
    rng: fastrand::Rng,
    clock: Arc<ManualClock>,
    queue: Queue,
    lock: u64,
    max_deliveries: u32,
    now: u64,
    sessions: BTreeMap<&'static str, Checker>,
    holders: Vec<Holder>,
    held: Vec<Held>,
    last_number: u64,
    last_accept: u64,
    dead: usize,
    /// Messages that were delivered while an earlier one of their session could have been.
    inversions: usize,
}

impl Bench {
    fn new(mut rng: fastrand::Rng) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let (lock, max_deliveries) = (rng.u64(5_000..=9_000), rng.u32(1..=5));
        let settings = settings()
            .requires_session(true)
            .lock_duration(Duration::from_millis(lock))
            .max_delivery_count(max_deliveries);
        let queue = Broker::with_clock(Arc::clone(&clock)).create_queue("orders", settings).unwrap();
        Self {
            rng,
            clock,
            queue,
            lock,
            max_deliveries,
            now: 0,
            sessions: IDS.map(|id| (id, Checker::default())).into(),
            holders: Vec::new(),
            held: Vec::new(),
            last_number: 0,
            last_accept: 0,
            dead: 0,
            inversions: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.u32(0..100) {
            0..20 => self.send(),
            20..26 => self.accept(),
            26..32 => self.accept_next(),
            32..52 => self.receive(),
            52..74 => self.settle(),
            74..78 => self.receive_deferred(),
            78..84 => self.state(),
            84..88 => self.renew(),
            88..92 => self.let_go(),
            _ => self.pass_time(),
        }
    }

    fn id(&mut self) -> &'static str {
        IDS[self.rng.usize(0..IDS.len())]
    }

    fn checker(&mut self, id: &str) -> &mut Checker {
        self.sessions.get_mut(id).unwrap()
    }

    fn send(&mut self) {
        let id = self.id();
        self.last_number += 1;
        let message = Message::builder().session_id(id).build("").unwrap();
        self.queue.sender().unwrap().send(message).wait().unwrap();
        let number = self.last_number;
        self.checker(id).messages.insert(number, (Place::Ready, 0));
    }

    fn accept(&mut self) {
        let id = self.id();
        match self.queue.accept_session(id) {
            Ok(receiver) => self.hold(id, receiver),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked);
                assert!(self.checker(id).holder.is_some(), "{id:?} is refused and nobody holds it");
            }
        }
    }

    fn accept_next(&mut self) {
        let free = self.sessions.iter().filter(|(_, checker)| checker.holder.is_none());
        let next = free.filter_map(|(&id, checker)| Some((checker.first_ready()?, id))).min();
        let accepted = sessions::try_accept_next(&self.queue);
        assert_eq!(accepted.as_ref().map(SessionReceiver::session_id), next.map(|(_, id)| id));
        if let Some((receiver, (_, id))) = accepted.zip(next) {
            self.hold(id, receiver);
        }
    }

    fn hold(&mut self, id: &'static str, receiver: SessionReceiver) {
        self.last_accept += 1;
        let (accept, until) = (self.last_accept, self.now + self.lock);
        let checker = self.checker(id);
        assert_eq!(checker.holder, None, "{id:?} has two holders");
        checker.holder = Some((accept, until));
        assert_eq!(receiver.state().unwrap(), checker.state);
        self.holders.push(Holder { id, accept, receiver });
    }

    /// Any that has or had a session.
    fn holder(&mut self) -> Option<usize> {
        (!self.holders.is_empty()).then(|| self.rng.usize(0..self.holders.len()))
    }

    fn receive(&mut self) {
        let Some(at) = self.holder() else { return };
        let max = self.rng.usize(1..4);
        let Holder { id, accept, receiver } = &mut self.holders[at];
        let (id, accept) = (*id, *accept);
        let received = sessions::try_receive(receiver, max);
        let checker = self.sessions.get_mut(id).unwrap();
        if !checker.is_held_by(accept) {
            assert_eq!(received.unwrap_err(), ErrorKind::SessionLockLost);
            return;
        }
        let received = received.unwrap();
        let ready = checker.messages.values().filter(|(place, _)| *place == Place::Ready).count();
        assert_eq!(received.len(), ready.min(max));
        for delivery in received {
            let number = facts(&delivery.message).sequence_number.get();
            if checker.first_ready() != Some(number) {
                self.inversions += 1;
            }
            assert_eq!(delivery.message.session_id(), Some(id));
            let (place, failures) = checker.messages.get_mut(&number).expect("it is of this session, and not dead");
            assert_eq!((*place, facts(&delivery.message).delivery_count), (Place::Ready, *failures + 1));
            *place = Place::Held;
            self.held.push(Held { id, accept, number, delivery });
        }
    }

    fn settle(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let Held { id, accept, number, delivery } = self.held.swap_remove(self.rng.usize(0..self.held.len()));
        let what = self.rng.u32(0..10);
        let settled = match what {
            0..4 => delivery.complete().ended(),
            4..6 => delivery.abandon().ended(),
            6 => delivery.lease.release().ended(),
            7 => delivery.settle(Disposition::DEFER).ended(),
            8 => delivery.settle(Disposition::dead_letter(DeadLetterReason::HandlerPermanent, "no")).ended(),
            _ => {
                drop(delivery);
                Ok(())
            }
        };
        let max_deliveries = self.max_deliveries;
        let checker = self.checker(id);
        if !checker.is_held_by(accept) {
            assert!(what > 8 || settled.unwrap_err().kind() == ErrorKind::SessionLockLost);
            return;
        }
        settled.unwrap();
        let died = match what {
            0..4 => {
                checker.messages.remove(&number);
                false
            }
            6 => checker.put_back(number, false, max_deliveries),
            7 => {
                checker.messages.get_mut(&number).unwrap().0 = Place::Deferred;
                false
            }
            8 => checker.messages.remove(&number).is_some(),
            _ => checker.put_back(number, true, max_deliveries),
        };
        self.dead += usize::from(died);
    }

    fn receive_deferred(&mut self) {
        let Some(at) = self.holder() else { return };
        let (id, accept) = (self.holders[at].id, self.holders[at].accept);
        let deferred = |(&number, &(place, _)): (&u64, &(Place, u32))| (place == Place::Deferred).then_some(number);
        let numbers: Vec<u64> = self.sessions[id].messages.iter().filter_map(deferred).collect();
        let number = self.rng.choice(numbers).unwrap_or(self.last_number);
        let is_deferred = self.sessions[id].messages.get(&number).is_some_and(|(place, _)| *place == Place::Deferred);
        let received = self.holders[at].receiver.receive_deferred(&[SequenceNumber::new(number)]);
        match received {
            Ok(mut received) => {
                let checker = self.sessions.get_mut(id).unwrap();
                assert!(checker.is_held_by(accept) && is_deferred, "{number}");
                let (place, failures) = checker.messages.get_mut(&number).unwrap();
                let delivery = received.remove(0);
                assert_eq!(facts(&delivery.message).delivery_count, *failures + 1);
                *place = Place::DeferredHeld;
                self.held.push(Held { id, accept, number, delivery });
            }
            Err(error) if self.sessions[id].is_held_by(accept) => {
                assert!(!is_deferred);
                assert_eq!(error.kind(), ErrorKind::MessageNotFound);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionLockLost),
        }
    }

    /// A state that was confirmed is the state from then on, for whoever holds the session.
    fn state(&mut self) {
        let Some(at) = self.holder() else { return };
        let (id, accept) = (self.holders[at].id, self.holders[at].accept);
        let new = self.rng.bool().then(|| Bytes::from(self.rng.u64(..).to_string()));
        let set = self.holders[at].receiver.set_state(new.clone()).wait();
        let seen = self.holders[at].receiver.state();
        let checker = self.checker(id);
        if checker.is_held_by(accept) {
            set.unwrap();
            checker.state.clone_from(&new);
            assert_eq!(seen.unwrap(), new);
        } else {
            assert_eq!(set.unwrap_err().kind(), ErrorKind::SessionLockLost);
            assert_eq!(seen.unwrap_err().kind(), ErrorKind::SessionLockLost);
        }
    }

    fn renew(&mut self) {
        let Some(at) = self.holder() else { return };
        let (id, accept, until) = (self.holders[at].id, self.holders[at].accept, self.now + self.lock);
        let renewed = self.holders[at].receiver.renew();
        let checker = self.checker(id);
        if checker.is_held_by(accept) {
            checker.holder = Some((accept, until));
            assert_eq!(renewed.unwrap(), START.saturating_add(Duration::from_millis(until)));
        } else {
            assert_eq!(renewed.unwrap_err().kind(), ErrorKind::SessionLockLost);
        }
    }

    fn let_go(&mut self) {
        let Some(at) = self.holder() else { return };
        let Holder { id, accept, receiver } = self.holders.swap_remove(at);
        let is_holder = self.sessions[id].is_held_by(accept);
        if self.rng.bool() {
            assert_eq!(receiver.close().is_ok(), is_holder);
        } else {
            drop(receiver);
        }
        if is_holder {
            let max_deliveries = self.max_deliveries;
            self.dead += self.checker(id).end(false, max_deliveries);
        }
    }

    /// Small steps, and steps to just before and to the end of a lock.
    fn pass_time(&mut self) {
        let ends = self.sessions.values().filter_map(|checker| checker.holder);
        let next = ends.map(|(_, until)| until - self.now).min().unwrap_or(self.lock);
        let by = match self.rng.u32(0..4) {
            0 => next.saturating_sub(1),
            1 => next,
            2 => self.rng.u64(0..self.lock / 2),
            _ => self.rng.u64(0..50),
        };
        self.advance(by);
    }

    fn advance(&mut self, by: u64) {
        self.clock.advance(Duration::from_millis(by));
        self.now += by;
        let (now, max_deliveries) = (self.now, self.max_deliveries);
        for checker in self.sessions.values_mut() {
            if checker.holder.is_some_and(|(_, until)| until <= now) {
                self.dead += checker.end(true, max_deliveries);
            }
        }
    }

    fn compare(&self) {
        let count = |wanted: &[Place]| {
            let all = self.sessions.values().flat_map(|checker| checker.messages.values());
            all.filter(|(place, _)| wanted.contains(place)).count()
        };
        let counts = self.queue.counts();
        assert_eq!(
            [counts.active, counts.locked, counts.deferred, counts.dead_lettered],
            [count(&[Place::Ready]), count(&[Place::Held, Place::DeferredHeld]), count(&[Place::Deferred]), self.dead]
        );
        let there = self.sessions.iter().filter(|(_, it)| !it.messages.is_empty() || it.state.is_some());
        assert!(there.map(|(&id, _)| id).eq(self.queue.sessions()));
    }

    /// Takes everything there is, one session after the other.
    fn drain(&mut self) {
        while !self.holders.is_empty() {
            self.let_go();
        }
        self.held.clear();
        self.compare();
        for id in IDS {
            let mut receiver = self.queue.accept_session(id).unwrap();
            let received = sessions::try_receive(&mut receiver, usize::MAX).unwrap();
            let numbers = received.iter().map(|delivery| facts(&delivery.message).sequence_number.get());
            let expected = self.sessions[id].messages.iter().filter(|(_, (place, _))| *place == Place::Ready);
            assert!(numbers.eq(expected.map(|(&number, _)| number)));
        }
    }
}
