//! Two engines, random commands, any splitting of the bytes, and a connection that is lost at any byte.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    env,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    engine::{Connection, Delivery, DeliveryId, Event, LinkId, Options, OutboundDelivery, Reason, SessionId},
    types::{Accepted, Attach, Begin, DeliveryState, Error, Open, Released, Role, condition},
    value::Str,
};
use fastrand::Rng;

use crate::peer::attach;

/// What is true of a link by the commands of both applications.
#[derive(Default)]
struct Model {
    /// Messages that were sent and not delivered.
    in_flight: VecDeque<Vec<u8>>,
    /// Deliveries that the sender has not settled.
    open: HashSet<DeliveryId>,
    detached: bool,
}

/// One end of a link, as its application has it.
struct Link {
    id: LinkId,
    name: Str,
    role: Role,
    answered: bool,
    credit: u32,
    /// Received and not settled, and with an outcome that the sender has not confirmed.
    held: Vec<DeliveryId>,
    reported: HashSet<DeliveryId>,
    draining: bool,
}

struct End {
    engine: Connection,
    input: BytesMut,
    /// Written, and not read by the other end.
    wire: VecDeque<u8>,
    opened: bool,
    sessions: Vec<SessionId>,
    begun: HashSet<SessionId>,
    links: Vec<Link>,
    closed: Option<Reason>,
}

struct World {
    rng: Rng,
    ends: [End; 2],
    models: HashMap<Str, Model>,
    names: u32,
    delivered: u64,
    settled: u64,
}

/// A sender does not exceed the receiver's limit of unsettled deliveries if both ends have the same.
fn options(rng: &mut Rng, max_unsettled: usize) -> Options {
    Options::default()
        .max_frame_size(rng.u32(512..3_000))
        .incoming_window(rng.u32(1..12))
        .max_unsettled(max_unsettled)
        .event_limit(rng.usize(1..20))
        .output_limit(rng.usize(1..20_000))
        .max_sessions(rng.u16(1..4))
        .max_links(rng.u32(1..5))
}

impl End {
    fn new(mut engine: Connection) -> Self {
        engine.open(Open::default()).unwrap();
        Self {
            engine,
            input: BytesMut::new(),
            wire: VecDeque::new(),
            opened: false,
            sessions: vec![],
            begun: HashSet::new(),
            links: vec![],
            closed: None,
        }
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        self.links.iter_mut().find(|link| link.id == id).expect("a link of this end")
    }

    fn write(&mut self, most: usize) {
        let mut output = self.engine.output();
        let count = output.remaining().min(most);
        let bytes = output.copy_to_bytes(count);
        self.wire.extend(bytes);
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let unsettled = rng.usize(1..40);
        let client = End::new(Connection::client(options(&mut rng, unsettled), Duration::ZERO));
        let server = End::new(Connection::server(options(&mut rng, unsettled), Duration::ZERO));
        Self { rng, ends: [client, server], models: HashMap::new(), names: 0, delivered: 0, settled: 0 }
    }

    /// Moves at most so many bytes each way.
    fn carry(&mut self, most: usize) {
        for index in [0, 1] {
            self.ends[index].write(most);
            let count = self.ends[index].wire.len().min(most);
            let bytes: Vec<u8> = self.ends[index].wire.drain(..count).collect();
            let other = 1 - index;
            self.ends[other].input.extend_from_slice(&bytes);
            let end = &mut self.ends[other];
            let _ = end.engine.receive(Duration::ZERO, &mut end.input);
            while let Some(event) = self.ends[other].engine.poll_event() {
                self.event(other, event);
            }
        }
    }

    fn event(&mut self, index: usize, event: Event) {
        let end = &mut self.ends[index];
        assert!(end.closed.is_none(), "{event:?} behind the last event");
        match event {
            Event::Opened(_) => end.opened = true,
            Event::Begun { session, by_peer, .. } => {
                end.begun.insert(session);
                if by_peer {
                    end.sessions.push(session);
                }
            }
            Event::AttachRequested { link, attach } => {
                let model = self.models.get_mut(&attach.name).expect("a name of ours");
                let role = if attach.role == Role::Sender { Role::Receiver } else { Role::Sender };
                // It may be detached by what follows in the queue, so that the answer fails.
                let answered = if self.rng.u8(0..10) == 0 {
                    model.detached = true;
                    end.engine.refuse(link, Error::new(condition::NOT_FOUND, "refused"))
                } else {
                    let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                    end.engine.accept(link, answer)
                };
                assert!(model.detached || answered.is_ok(), "{answered:?}");
                end.links.push(Link::new(link, attach.name, role, true));
            }
            Event::Attached { link, .. } => end.link(link).answered = true,
            Event::CreditChanged { link, drain: true, .. } => end.link(link).draining = true,
            Event::CreditDrained { link } => end.link(link).draining = false,
            Event::Delivery(delivery) => self.delivery(index, &delivery),
            Event::Disposition { role, deliveries, state, settled, .. } => {
                for (link, id) in deliveries.iter() {
                    let name = end.link(link).name.clone();
                    let model = self.models.get_mut(&name).unwrap();
                    if role == Role::Sender {
                        assert!(settled && end.link(link).reported.remove(&id), "an outcome is confirmed once");
                    } else {
                        assert!(state.is_some() && model.open.contains(&id), "a delivery is settled once");
                        let confirmed = settled || end.engine.settle(link, [id], state.as_ref(), true) == Ok(1);
                        assert!(model.detached || confirmed, "a delivery is confirmed once");
                        model.open.remove(&id);
                        self.settled += 1;
                    }
                }
            }
            Event::Detached { link, .. } => end.links.retain(|other| other.id != link),
            Event::Ended { session, .. } => {
                end.sessions.retain(|other| *other != session);
                end.links.retain(|link| link.id.session() != session);
            }
            Event::Closed { reason } => end.closed = Some(reason),
            _ => {}
        }
    }

