//! A peer that writes frames of its own, for what our client does not send.

use std::time::Duration;

use consign_amqp::{
    bytes::Bytes,
    codec,
    frame::{Frame, FrameHeader, ProtocolHeader},
    types::{
        Attach, AttachTarget, Begin, Coordinator, Declare, DeliveryState, Discharge, Disposition, Flow, Open,
        Performative, Role, SenderSettleMode, Source, Target, Transfer,
    },
};
use consign_core::administration::{QueueSettings, Status};
use consign_server::Limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::timeout,
};

use crate::{
    requests::peek,
    support::*,
    transactions::{control, within},
};

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
        self.receive(0, SenderSettleMode::Settled, credit, 5_000).await;
    }

    async fn receive(&mut self, handle: u32, snd_settle_mode: SenderSettleMode, credit: u32, incoming_window: u32) {
        let attach = Attach {
            name: "receiver".into(),
            handle,
            role: Role::Receiver,
            snd_settle_mode,
            source: Some(Box::new(Source { address: Some("orders".into()), ..Source::default() })),
            target: Some(Target::default().into()),
            ..Attach::default()
        };
        self.write(attach, b"").await;
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window,
            outgoing_window: 5_000,
            handle: Some(handle),
            delivery_count: Some(0),
            link_credit: Some(credit),
            ..Flow::default()
        };
        self.write(flow, b"").await;
    }

    /// Attaches a link that sends to a coordinator, or to an entity.
    async fn attach_sender(&mut self, handle: u32, target: impl Into<AttachTarget>) {
        let attach = Attach {
            name: handle.to_string().into(),
            handle,
            source: Some(Box::new(Source::default())),
            target: Some(target.into()),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        self.write(attach, b"").await;
    }

    /// Sends a delivery of this number, and returns its outcome.
    async fn send(&mut self, transfer: Transfer, payload: &[u8]) -> Option<DeliveryState> {
        let number = transfer.delivery_id;
        self.write(transfer, payload).await;
        let answers = self.frames().await.into_iter().filter_map(|performative| match performative {
            Performative::Disposition(answer) if Some(answer.first) == number => answer.state,
            _ => None,
        });
        answers.last()
    }

    /// The flows of links that the server has sent, until it is silent.
    async fn flows(&mut self) -> Vec<Flow> {
        let flows = self.frames().await.into_iter().filter_map(|performative| match performative {
            Performative::Flow(flow) if flow.handle.is_some() => Some(flow),
            _ => None,
        });
        flows.collect()
    }

    /// What the server has sent, until it is silent.
    async fn frames(&mut self) -> Vec<Performative> {
        let mut buffer = [0; 4_096];
        while let Ok(read) = timeout(Duration::from_secs(1), self.stream.read(&mut buffer)).await {
            let count = read.expect("the stream is open");
            assert!(count > 0, "the connection is open");
            self.input.extend_from_slice(&buffer[..count]);
        }
        let mut frames = Vec::new();
        let mut input = Bytes::from(std::mem::take(&mut self.input));
        while let Some(header) = FrameHeader::decode(&input, 1 << 16).expect("a frame") {
            let frame = input.split_to(header.size as usize);
            let frame = Frame::decode(header, &frame, codec::Limits::default()).expect("a frame");
            frames.extend(frame.performative);
        }
        frames
    }
}

fn transfer(handle: u32, number: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(number),
        delivery_tag: Some(number.to_be_bytes().to_vec().into()),
        ..Transfer::default()
    }
}

