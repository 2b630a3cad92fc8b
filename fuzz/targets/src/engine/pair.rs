//! Two engines: the fuzzer chooses the commands, the splitting of the bytes, and where the connection is lost.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    engine::{Connection, Delivery, DeliveryId, Event, LinkId, Options, OutboundDelivery, Reason, SessionId},
    types::{Accepted, Attach, AttachTarget, Begin, Error, Open, Role, Source as AmqpSource, Target, condition},
    value::Str,
};

use super::peer;
use crate::source::Source;

/// The rounds in which everything that was begun comes to its end.
const ROUNDS: usize = 4_000;

/// A link, by the commands of both applications.
#[derive(Default)]
struct Model {
    /// Messages that were sent and not delivered.
    in_flight: VecDeque<Vec<u8>>,
    /// Deliveries that the sender has not settled.
    open: BTreeSet<DeliveryId>,
    detached: bool,
}

/// One end of a link, as its application has it.
struct Link {
    id: LinkId,
    name: Str,
    role: Role,
    answered: bool,
    credit: u32,
    /// Received, and not settled.
    held: Vec<DeliveryId>,
    /// With an outcome that the sender has not confirmed.
    reported: BTreeSet<DeliveryId>,
    draining: bool,
}

struct End {
    engine: Connection,
    input: BytesMut,
    /// Written, and not read by the other end.
    wire: BytesMut,
    opened: bool,
    sessions: Vec<SessionId>,
    begun: BTreeSet<SessionId>,
    links: Vec<Link>,
    closed: Option<Reason>,
}

struct Pair<'d> {
    source: Source<'d>,
    ends: [End; 2],
    models: BTreeMap<Vec<u8>, Model>,
    messages: u32,
}

pub(super) fn run(mut source: Source<'_>) {
    let unsettled = 1 + source.below(32);
    let client = End::new(Connection::client(options(&mut source, unsettled), Duration::ZERO));
    let server = End::new(Connection::server(options(&mut source, unsettled), Duration::ZERO));
    let mut pair = Pair { source, ends: [client, server], models: BTreeMap::new(), messages: 0 };
    while !pair.source.is_empty() {
        match pair.source.byte() {
            0..160 => pair.command(),
            160 => return pair.cut(),
            most => {
                let most = usize::from(most - 160).pow(2);
                pair.carry(most);
            }
        }
    }
    pair.settle_down();
    pair.check();
}

/// A sender does not exceed the receiver's limit of unsettled deliveries if both ends have the same.
fn options(source: &mut Source<'_>, max_unsettled: usize) -> Options {
    Options::default()
        .max_frame_size(512 + u32::from(source.byte()) * 8)
        .incoming_window(1 + u32::from(source.byte() & 15))
        .max_unsettled(max_unsettled)
        .event_limit(1 + source.below(20))
        .output_limit(1 + source.below(256) * 80)
        .max_sessions(1 + u16::from(source.byte() & 3))
        .max_links(1 + u32::from(source.byte() & 3))
}

impl End {
    fn new(mut engine: Connection) -> Self {
        engine.open(Open::default()).expect("the first open");
        Self {
            engine,
            input: BytesMut::new(),
            wire: BytesMut::new(),
            opened: false,
            sessions: vec![],
            begun: BTreeSet::new(),
            links: vec![],
            closed: None,
        }
    }

    fn link(&mut self, id: LinkId) -> &mut Link {
        self.links.iter_mut().find(|link| link.id == id).expect("a link of this end")
    }

    fn is_quiet(&self) -> bool {
        !self.engine.has_output() && self.wire.is_empty() && self.input.is_empty()
    }
}