    fn delivery(&mut self, index: usize, delivery: &Delivery) {
        self.delivered += 1;
        let link = self.ends[index].link(delivery.link);
        let model = self.models.get_mut(&link.name).unwrap();
        let expected = model.in_flight.pop_front().expect("a delivery is sent before");
        assert_eq!(delivery.payload.clone().into_bytes(), expected, "deliveries of a link come in order");
        assert_eq!(delivery.tag.as_ref(), &expected[..4]);
        link.credit = link.credit.saturating_sub(1);
        if !delivery.settled {
            link.held.push(delivery.id);
        }
    }

    /// One command of an application.
    fn command(&mut self) {
        let index = self.rng.usize(0..2);
        let end = &mut self.ends[index];
        if end.closed.is_some() || !end.engine.is_open() {
            return;
        }
        let kind = self.rng.u8(0..100);
        if end.sessions.is_empty() || kind < 2 {
            // Only one is begun before the limit of the peer is known.
            if !end.opened && !end.sessions.is_empty() {
                return;
            }
            end.sessions.extend(end.engine.begin(Begin { next_outgoing_id: self.rng.u32(..), ..Begin::default() }));
            return;
        }
        if end.links.is_empty() || kind < 5 {
            let session = end.sessions[self.rng.usize(..end.sessions.len())];
            let known = end.begun.contains(&session);
            if !known && end.links.iter().any(|link| link.id.session() == session) {
                return;
            }
            self.names += 1;
            let role = if self.rng.bool() { Role::Sender } else { Role::Receiver };
            let name = Str::from(format!("{index}-{}", self.names));
            let initial_delivery_count = Some(u32::MAX.wrapping_add(self.rng.u32(0..20)));
            let attach = Attach { name: name.clone(), initial_delivery_count, ..attach(0, role) };
            if let Ok(id) = end.engine.attach(session, attach) {
                end.links.push(Link::new(id, name.clone(), role, false));
                self.models.insert(name, Model::default());
            }
            return;
        }
        let chosen = self.rng.usize(..end.links.len());
        let link = &mut end.links[chosen];
        let model = self.models.get_mut(&link.name).unwrap();
        if kind == 5 {
            if end.engine.detach(link.id, self.rng.bool(), None).is_ok() {
                model.detached = true;
            }
        } else if kind == 6 && self.rng.u8(0..4) == 0 {
            let session = end.sessions[self.rng.usize(..end.sessions.len())];
            if end.engine.end(session, None).is_ok() {
                for link in &end.links {
                    if link.id.session() == session {
                        self.models.get_mut(&link.name).unwrap().detached = true;
                    }
                }
            }
        } else if link.role == Role::Receiver {
            receive(&mut self.rng, &mut end.engine, link);
        } else {
            send(&mut self.rng, &mut end.engine, link, model);
        }
    }

    /// Lets everything that was begun come to its end.
    fn settle_down(&mut self) {
        for _ in 0..2_000 {
            self.carry(usize::MAX);
            let mut quiet = true;
            for end in &mut self.ends {
                for link in &mut end.links {
                    let detached = self.models[&link.name].detached;
                    if link.role == Role::Receiver {
                        let held: Vec<_> = link.held.drain(..).collect();
                        let done = end.engine.settle(link.id, held.clone(), Some(&Accepted {}.into()), true);
                        assert!(detached || done == Ok(held.len()), "{done:?}");
                    } else if link.draining {
                        link.draining = false;
                        let _ = end.engine.drained(link.id);
                    }
                }
                quiet &= !end.engine.has_output() && end.wire.is_empty() && end.input.is_empty();
            }
            if quiet {
                return;
            }
        }
        panic!("the engines do not come to rest");
    }

