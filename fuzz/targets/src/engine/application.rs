//! One engine, a peer of the fuzzer's frames, and an application of the fuzzer's commands.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    engine::{Connection, Event, LinkId, Options, OutboundDelivery, Received, SaslCredentials, SessionId},
    frame::ProtocolHeader,
    types::{Attach, Begin, Error, Open, condition},
    value::Symbol,
};

use super::{
    ledger::Ledger,
    peer::{self, KINDS},
    reader::Reader,
};
use crate::source::Source;

const MAX_UNSETTLED: usize = 8;
const MAX_FRAME: usize = 2_048;
/// What a command writes at most, without the payload that it sends.
const COMMAND_SIZE: usize = 2 * MAX_FRAME;
/// The events of one frame, at most.
const EVENTS_OF_FRAME: usize = 4;

struct Script<'d> {
    source: Source<'d>,
    engine: Connection,
    now: Duration,
    /// What the peer has written, and what has arrived.
    wire: Vec<u8>,
    input: BytesMut,
    sessions: Vec<SessionId>,
    links: Vec<LinkId>,
    ledger: Ledger,
    reader: Reader,
    /// Whether events are polled as soon as there are some. Only then the ledger is exact.
    prompt: bool,
    /// Whether the application answers the peer's frames.
    answers: bool,
    event_limit: usize,
    output_limit: usize,
    /// Commands since the output was written to its end.
    commands: usize,
    /// The bytes of payload that were sent. Some may wait for the window of a session.
    payload: usize,
    /// Commands since the events were polled to the last.
    commands_with_events: usize,
}

pub(super) fn run(mode: u8, mut source: Source<'_>) {
    let (event_limit, output_limit) = (1 + source.below(16), 1 + source.below(256) * 64);
    let mut options = Options::default()
        .max_frame_size(512 + u32::from(source.byte()) * 6)
        .max_sessions(3)
        .max_links(3)
        .max_unsettled(MAX_UNSETTLED)
        .max_message_size(10_000)
        .incoming_window(1 + u32::from(source.byte() & 31))
        .credit_overrun(4)
        .event_limit(event_limit)
        .output_limit(output_limit)
        .idle_timeout(Duration::from_secs(10));
    let (is_client, has_sasl, prompt, begun) = (mode & 1 != 0, mode & 2 != 0, mode & 4 == 0, mode & 8 != 0);
    if has_sasl {
        let mechanisms = [Symbol::from_static("PLAIN"), Symbol::from_static("ANONYMOUS")];
        options = options.sasl_client(SaslCredentials::anonymous()).sasl_mechanisms(mechanisms);
        options = options.sasl_optional(mode & 16 != 0);
    }
    let start = if is_client { Connection::client } else { Connection::server };
    let mut script = Script {
        source,
        engine: start(options, Duration::ZERO),
        now: Duration::ZERO,
        wire: Vec::new(),
        input: BytesMut::new(),
        sessions: Vec::new(),
        links: Vec::new(),
        ledger: Ledger::default(),
        reader: Reader::default(),
        prompt,
        answers: mode & 32 != 0,
        event_limit,
        output_limit,
        commands: 2,
        payload: 0,
        commands_with_events: 0,
    };
    if begun {
        script.begin();
    }
    while !script.source.is_empty() {
        script.step();
    }
    script.end();
}