impl Pair<'_> {
    /// Moves at most so many bytes each way.
    fn carry(&mut self, most: usize) {
        for index in [0, 1] {
            let end = &mut self.ends[index];
            let mut output = end.engine.output();
            let count = output.remaining().min(most);
            let bytes = output.copy_to_bytes(count);
            end.wire.extend_from_slice(&bytes);
            let arrived = end.wire.split_to(end.wire.len().min(most));
            let other = &mut self.ends[1 - index];
            other.input.extend_from_slice(&arrived);
            let _ = other.engine.receive(Duration::ZERO, &mut other.input);
            self.poll(1 - index);
        }
    }

    fn poll(&mut self, index: usize) {
        while let Some(event) = self.ends[index].engine.poll_event() {
            self.event(index, event);
        }
    }

    fn event(&mut self, index: usize, event: Event) {
        let end = &mut self.ends[index];
        assert!(end.closed.is_none(), "{event:?} after the last event");
        match event {
            Event::Opened(_) => end.opened = true,
            Event::Begun { session, by_peer, .. } => {
                end.begun.insert(session);
                if by_peer {
                    end.sessions.push(session);
                }
            }
            Event::AttachRequested { link, attach } => {
                let model = self.models.get_mut(attach.name.as_bytes()).expect("a name of the other end");
                let role = if attach.role == Role::Sender { Role::Receiver } else { Role::Sender };
                // It may be detached by what follows in the queue, so that the answer fails.
                let answered = if self.source.below(10) == 1 {
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
                    let link = end.link(link);
                    let model = self.models.get_mut(link.name.as_bytes()).expect("a link of both ends");
                    if role == Role::Sender {
                        assert!(settled && link.reported.remove(&id), "an outcome is confirmed once");
                    } else {
                        assert!(state.is_some() && model.open.remove(&id), "a delivery is settled once");
                        let link = link.id;
                        let confirmed = settled || end.engine.settle(link, [id], state.as_ref(), true) == Ok(1);
                        assert!(model.detached || confirmed, "a delivery is confirmed once");
                        let again = end.engine.settle(link, [id], state.as_ref(), true);
                        assert!(!matches!(again, Ok(1..)), "a delivery is settled once");
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
        let link = self.ends[index].link(delivery.link);
        let model = self.models.get_mut(link.name.as_bytes()).expect("a link of both ends");
        let expected = model.in_flight.pop_front().expect("a delivery was sent");
        assert_eq!(delivery.payload.clone().into_bytes(), expected, "deliveries of a link keep their order");
        assert_eq!(delivery.tag.as_ref(), &expected[..4]);
        link.credit = link.credit.saturating_sub(1);
        if !delivery.settled {
            link.held.push(delivery.id);
        }
    }

    /// One command of an application.
    fn command(&mut self) {
        let index = self.source.below(2);
        let end = &mut self.ends[index];
        if end.closed.is_some() || !end.engine.is_open() {
            return;
        }
        let kind = self.source.byte();
        if end.sessions.is_empty() || kind < 4 {
            // Only one is begun before the limit of the peer is known.
            if end.opened || end.sessions.is_empty() {
                let next_outgoing_id = self.source.number();
                end.sessions.extend(end.engine.begin(Begin { next_outgoing_id, ..Begin::default() }));
            }
        } else if end.links.is_empty() || kind < 12 {
            self.attach(index);
        } else if kind < 14 {
            let session = self.source.pick(&end.sessions).expect("a session");
            if self.source.flag() && end.engine.end(session, None).is_ok() {
                for link in end.links.iter().filter(|link| link.id.session() == session) {
                    self.models.entry(link.name.as_bytes().to_vec()).or_default().detached = true;
                }
            }
        } else {
            let chosen = self.source.below(end.links.len());
            let link = &mut end.links[chosen];
            let model = self.models.get_mut(link.name.as_bytes()).expect("a link of both ends");
            if kind < 18 {
                model.detached |= end.engine.detach(link.id, self.source.flag(), None).is_ok();
            } else if link.role == Role::Receiver {
                receive(&mut self.source, &mut end.engine, link);
            } else {
                self.messages += 1;
                send(&mut self.source, &mut end.engine, link, model, self.messages);
            }
        }
    }

    fn attach(&mut self, index: usize) {
        let end = &mut self.ends[index];
        let session = self.source.pick(&end.sessions).expect("a session");
        // Only one link is attached before the limit of the peer is known.
        if !end.begun.contains(&session) && end.links.iter().any(|link| link.id.session() == session) {
            return;
        }
        let role = peer::role(&mut self.source);
        let name = Str::from(format!("{index}-{}", self.models.len()));
        let attach = Attach {
            name: name.clone(),
            role,
            source: Some(Box::new(AmqpSource::default())),
            target: Some(AttachTarget::from(Target::default())),
            initial_delivery_count: Some(self.source.number()),
            ..Attach::default()
        };
        if let Ok(id) = end.engine.attach(session, attach) {
            self.models.insert(name.as_bytes().to_vec(), Model::default());
            end.links.push(Link::new(id, name, role, false));
        }
    }

    /// The connection is lost.
    fn cut(mut self) {
        for end in &mut self.ends {
            let _ = end.engine.receive(Duration::ZERO, &mut end.input);
            end.engine.disconnected();
        }
        // Commands for what is still in the queues of events fail.
        self.models.values_mut().for_each(|model| model.detached = true);
        for index in [0, 1] {
            self.poll(index);
            assert_eq!(self.ends[index].closed, Some(Reason::Disconnected));
            assert_eq!(self.ends[index].engine.deadline(), None);
        }
    }

    /// Lets everything that was begun come to its end.
    fn settle_down(&mut self) {
        for _ in 0..ROUNDS {
            self.carry(usize::MAX);
            for end in &mut self.ends {
                for link in &mut end.links {
                    let detached = self.models[link.name.as_bytes()].detached;
                    if link.role == Role::Receiver {
                        let held: Vec<_> = link.held.drain(..).collect();
                        let count = held.len();
                        let done = end.engine.settle(link.id, held, Some(&Accepted {}.into()), true);
                        assert!(detached || done == Ok(count), "{done:?}");
                    } else if std::mem::take(&mut link.draining) {
                        let _ = end.engine.drained(link.id);
                    }
                }
            }
            if self.ends.iter().all(End::is_quiet) {
                return;
            }
        }
        panic!("the engines do not come to rest");
    }

    /// Nothing was lost, and nothing is stuck.
    fn check(&self) {
        for end in &self.ends {
            assert_eq!(end.closed, None);
            for link in &end.links {
                let model = &self.models[link.name.as_bytes()];
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
        Self { id, name, role, answered, credit: 0, held: vec![], reported: BTreeSet::new(), draining: false }
    }
}

fn receive(source: &mut Source<'_>, engine: &mut Connection, link: &mut Link) {
    match source.below(10) {
        0..4 if link.credit < 5 && !link.draining => {
            let credit = u32::from(source.byte() & 15);
            if engine.credit(link.id, credit).is_ok() {
                link.credit = credit;
            }
        }
        4 if !link.draining => link.draining = engine.drain(link.id).is_ok(),
        _ if !link.held.is_empty() => {
            let first = source.below(link.held.len());
            link.held.rotate_left(first);
            let count = 1 + source.below(link.held.len());
            let some: Vec<_> = link.held.drain(..count).collect();
            let settled = source.flag();
            let state = peer::state(source).unwrap_or(Accepted {}.into());
            if engine.settle(link.id, some.iter().copied(), Some(&state), settled).is_ok() && !settled {
                link.reported.extend(some);
            }
        }
        _ => {}
    }
}

fn send(source: &mut Source<'_>, engine: &mut Connection, link: &mut Link, model: &mut Model, number: u32) {
    if link.draining && source.flag() {
        link.draining = false;
        let _ = engine.drained(link.id);
        return;
    }
    // The rest of a delivery may wait for the window, and the output may be full.
    if engine.sendable(link.id) == 0 {
        return;
    }
    let mut message = number.to_be_bytes().to_vec();
    message.resize(4 + source.below(256) * 12, source.byte());
    let settled = source.flag();
    let delivery = OutboundDelivery { tag: message[..4].to_vec().into(), settled, ..OutboundDelivery::default() };
    let cut = source.below(message.len());
    let chunks = [Bytes::copy_from_slice(&message[..cut]), Bytes::copy_from_slice(&message[cut..])];
    let id = engine.send(link.id, delivery, &chunks).expect("it is sendable");
    model.in_flight.push_back(message);
    if !settled {
        model.open.insert(id);
    }
}
