//! A peer that writes frames of its own, for what our client does not send.

use std::time::Duration;

use consign_amqp::{
    bytes::Bytes,
    codec,
    frame::{Frame, FrameHeader, ProtocolHeader},
    types::{Attach, Begin, Flow, Open, Performative, Role, SenderSettleMode, Source, Target, Transfer},
};
use consign_server::Limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::timeout,
};

use crate::{requests::peek, support::*};

pub(crate) struct Peer {
    stream: DuplexStream,
    input: Vec<u8>,
}

impl Peer {
    /// Opens a connection, and begins a session.
    pub(crate) async fn connect(harness: &Harness) -> Self {
        let mut peer = Self { stream: harness.stream(), input: Vec::new() };
        peer.stream.write_all(&ProtocolHeader::Amqp.to_bytes()).await.expect("the server reads");
        peer.write(Open { container_id: "peer".into(), ..Open::default() }, b"").await;
        peer.write(Begin { incoming_window: 5_000, outgoing_window: 5_000, ..Begin::default() }, b"").await;
        let mut header = [0; 8];
        peer.stream.read_exact(&mut header).await.expect("the server answers");
        peer
    }

    async fn write(&mut self, performative: impl Into<Performative>, payload: &[u8]) {
        let mut bytes = Vec::new();
        Frame::encode(0, &performative.into(), payload, &mut bytes).expect("it is encodable");
        self.stream.write_all(&bytes).await.expect("the server reads");
    }

    /// Attaches a link to `orders/$management`.
    async fn attach(&mut self, handle: u32, role: Role) {
        let address = "orders/$management";
        let attach = Attach {
            name: handle.to_string().into(),
            handle,
            role,
            source: Some(Box::new(Source { address: Some(address.into()), ..Source::default() })),
            target: Some(Target { address: Some(address.into()), ..Target::default() }.into()),
            initial_delivery_count: (role == Role::Sender).then_some(0),
            ..Attach::default()
        };
        self.write(attach, b"").await;
    }

    /// Attaches a link that receives from `orders` in receive-and-delete mode, gives it credit, and reads nothing.
    pub(crate) async fn receive_and_delete(&mut self, credit: u32) {
        let attach = Attach {
            name: "receiver".into(),
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Settled,
            source: Some(Box::new(Source { address: Some("orders".into()), ..Source::default() })),
            target: Some(Target::default().into()),
            ..Attach::default()
        };
        self.write(attach, b"").await;
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: 5_000,
            outgoing_window: 5_000,
            handle: Some(0),
            delivery_count: Some(0),
            link_credit: Some(credit),
            ..Flow::default()
        };
        self.write(flow, b"").await;
    }

    /// The flows of links that the server has sent, until it is silent.
    async fn flows(&mut self) -> Vec<Flow> {
        let mut buffer = [0; 4_096];
        while let Ok(read) = timeout(Duration::from_secs(1), self.stream.read(&mut buffer)).await {
            let count = read.expect("the stream is open");
            assert!(count > 0, "the connection is open");
            self.input.extend_from_slice(&buffer[..count]);
        }
        let mut flows = Vec::new();
        let mut input = Bytes::from(std::mem::take(&mut self.input));
        while let Some(header) = FrameHeader::decode(&input, 1 << 16).expect("a frame") {
            let frame = input.split_to(header.size as usize);
            let frame = Frame::decode(header, &frame, codec::Limits::default()).expect("a frame");
            if let Some(Performative::Flow(flow)) = frame.performative {
                flows.push(flow);
            }
        }
        flows.retain(|flow| flow.handle.is_some());
        flows
    }
}

/// Rules: G-15.
#[tokio::test(start_paused = true)]
async fn requests_that_are_given_up_get_no_credit_while_answers_are_not_taken() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_requests(2).sender_credit(4)));
    let mut peer = Peer::connect(&harness).await;
    peer.attach(0, Role::Sender).await;
    peer.attach(1, Role::Receiver).await;
    let transfer = |delivery: u32| Transfer {
        delivery_id: Some(delivery),
        delivery_tag: Some(delivery.to_be_bytes().to_vec().into()),
        settled: Some(true),
        ..Transfer::default()
    };
    for delivery in 0..2 {
        peer.write(transfer(delivery), &peek(None)).await;
    }
    // The first credit, and once more for the two requests.
    assert_eq!(peer.flows().await.len(), 2);
    for delivery in 2..5 {
        peer.write(Transfer { more: true, ..transfer(delivery) }, b"part").await;
        peer.write(Transfer { aborted: true, ..Transfer::default() }, b"").await;
    }
    assert_eq!(peer.flows().await, []);
}