impl Script<'_> {
    /// Goes on from an open connection with a session of each end.
    fn begin(&mut self) {
        self.wire.extend_from_slice(&ProtocolHeader::Amqp.to_bytes());
        let _ = self.engine.open(Open::default());
        for performative in [
            Open { container_id: "peer".into(), ..Open::default() }.into(),
            Begin { incoming_window: 20, outgoing_window: 20, ..Begin::default() }.into(),
        ] {
            consign_amqp::frame::Frame::encode(0, &performative, b"", &mut self.wire).expect("a small frame");
        }
        self.deliver(usize::MAX);
        self.sessions.extend(self.engine.begin(Begin::default()));
    }

    fn step(&mut self) {
        match self.source.below(48) {
            kind @ 0..KINDS => {
                peer::input(kind, &mut self.source, &mut self.wire);
                // Mostly at once, sometimes in pieces.
                if self.source.byte() < 192 {
                    self.deliver(usize::MAX);
                }
            }
            16..19 => {
                let count = 1 + self.source.below(64);
                self.deliver(count);
            }
            19 => {
                self.now += Duration::from_millis(u64::from(self.source.number() % 30_000));
                self.engine.handle_deadline(self.now);
                self.engine.deadline().inspect(|deadline| assert!(*deadline > self.now, "a deadline is handled"));
            }
            20 => {
                let count = 1 + self.source.below(300);
                self.write(count);
            }
            21 => self.write_all(),
            22 => self.poll(1),
            23 => self.poll(usize::MAX),
            command => {
                self.commands += 1;
                self.commands_with_events += 1;
                self.command(command);
            }
        }
        if self.prompt {
            self.poll(usize::MAX);
        }
        self.check();
    }

    /// Moves bytes from the wire to the engine, and calls it until it takes no more.
    fn deliver(&mut self, count: usize) {
        let count = count.min(self.wire.len());
        self.input.extend_from_slice(&self.wire[..count]);
        self.wire.drain(..count);
        loop {
            let before = self.input.len();
            let received = self.engine.receive(self.now, &mut self.input);
            assert!(self.input.len() <= before);
            if received == Received::Closed {
                assert!(self.engine.is_closed() && self.input.is_empty());
            }
            if self.prompt {
                self.poll(usize::MAX);
            }
            self.check();
            if received != Received::Blocked || self.input.len() == before {
                return;
            }
        }
    }

    fn poll(&mut self, most: usize) {
        let (mut count, commands) = (0, self.commands_with_events);
        while count < most {
            let Some(event) = self.engine.poll_event() else {
                self.commands_with_events = 0;
                break;
            };
            count += 1;
            if self.prompt {
                self.ledger.event(&event);
            }
            self.event(event);
        }
        if count < most {
            for (link, id) in self.ledger.settled_by_peer() {
                let again = self.engine.settle(link, [id], None, true);
                assert!(!matches!(again, Ok(1..)), "{id:?} is settled once");
            }
        }
        // The frame that reaches the limit may have several events.
        let limit = self.event_limit + EVENTS_OF_FRAME + commands;
        assert!(count <= limit, "{count} events where {limit} are kept");
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Opened(_) if self.answers => drop(self.engine.open(Open::default())),
            Event::Begun { session, by_peer: true, .. } => self.sessions.push(session),
            Event::AttachRequested { link, attach } => {
                self.links.push(link);
                if self.answers {
                    self.commands += 2;
                    let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                    let _ = self.engine.accept(link, answer);
                    let _ = self.engine.credit(link, 10);
                }
            }
            _ => {}
        }
    }

    fn command(&mut self, command: usize) {
        let session = self.source.pick(&self.sessions);
        let link = self.source.pick(&self.links);
        match (command, session, link) {
            (24, ..) => drop(self.engine.open(peer::open(&mut self.source))),
            (25, ..) => {
                let next_outgoing_id = self.source.number();
                self.sessions.extend(self.engine.begin(Begin { next_outgoing_id, ..Begin::default() }));
            }
            (26, Some(session), _) => self.end_session(session),
            (27, ..) => self.close(),
            (28, ..) if self.source.byte() < 8 => self.engine.disconnected(),
            (29, ..) => drop(self.engine.sasl_outcome(peer::code(&mut self.source))),
            (30, ..) => {
                let response = vec![1; self.source.below(100)];
                let _ = self.engine.sasl_challenge(response.clone().into());
                let _ = self.engine.sasl_response(response.into());
            }
            (31 | 32, Some(session), _) => {
                let attach = peer::attach(&mut self.source);
                self.links.extend(self.engine.attach(session, attach));
            }
            (33..48, _, Some(link)) => self.link_command(command, link),
            _ => {}
        }
    }

    fn end_session(&mut self, session: SessionId) {
        if self.source.byte() < 64 && self.engine.end(session, None).is_ok() {
            self.ledger.forget_session(session);
        }
    }

    fn close(&mut self) {
        if self.source.byte() < 16 && self.engine.close(None).is_ok() {
            self.ledger.closing();
        }
    }

    fn link_command(&mut self, command: usize, link: LinkId) {
        match command {
            33 | 34 => {
                let attach = peer::attach(&mut self.source);
                let _ = self.engine.accept(link, attach);
            }
            35 => drop(self.engine.refuse(link, Error::new(condition::NOT_FOUND, "no such queue"))),
            36 => {
                if self.engine.detach(link, self.source.flag(), None).is_ok() {
                    self.ledger.forget_link(link);
                }
            }
            37 | 38 => drop(self.engine.credit(link, self.source.number())),
            39 => drop(self.engine.drain(link)),
            40 => drop(self.engine.drained(link)),
            41 => {
                if let Ok(Some(id)) = self.engine.abort(link) {
                    self.ledger.aborted(link, id);
                }
            }
            42..45 => self.send(link),
            _ => self.settle(link),
        }
    }

    fn send(&mut self, link: LinkId) {
        let settled = self.source.flag();
        let payload = vec![9; self.source.below(256) * 12];
        let tag = vec![3; self.source.below(34)].into();
        let state = peer::state(&mut self.source);
        let sendable = self.engine.sendable(link);
        let delivery = OutboundDelivery { tag, settled, state, ..OutboundDelivery::default() };
        let size = payload.len();
        let sent = self.engine.send(link, delivery, &[Bytes::from(payload)]);
        assert!(sent.is_err() || sendable > 0 || settled, "{sent:?} while nothing is sendable");
        if let Ok(id) = sent {
            self.payload += size;
            if !settled && self.prompt {
                self.ledger.sent(link, id);
            }
        }
    }

    fn settle(&mut self, link: LinkId) {
        let mut ids = self.ledger.of(link);
        let skipped = self.source.below(ids.len() + 1);
        ids.truncate(ids.len() - skipped);
        let (state, settled) = (peer::state(&mut self.source), self.source.flag());
        let count = self.engine.settle(link, ids.iter().copied(), state.as_ref(), settled);
        let Ok(count) = count else { return };
        if !self.prompt {
            return;
        }
        assert_eq!(count, ids.len(), "the deliveries of {link:?} that are not settled are tracked");
        if settled {
            self.ledger.settled(link, &ids);
            let again = self.engine.settle(link, ids, state.as_ref(), true);
            assert_eq!(again, Ok(0), "a delivery is settled once");
        }
    }

    fn write(&mut self, most: usize) -> usize {
        let mut output = self.engine.output();
        let count = output.remaining().min(most);
        let bytes = output.copy_to_bytes(count);
        self.reader.read(&bytes);
        count
    }

    fn write_all(&mut self) {
        while self.engine.has_output() {
            assert!(self.write(usize::MAX) > 0, "there is output");
        }
        assert!(self.reader.is_complete(), "the last frame is complete");
        self.commands = 0;
    }

    fn check(&mut self) {
        // The peer's frames append to the output up to twice the limit, and the one behind it.
        let most = 2 * self.output_limit + 2 * COMMAND_SIZE + self.commands * COMMAND_SIZE + 2 * self.payload;
        let queued = self.engine.output().remaining();
        assert!(queued <= most, "{queued} bytes of output where {most} are kept");
        assert!(self.ledger.is_within(MAX_UNSETTLED), "a session keeps at most {MAX_UNSETTLED} deliveries");
        for link in &self.links {
            assert!(!self.engine.is_closed() || self.engine.sendable(*link) == 0);
        }
    }

    /// The rest arrives, and the connection is lost.
    fn end(&mut self) {
        self.write_all();
        self.deliver(usize::MAX);
        self.engine.disconnected();
        self.poll(usize::MAX);
        assert!(self.engine.is_closed() && self.engine.deadline().is_none());
        assert!(self.ledger.closed || !self.prompt, "the last event is there");
        self.write_all();
    }
}