    /// Nothing was lost, and nothing is stuck.
    fn check(&self) {
        for end in &self.ends {
            assert_eq!(end.closed, None);
            assert!(end.input.is_empty());
            for link in &end.links {
                let model = &self.models[&link.name];
                if model.detached {
                    continue;
                }
                assert!(link.answered, "an attach is answered");
                assert!(link.held.is_empty() && link.reported.is_empty(), "outcomes are confirmed");
                assert_eq!(model.in_flight.len(), 0, "what was sent is delivered");
                assert_eq!(model.open.len(), 0, "what was delivered is settled");
                assert!(!link.draining, "a drain has an end");
            }
        }
    }
}

impl Link {
    fn new(id: LinkId, name: Str, role: Role, answered: bool) -> Self {
        Self { id, name, role, answered, credit: 0, held: vec![], reported: HashSet::new(), draining: false }
    }
}

fn receive(rng: &mut Rng, engine: &mut Connection, link: &mut Link) {
    match rng.u8(0..10) {
        0..4 if link.credit < 5 && !link.draining => {
            let credit = rng.u32(1..10);
            if engine.credit(link.id, credit).is_ok() {
                link.credit = credit;
            }
        }
        4 if !link.draining => link.draining = engine.drain(link.id).is_ok(),
        _ if !link.held.is_empty() => {
            let count = rng.usize(1..=link.held.len());
            if rng.bool() {
                rng.shuffle(&mut link.held);
            }
            let some: Vec<_> = link.held.drain(..count).collect();
            let settled = rng.bool();
            let state: DeliveryState = if rng.bool() { Accepted {}.into() } else { Released {}.into() };
            if engine.settle(link.id, some.iter().copied(), Some(&state), settled).is_ok() && !settled {
                link.reported.extend(some);
            }
        }
        _ => {}
    }
}

fn send(rng: &mut Rng, engine: &mut Connection, link: &mut Link, model: &mut Model) {
    if link.draining && rng.bool() {
        link.draining = false;
        let _ = engine.drained(link.id);
        return;
    }
    let count = engine.sendable(link.id).min(rng.u32(0..4));
    for _ in 0..count {
        let mut message: Vec<u8> = rng.u32(..).to_be_bytes().to_vec();
        if rng.bool() {
            message.resize(rng.usize(4..9_000), rng.u8(..));
        }
        let settled = rng.bool();
        let delivery = OutboundDelivery { tag: message[..4].to_vec().into(), settled, ..OutboundDelivery::default() };
        let cut = rng.usize(..=message.len());
        let chunks = [Bytes::copy_from_slice(&message[..cut]), Bytes::copy_from_slice(&message[cut..])];
        // The rest of a delivery may wait for the window, and the output may be full.
        if engine.sendable(link.id) == 0 {
            return;
        }
        let id = engine.send(link.id, delivery, &chunks).expect("it is sendable");
        model.in_flight.push_back(message);
        if !settled {
            model.open.insert(id);
        }
    }
}

/// A script, and whether the connection is lost in it. Returns the deliveries and the settlements of their senders.
fn run(seed: u64) -> (u64, u64) {
    let mut world = World::new(seed);
    let steps = world.rng.usize(20..300);
    let lost = (world.rng.u8(0..4) == 0).then(|| world.rng.usize(..steps));
    let most = [1, 7, 100, 5_000][world.rng.usize(..4)];
    for step in 0..steps {
        world.command();
        let count = world.rng.usize(..=most);
        world.carry(count);
        if lost == Some(step) {
            for end in &mut world.ends {
                let _ = end.engine.receive(Duration::ZERO, &mut end.input);
                end.engine.disconnected();
            }
            // Commands for what is still in the queues of events fail.
            world.models.values_mut().for_each(|model| model.detached = true);
            for index in [0, 1] {
                while let Some(event) = world.ends[index].engine.poll_event() {
                    world.event(index, event);
                }
                assert_eq!(world.ends[index].closed, Some(Reason::Disconnected));
                assert_eq!(world.ends[index].engine.deadline(), None);
            }
            return (world.delivered, world.settled);
        }
    }
    world.settle_down();
    world.check();
    (world.delivered, world.settled)
}

/// Rules.
#[test]
fn two_engines_lose_nothing_and_settle_nothing_twice() {
    let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seed, cases): (u64, u64) = (number("SEED", 7), number("CONSIGN_CASES", 2_000));
    let (mut delivered, mut settled) = (0, 0);
    for seed in seed..seed + cases {
        let outcome = std::panic::catch_unwind(|| run(seed));
        let (deliveries, settlements) = outcome.unwrap_or_else(|panic| {
            let test = "two_engines_lose_nothing_and_settle_nothing_twice";
            eprintln!("repeat: SEED={seed} CONSIGN_CASES=1 cargo test -p consign-amqp --test engine {test}");
            std::panic::resume_unwind(panic)
        });
        delivered += deliveries;
        settled += settlements;
    }
    println!("{cases} scripts, {delivered} deliveries, {settled} settlements");
    assert!(cases < 100 || delivered > cases && settled > cases / 2, "{delivered} {settled}");
}
