//! A peer made of frames that a test writes and reads.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    codec::Limits,
    engine::{Connection, Event, LinkId, Options, OutboundDelivery, Received, SessionId},
    frame::{Frame, FrameHeader, ProtocolHeader},
    types::{Attach, AttachTarget, Begin, Open, Performative, Role, Source, Target, Transfer},
};

/// An engine, and what was written for it and by it.
pub(crate) struct Peer {
    pub(crate) engine: Connection,
    pub(crate) now: Duration,
    input: BytesMut,
}

impl Peer {
    pub(crate) fn new(engine: Connection) -> Self {
        Self { engine, now: Duration::ZERO, input: BytesMut::new() }
    }

    /// A server after the protocol headers and both opens.
    pub(crate) fn opened(options: Options) -> Self {
        let mut peer = Self::new(Connection::server(options, Duration::ZERO));
        peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
        peer.write(0, Open { container_id: "peer".into(), ..Open::default() });
        assert!(matches!(peer.events()[..], [Event::Opened(_)]));
        peer.engine.open(Open { container_id: "engine".into(), ..Open::default() }).unwrap();
        assert_eq!(peer.next_write(), ProtocolHeader::Amqp.to_bytes().as_slice());
        assert!(matches!(peer.frames()[..], [(0, Performative::Open(_), _)]));
        peer
    }

    /// A server with a session on channel 0 of both ends.
    pub(crate) fn begun(options: Options) -> (Self, SessionId) {
        let mut peer = Self::opened(options);
        peer.write(0, begin());
        let [Event::Begun { session, by_peer: true, .. }] = peer.events()[..] else { panic!("no session") };
        assert!(matches!(peer.frames()[..], [(0, Performative::Begin(_), _)]));
        (peer, session)
    }

    /// A server with a link on handle 0 of both ends. The role is that of the peer.
    pub(crate) fn attached(options: Options, role: Role) -> (Self, LinkId) {
        let (mut peer, _) = Self::begun(options);
        let link = peer.attach(0, role);
        (peer, link)
    }

    /// Attaches a link of the peer.
    pub(crate) fn attach(&mut self, handle: u32, role: Role) -> LinkId {
        self.write(0, attach(handle, role));
        let events = self.events();
        let [Event::AttachRequested { link, ref attach }] = events[..] else { panic!("{events:?}") };
        let answer = Attach { source: attach.source.clone(), target: attach.target.clone(), ..Attach::default() };
        self.engine.accept(link, answer).unwrap();
        assert!(matches!(self.frames()[..], [(0, Performative::Attach(_), _)]));
        link
    }

    pub(crate) fn receive(&mut self) -> Received {
        self.engine.receive(self.now, &mut self.input)
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let _ = self.receive();
    }

    pub(crate) fn write(&mut self, channel: u16, performative: impl Into<Performative>) {
        self.write_with(channel, performative, b"");
    }

    pub(crate) fn write_with(&mut self, channel: u16, performative: impl Into<Performative>, payload: &[u8]) {
        self.write_bytes(&encode(channel, performative, payload));
    }

    /// A whole settled or unsettled delivery on handle 0.
    pub(crate) fn transfer(&mut self, number: u32, settled: bool) {
        self.write_with(0, transfer(number, settled), b"message");
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.engine.poll_event() {
            events.push(event);
        }
        events
    }

    /// The bytes of one write of the engine.
    pub(crate) fn next_write(&mut self) -> Bytes {
        let mut output = self.engine.output();
        let size = output.remaining();
        output.copy_to_bytes(size)
    }

    /// The frames that the engine has written, without empty ones.
    pub(crate) fn frames(&mut self) -> Vec<(u16, Performative, Bytes)> {
        let mut bytes = BytesMut::new();
        while self.engine.has_output() {
            bytes.extend_from_slice(&self.next_write());
        }
        let mut frames = Vec::new();
        while let Some(header) = FrameHeader::decode(&bytes, u32::MAX).unwrap() {
            let frame = bytes.split_to(header.size as usize).freeze();
            let frame = Frame::decode(header, &frame, Limits::default()).unwrap();
            if let Some(performative) = frame.performative {
                frames.push((frame.channel, performative, frame.payload));
            }
        }
        assert!(bytes.is_empty());
        frames
    }

    /// The only frame that the engine has written.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Performative {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "{frames:?}");
        frames.remove(0).1
    }

    /// Allows the engine's link on handle 0 to send.
    pub(crate) fn flow(&mut self, flow: consign_amqp::types::Flow) {
        self.write(0, consign_amqp::types::Flow { incoming_window: 100, next_incoming_id: Some(0), ..flow });
    }

    pub(crate) fn send(&mut self, link: LinkId, settled: bool) -> consign_amqp::engine::DeliveryId {
        let delivery = OutboundDelivery { tag: b"tag".to_vec().into(), settled, ..OutboundDelivery::default() };
        self.engine.send(link, delivery, &[Bytes::from_static(b"message")]).unwrap()
    }
}

pub(crate) fn encode(channel: u16, performative: impl Into<Performative>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::encode(channel, &performative.into(), payload, &mut bytes).unwrap();
    bytes
}

pub(crate) fn begin() -> Begin {
    Begin { incoming_window: 100, outgoing_window: 100, ..Begin::default() }
}

pub(crate) fn attach(handle: u32, role: Role) -> Attach {
    Attach {
        name: format!("link-{handle}").into(),
        handle,
        role,
        source: Some(Box::new(Source { address: Some("queue".into()), ..Source::default() })),
        target: Some(AttachTarget::from(Target { address: Some("queue".into()), ..Target::default() })),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        ..Attach::default()
    }
}

pub(crate) fn transfer(number: u32, settled: bool) -> Transfer {
    Transfer {
        delivery_id: Some(number),
        delivery_tag: Some(b"tag".to_vec().into()),
        message_format: Some(0),
        settled: Some(settled),
        ..Transfer::default()
    }
}
