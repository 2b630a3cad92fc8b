//! What the engine allocates for a delivery once it is running.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    engine::{Connection, Event, LinkId, Options, OutboundDelivery, Received},
    types::{Accepted, Attach, Begin, DeliveryState, Open, Role, Source, Target},
    value::Binary,
};

use super::allocated;

/// A client that sends to a server, with buffers that are used again.
struct Pair {
    client: Connection,
    server: Connection,
    to_server: BytesMut,
    to_client: BytesMut,
    sender: LinkId,
    receiver: LinkId,
    state: DeliveryState,
}

fn write(from: &mut Connection, to: &mut BytesMut) {
    while from.has_output() {
        let mut output = from.output();
        while output.has_remaining() {
            let count = output.chunk().len();
            to.extend_from_slice(output.chunk());
            output.advance(count);
        }
    }
}

impl Pair {
    fn new() -> Self {
        let mut client = Connection::client(Options::default(), Duration::ZERO);
        let mut server = Connection::server(Options::default(), Duration::ZERO);
        let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
        client.open(Open::default()).unwrap();
        server.open(Open::default()).unwrap();
        let session = client.begin(Begin::default()).unwrap();
        let attach = Attach {
            name: "link".into(),
            role: Role::Sender,
            source: Some(Box::new(Source::default())),
            target: Some(Target::default().into()),
            ..Attach::default()
        };
        let sender = client.attach(session, attach).unwrap();
        let mut receiver = None;
        for _ in 0..4 {
            write(&mut client, &mut to_server);
            let _ = server.receive(Duration::ZERO, &mut to_server);
            while let Some(event) = server.poll_event() {
                if let Event::AttachRequested { link, attach } = event {
                    let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                    server.accept(link, answer).unwrap();
                    receiver = Some(link);
                }
            }
            write(&mut server, &mut to_client);
            let _ = client.receive(Duration::ZERO, &mut to_client);
            while client.poll_event().is_some() {}
        }
        let receiver = receiver.expect("a link");
        let state = Accepted {}.into();
        Self { client, server, to_server, to_client, sender, receiver, state }
    }

    fn round(&mut self, tag: &Binary, payload: &[Bytes], settled: bool) {
        self.server.credit(self.receiver, 10).unwrap();
        write(&mut self.server, &mut self.to_client);
        assert_eq!(self.client.receive(Duration::ZERO, &mut self.to_client), Received::NeedsInput);
        for _ in 0..10 {
            let delivery = OutboundDelivery { tag: tag.clone(), settled, ..OutboundDelivery::default() };
            self.client.send(self.sender, delivery, payload).unwrap();
        }
        write(&mut self.client, &mut self.to_server);
        assert_eq!(self.server.receive(Duration::ZERO, &mut self.to_server), Received::NeedsInput);
        let mut received = 0;
        while let Some(event) = self.server.poll_event() {
            let Event::Delivery(delivery) = event else { continue };
            received += 1;
            let count = self.server.settle(self.receiver, [delivery.id], Some(&self.state), true).unwrap();
            assert_eq!(count, usize::from(!settled));
        }
        assert_eq!(received, 10);
        while self.client.poll_event().is_some() {}
    }
}

/// Rules: A-61.
#[test]
fn a_settled_delivery_of_a_running_link_is_sent_and_received_without_an_allocation() {
    let mut pair = Pair::new();
    let tag = Binary::from(Bytes::from_static(&[7; 16]));
    let payload = [Bytes::from_static(b"header"), Bytes::from_static(&[1; 1_000])];
    for _ in 0..20 {
        pair.round(&tag, &payload, true);
    }
    let ((), allocations, bytes) = allocated(|| {
        for _ in 0..100 {
            pair.round(&tag, &payload, true);
        }
    });
    println!("1,000 settled deliveries: {allocations} allocations, {bytes} bytes");
    assert!(allocations == 0, "{allocations} allocations, {bytes} bytes");

    for _ in 0..20 {
        pair.round(&tag, &payload, false);
    }
    let ((), allocations, bytes) = allocated(|| {
        for _ in 0..100 {
            pair.round(&tag, &payload, false);
        }
    });
    println!("1,000 unsettled deliveries: {allocations} allocations, {bytes} bytes");
    // The event of a range of 10 has a list that grows three times.
    assert!(allocations <= 300, "{allocations} allocations, {bytes} bytes");
}

/// Rules: A-61.
#[test]
fn a_payload_is_not_copied() {
    let mut pair = Pair::new();
    pair.server.credit(pair.receiver, 10).unwrap();
    write(&mut pair.server, &mut pair.to_client);
    let _ = pair.client.receive(Duration::ZERO, &mut pair.to_client);
    let payload = Bytes::from(vec![1; 20_000]);
    pair.client.send(pair.sender, OutboundDelivery::default(), std::slice::from_ref(&payload)).unwrap();
    let output = pair.client.output();
    let mut slices = [std::io::IoSlice::new(&[]); 8];
    let count = output.chunks_vectored(&mut slices);
    assert!(
        slices[..count].iter().any(|slice| slice.as_ptr() == payload.as_ptr()),
        "the output has the payload itself"
    );
    write(&mut pair.client, &mut pair.to_server);
    let input = pair.to_server.as_ptr_range();
    let _ = pair.server.receive(Duration::ZERO, &mut pair.to_server);
    let received = std::iter::from_fn(|| pair.server.poll_event()).find_map(|event| match event {
        Event::Delivery(delivery) => Some(delivery.payload.into_bytes()),
        _ => None,
    });
    let received = received.expect("a delivery");
    assert!(input.contains(&received.as_ptr()) && received == payload, "the payload is a part of the input");
}

/// Rules: A-58.
#[test]
fn a_message_of_small_frames_takes_memory_by_its_size() {
    let mut pair = Pair::new();
    let mut frames = Vec::new();
    for index in 0..2_000_u32 {
        let first = index == 0;
        let transfer = consign_amqp::types::Transfer {
            delivery_id: first.then_some(0),
            more: true,
            ..consign_amqp::types::Transfer::default()
        };
        consign_amqp::frame::Frame::encode(0, &transfer.into(), b"1", &mut frames).unwrap();
    }
    let mut input = BytesMut::from(&frames[..]);
    let ((), allocations, bytes) = allocated(|| {
        let _ = pair.server.receive(Duration::ZERO, &mut input);
    });
    assert!(allocations < 20 && bytes < 10_000, "{allocations} allocations, {bytes} bytes");
}