/// A client that does not look at the limit of its link. What of a message is over the limit is not kept.
/// Rules: V-10, T-74.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_far_too_large_is_rejected_and_so_is_its_transaction() {
    let harness = Harness::new();
    harness.broker().create_queue("small", QueueSettings::default().max_message_size(1_000)).expect("a new queue");
    let mut peer = Peer::connect(&harness).await;
    peer.attach_sender(0, Coordinator::default()).await;
    peer.attach_sender(1, Target { address: Some("small".into()), ..Target::default() }).await;
    let declared = peer.send(transfer(0, 0), &control(&Declare::default())).await;
    let Some(DeliveryState::Declared(declared)) = declared else { panic!("{declared:?}") };
    let state = Some(within(&declared.txn_id, None));

    let stored = peer.send(Transfer { state: state.clone(), ..transfer(1, 1) }, &message("small")).await;
    assert_eq!(stored, Some(within(&declared.txn_id, Some(accepted()))));
    let part = vec![0; 60_000];
    peer.write(Transfer { state, more: true, ..transfer(1, 2) }, &part).await;
    for _ in 0..30 {
        peer.write(Transfer { handle: 1, more: true, ..Transfer::default() }, &part).await;
    }
    let refused = peer.send(Transfer { delivery_id: Some(2), handle: 1, ..Transfer::default() }, &part).await;
    let Some(DeliveryState::Transactional(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!(condition_of(&refused.outcome.expect("an outcome")), "amqp:link:message-size-exceeded");
    let discharge = Discharge { txn_id: declared.txn_id, fail: false };
    let discharged = peer.send(transfer(0, 3), &control(&discharge)).await;
    assert_eq!(condition_of(&discharged.expect("an outcome")), "amqp:transaction:rollback");

    // The link goes on.
    assert_eq!(peer.send(transfer(1, 4), &message("small")).await, Some(accepted()));
    assert_eq!(harness.broker().queue("small").expect("a queue").counts().active, 1);
}

/// The server has detached the link before, so that the client's settlement is for no delivery.
/// Rules: T-74, A-28.
#[tokio::test(start_paused = true)]
async fn a_transaction_with_a_settlement_on_a_link_that_was_detached_is_rolled_back() {
    let harness = Harness::new();
    send(&harness.session().await, "orders", &["order"]).await;
    let mut peer = Peer::connect(&harness).await;
    peer.attach_sender(0, Coordinator::default()).await;
    peer.attach_sender(1, Target { address: Some("results".into()), ..Target::default() }).await;
    peer.receive(2, SenderSettleMode::Unsettled, 2, 5_000).await;
    let frames = peer.frames().await;
    let delivered = frames.iter().find_map(|performative| match performative {
        Performative::Transfer(transfer) => transfer.delivery_id,
        _ => None,
    });
    let disabled = QueueSettings::default().status(Status::ReceiveDisabled);
    harness.broker().update_queue("orders", disabled).expect("a queue");
    let frames = peer.frames().await;
    assert!(frames.iter().any(|performative| matches!(performative, Performative::Detach(_))), "{frames:?}");

    let declared = peer.send(transfer(0, 0), &control(&Declare::default())).await;
    let Some(DeliveryState::Declared(declared)) = declared else { panic!("{declared:?}") };
    let completed = Disposition {
        role: Role::Receiver,
        first: delivered.expect("a delivery"),
        state: Some(within(&declared.txn_id, Some(accepted()))),
        ..Disposition::default()
    };
    peer.write(completed, b"").await;
    let result = Transfer { state: Some(within(&declared.txn_id, None)), ..transfer(1, 1) };
    assert_eq!(peer.send(result, &message("result")).await, Some(within(&declared.txn_id, Some(accepted()))));
    let discharge = Discharge { txn_id: declared.txn_id, fail: false };
    let discharged = peer.send(transfer(0, 2), &control(&discharge)).await;
    assert_eq!(condition_of(&discharged.expect("an outcome")), "amqp:transaction:rollback");
    assert_eq!(harness.broker().queue("results").expect("a queue").counts().active, 0);
}

/// A timer that is due again and again would keep the paused clock from going on, so that this test would not end.
/// Rules.
#[tokio::test(start_paused = true)]
async fn a_link_that_waits_for_the_window_after_settlements_is_not_looked_at_all_the_time() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_unsettled(2)));
    send(&harness.session().await, "orders", &["a", "b", "c"]).await;
    let mut peer = Peer::connect(&harness).await;
    peer.receive(0, SenderSettleMode::Unsettled, 5, 2).await;
    let delivered = |frames: &[Performative]| {
        frames.iter().filter(|performative| matches!(performative, Performative::Transfer(_))).count()
    };
    assert_eq!(delivered(&peer.frames().await), 2);
    let completed =
        Disposition { role: Role::Receiver, settled: true, state: Some(accepted()), ..Disposition::default() };
    peer.write(completed, b"").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let window = Flow { next_incoming_id: Some(2), incoming_window: 5_000, outgoing_window: 5_000, ..Flow::default() };
    peer.write(window, b"").await;
    assert_eq!(delivered(&peer.frames().await), 1);
}

/// Rules: G-15.
#[tokio::test(start_paused = true)]
async fn requests_that_are_given_up_get_no_credit_while_answers_are_not_taken() {
    let harness = Harness::with(|builder| builder.limits(Limits::default().max_requests(2).sender_credit(4)));
    let mut peer = Peer::connect(&harness).await;
    peer.attach(0, Role::Sender).await;
    peer.attach(1, Role::Receiver).await;
    let transfer = |delivery: u32| Transfer { settled: Some(true), ..transfer(0, delivery) };
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
