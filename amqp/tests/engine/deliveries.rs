use bytes::{Buf, Bytes};
use consign_amqp::{
    engine::{CommandError, DeliveryId, Event, LinkId, Options, OutboundDelivery},
    types::{
        Accepted, Begin, DeliveryState, Disposition, Error, Flow, Modified, Performative, Rejected, Released, Role,
        Transfer, condition,
    },
};

use crate::peer::{Peer, transfer};

fn accepted() -> DeliveryState {
    Accepted {}.into()
}

/// The ids and numbers of the deliveries among the events.
fn deliveries(events: &[Event]) -> Vec<(DeliveryId, u32)> {
    let ids =
        events.iter().filter_map(|event| if let Event::Delivery(delivery) = event { Some(delivery.id) } else { None });
    ids.map(|id| (id, id.number())).collect()
}

/// Credit of so many deliveries for the engine's sender on handle 0.
fn credit(peer: &mut Peer, credit: u32) {
    peer.flow(Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(credit), ..Flow::default() });
}

/// Rules: A-54.
#[test]
fn the_credit_that_a_sender_announces_for_its_own_link_is_not_looked_at() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.flow(Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(10_000), ..Flow::default() });
    assert_eq!(peer.events(), []);
    // It does not wait for ours either.
    peer.transfer(0, false);
    assert_eq!(deliveries(&peer.events()).len(), 1);
    peer.engine.credit(link, 5).unwrap();
    let Performative::Flow(flow) = peer.frame() else { panic!() };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(1), Some(5), false));
}

/// Rules: A-54.
#[test]
fn duplicate_and_out_of_order_delivery_ids_are_deliveries_of_their_own() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    for number in [4, 6, 5, 5, 4] {
        peer.transfer(number, false);
    }
    let events = deliveries(&peer.events());
    assert_eq!(events.iter().map(|(_, number)| *number).collect::<Vec<_>>(), [4, 6, 5, 5, 4]);
    for (id, number) in &events {
        assert_eq!(peer.engine.settle(link, [*id], Some(&Released {}.into()), true), Ok(1));
        let Performative::Disposition(answer) = peer.frame() else { panic!() };
        assert_eq!((answer.role, answer.first, answer.last, answer.settled), (Role::Receiver, *number, None, true));
    }
    assert_eq!(peer.engine.settle(link, events.iter().map(|(id, _)| *id), None, true), Ok(0));
}

/// Rules: A-38.
#[test]
fn a_range_settles_each_tracked_delivery_in_it_and_the_answer_is_one_range() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    credit(&mut peer, 10);
    peer.events();
    let ids: Vec<_> = (0..6).map(|_| peer.send(link, false)).collect();
    peer.frames();
    let report = Disposition {
        role: Role::Receiver,
        first: 1,
        last: Some(4),
        state: Some(accepted()),
        ..Disposition::default()
    };
    peer.write(0, report.clone());
    let events = peer.events();
    let [Event::Disposition { role: Role::Receiver, deliveries, state: Some(state), settled: false, .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(deliveries.of(link).collect::<Vec<_>>(), ids[1..5]);
    // The second settle mode: the sender decides, and answers with the same kind of outcome.
    assert_eq!(peer.engine.settle(link, deliveries.of(link), Some(state), true), Ok(4));
    let Performative::Disposition(answer) = peer.frame() else { panic!() };
    assert_eq!(answer, Disposition { role: Role::Sender, settled: true, ..report.clone() });
    // They are no longer tracked.
    peer.write(0, Disposition { settled: true, ..report });
    assert_eq!(peer.events(), []);
    let all = Disposition {
        role: Role::Receiver,
        first: 0,
        last: Some(u32::MAX / 2),
        settled: true,
        ..Disposition::default()
    };
    peer.write(0, all);
    let events = peer.events();
    let [Event::Disposition { deliveries, settled: true, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(deliveries.iter().map(|(_, id)| id).collect::<Vec<_>>(), [ids[0], ids[5]]);
}

/// Rules: A-38.
#[test]
fn a_range_covers_the_deliveries_of_several_links_and_its_answer_only_those_of_one() {
    let (mut peer, first) = Peer::attached(Options::default(), Role::Sender);
    let second = peer.attach(1, Role::Sender);
    for number in 0..6 {
        let handle = u32::from(number == 3);
        peer.write_with(0, Transfer { handle, ..transfer(number, false) }, b"");
    }
    let ids: Vec<_> = deliveries(&peer.events()).into_iter().map(|(id, _)| id).collect();
    assert_eq!(peer.engine.settle(first, ids.clone(), Some(&accepted()), true), Ok(5));
    let ranges: Vec<_> = peer.frames().into_iter().map(|(_, frame, _)| frame).collect();
    let [Performative::Disposition(before), Performative::Disposition(behind)] = &ranges[..] else { panic!() };
    assert_eq!((before.first, before.last, behind.first, behind.last), (0, Some(2), 4, Some(5)));
    assert_eq!(peer.engine.settle(second, ids, Some(&accepted()), true), Ok(1));
}

/// Rules: A-38.
#[test]
fn settlements_of_consecutive_calls_are_one_frame_if_their_states_are_equal() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    for number in 0..100 {
        peer.transfer(number, false);
    }
    let rejected: DeliveryState = Rejected { error: Some(Error::new(condition::NOT_ALLOWED, "no")) }.into();
    for (id, number) in deliveries(&peer.events()) {
        let state = if number == 50 { rejected.clone() } else { accepted() };
        peer.engine.settle(link, [id], Some(&state), true).unwrap();
    }
    let frames = peer.frames();
    let ranges: Vec<_> = frames
        .iter()
        .map(|(_, frame, _)| match frame {
            Performative::Disposition(range) => (range.first, range.last),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ranges, [(0, Some(49)), (50, None), (51, Some(99))]);
}

/// Rules: A-55.
#[test]
fn a_drain_while_transfers_are_in_flight_ends_with_no_credit() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    credit(&mut peer, 5);
    peer.events();
    for _ in 0..3 {
        peer.send(link, true);
    }
    // The peer has seen none of them.
    peer.flow(Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(5), drain: true, ..Flow::default() });
    assert_eq!(peer.events(), [Event::CreditChanged { link, credit: 2, drain: true, properties: None }]);
    peer.send(link, true);
    peer.frames();
    peer.engine.drained(link).unwrap();
    let Performative::Flow(flow) = peer.frame() else { panic!() };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(5), Some(0), true));
    assert_eq!(peer.engine.sendable(link), 0);
    // A flow that is late, and has less credit than there are transfers in flight.
    peer.flow(Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(3), drain: true, ..Flow::default() });
    assert_eq!(peer.events(), [Event::CreditChanged { link, credit: 0, drain: true, properties: None }]);
    let delivery = OutboundDelivery::default();
    assert_eq!(peer.engine.send(link, delivery, &[]), Err(CommandError::NoCredit));
}

/// Rules: A-55.
#[test]
fn a_receiver_learns_that_its_credit_is_drained_behind_the_deliveries() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.drain(link).unwrap();
    assert_eq!(peer.events(), [Event::CreditDrained { link }], "there is no credit");
    peer.engine.credit(link, 10).unwrap();
    peer.engine.drain(link).unwrap();
    peer.transfer(0, true);
    peer.write_with(0, Transfer { more: true, ..transfer(1, true) }, b"a part");
    peer.flow(Flow { handle: Some(0), delivery_count: Some(10), link_credit: Some(0), drain: true, ..Flow::default() });
    assert_eq!(deliveries(&peer.events()).len(), 1);
    peer.transfer(1, true);
    let events = peer.events();
    assert!(matches!(events[..], [Event::Delivery(_), Event::CreditDrained { .. }]), "{events:?}");
}

/// Rules: A-55.
#[test]
fn a_drain_ends_when_it_crosses_a_lower_credit() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.credit(link, 9).unwrap();
    peer.engine.drain(link).unwrap();
    peer.engine.credit(link, 1).unwrap();
    peer.engine.drain(link).unwrap();
    // The sender has used up 9, and has not seen the 1.
    peer.flow(Flow { handle: Some(0), delivery_count: Some(9), link_credit: Some(0), drain: true, ..Flow::default() });
    assert_eq!(peer.events(), [Event::CreditDrained { link }]);
}

/// Rules: A-55.
#[test]
fn a_drain_that_is_taken_back_uses_up_nothing() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    let flow = Flow { handle: Some(0), delivery_count: Some(0), link_credit: Some(5), ..Flow::default() };
    peer.flow(Flow { drain: true, ..flow.clone() });
    peer.flow(flow);
    peer.engine.drained(link).unwrap();
    assert!(peer.frames().is_empty());
    assert_eq!(peer.engine.sendable(link), 5);
}

/// Rules: A-55.
#[test]
fn a_drain_ends_with_the_last_credit_also_without_a_flow() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.credit(link, 2).unwrap();
    peer.engine.drain(link).unwrap();
    peer.transfer(0, true);
    peer.transfer(1, true);
    let events = peer.events();
    assert!(matches!(events[..], [Event::Delivery(_), Event::Delivery(_), Event::CreditDrained { .. }]), "{events:?}");
    peer.flow(Flow { handle: Some(0), delivery_count: Some(2), link_credit: Some(0), drain: true, ..Flow::default() });
    assert_eq!(peer.events(), []);
}

/// Rules: A-56.
#[test]
fn a_sender_may_send_what_credit_and_session_window_allow() {
    let (mut peer, link) = Peer::attached(Options::default().max_unsettled(4), Role::Receiver);
    let flow = |window, credit| Flow {
        next_incoming_id: Some(0),
        incoming_window: window,
        handle: Some(0),
        delivery_count: Some(0),
        link_credit: Some(credit),
        ..Flow::default()
    };
    for (window, credit, expected) in [(10, 3, 3), (2, 3, 2), (0, 3, 0), (10, 9, 4), (1, 0, 0), (u32::MAX, u32::MAX, 4)]
    {
        peer.write(0, flow(window, credit));
        assert_eq!(peer.engine.sendable(link), expected, "{window} {credit}");
    }
    peer.events();
    peer.write(0, flow(0, 3));
    peer.write(0, flow(3, 3));
    let opened = Event::WindowOpened { session: link.session() };
    assert!(peer.events().contains(&opened));
    for _ in 0..3 {
        peer.send(link, false);
    }
    assert_eq!(peer.engine.sendable(link), 0);
    assert_eq!(peer.engine.send(link, OutboundDelivery::default(), &[]), Err(CommandError::NoCredit));
}

/// Rules: A-56.
#[test]
fn a_delivery_of_more_frames_than_the_window_goes_on_when_the_window_opens() {
    let (mut peer, link) = Peer::attached(Options::default().max_frame_size(512), Role::Receiver);
    let flow = |next: u32, window| Flow {
        next_incoming_id: Some(next),
        incoming_window: window,
        handle: Some(0),
        delivery_count: Some(0),
        link_credit: Some(5),
        ..Flow::default()
    };
    peer.write(0, flow(0, 2));
    peer.events();
    let payload: Bytes = (0..2_000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
    let (front, back) = (payload.slice(..700), payload.slice(700..));
    let id = peer.engine.send(link, OutboundDelivery::default(), &[front, back]).unwrap();
    let mut received = Vec::new();
    let mut frames = peer.frames();
    assert_eq!((frames.len(), peer.engine.sendable(link)), (2, 0));
    let another = peer.engine.send(link, OutboundDelivery::default(), &[]);
    assert_eq!(another, Err(CommandError::NoWindow));
    peer.write(0, flow(2, 20));
    frames.extend(peer.frames());
    for (index, (_, frame, payload)) in frames.iter().enumerate() {
        let Performative::Transfer(transfer) = frame else { panic!() };
        assert_eq!(transfer.more, index + 1 < frames.len());
        assert_eq!(transfer.delivery_id, (index == 0).then_some(id.number()));
        received.extend_from_slice(payload);
    }
    assert_eq!(received, payload);
    assert_eq!(peer.engine.sendable(link), 4);
}

#[test]
fn a_delivery_that_waits_for_the_window_can_be_aborted() {
    let (mut peer, link) = Peer::attached(Options::default().max_frame_size(512), Role::Receiver);
    let mut flow = Flow { incoming_window: 1, handle: Some(0), link_credit: Some(5), ..Flow::default() };
    flow.next_incoming_id = Some(0);
    peer.write(0, flow.clone());
    assert_eq!(peer.engine.abort(link), Ok(None));
    let id = peer.engine.send(link, OutboundDelivery::default(), &[vec![0; 2_000].into()]).unwrap();
    assert_eq!(peer.engine.abort(link), Ok(Some(id)));
    assert_eq!(peer.engine.abort(link), Ok(None));
    assert_eq!(peer.frames().len(), 1);
    peer.write(0, Flow { next_incoming_id: Some(1), ..flow });
    let (Performative::Transfer(transfer), payload) =
        peer.frames().pop().map(|(_, frame, payload)| (frame, payload)).unwrap()
    else {
        panic!()
    };
    assert!(transfer.aborted && !transfer.more && payload.is_empty());
    assert_eq!(peer.engine.settle(link, [id], None, true), Ok(0));
}

/// Rules: A-58.
#[test]
fn a_large_delivery_fills_the_output_to_its_limit_and_goes_on_when_it_is_written() {
    let (mut peer, link) = Peer::attached(Options::default().max_frame_size(512).output_limit(1_000), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(5), ..Flow::default() });
    let message: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let chunks: Vec<Bytes> = message.chunks(700).map(Bytes::copy_from_slice).collect();
    peer.engine.send(link, OutboundDelivery::default(), &chunks).unwrap();
    assert!(peer.engine.output().remaining() <= 1_000 + 512);
    assert_eq!(peer.engine.sendable(link), 0);
    assert_eq!(peer.engine.send(link, OutboundDelivery::default(), &[]), Err(CommandError::OutputFull));
    let mut written = Vec::new();
    for (_, frame, payload) in peer.frames() {
        let Performative::Transfer(transfer) = frame else { panic!("{frame:?}") };
        written.extend_from_slice(&payload);
        assert_eq!(transfer.more, written.len() < message.len());
    }
    assert_eq!(written, message);
    assert!(peer.engine.sendable(link) > 0);
}

/// Rules: A-58.
#[test]
fn the_rest_of_a_delivery_that_waits_for_the_output_can_be_aborted() {
    let (mut peer, link) = Peer::attached(Options::default().max_frame_size(512).output_limit(1_000), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(5), ..Flow::default() });
    let id = peer.engine.send(link, OutboundDelivery::default(), &[vec![0; 20_000].into()]).unwrap();
    assert_eq!(peer.engine.abort(link), Ok(Some(id)));
    let frames = peer.frames();
    let aborted: Vec<_> = frames
        .iter()
        .map(|(_, frame, _)| matches!(frame, Performative::Transfer(transfer) if transfer.aborted))
        .collect();
    assert!(matches!(aborted[..], [false, false, true] | [false, false, false, true]), "{frames:?}");
}

#[test]
fn an_aborted_delivery_is_not_delivered_and_the_next_one_is() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.write_with(0, Transfer { more: true, ..transfer(0, false) }, b"a part");
    peer.write(0, Transfer { aborted: true, ..Transfer::default() });
    peer.transfer(1, false);
    let events = peer.events();
    assert!(matches!(&events[..], [Event::DeliveryAborted { .. }, Event::Delivery(delivery)]
        if delivery.link == link && delivery.payload.clone().into_bytes() == "message"));
}

#[test]
fn a_message_of_many_frames_is_put_together() {
    let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
    let pieces: [&[u8]; 6] = [b"", b"small", &[1; 5_000], b"", b"small", &[2; 6_000]];
    for (index, piece) in pieces.iter().enumerate() {
        let first = if index == 0 { transfer(0, false) } else { Transfer::default() };
        // The last frame settles the delivery.
        let (more, settled) = (index < 5, Some(index == 5));
        peer.write_with(0, Transfer { more, settled, ..first }, piece);
    }
    let events = peer.events();
    let [Event::Delivery(delivery)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((delivery.settled, delivery.tag.as_ref(), delivery.payload.len()), (true, b"tag".as_slice(), 11_010));
    assert_eq!(delivery.payload.clone().into_bytes(), pieces.concat());
}

/// Rules: A-57.
#[test]
fn counts_and_ids_wrap_around() {
    let mut peer = Peer::opened(Options::default());
    let begin = Begin { next_outgoing_id: u32::MAX - 1, ..Begin::default() };
    let session = peer.engine.begin(begin.clone()).unwrap();
    let mut attach = crate::peer::attach(0, Role::Sender);
    attach.initial_delivery_count = Some(u32::MAX - 1);
    let link = peer.engine.attach(session, attach).unwrap();
    peer.write(0, Begin { remote_channel: Some(0), incoming_window: 100, ..begin });
    peer.write(0, crate::peer::attach(0, Role::Receiver));
    let flow = |count, credit| Flow {
        next_incoming_id: Some(count),
        incoming_window: 100,
        handle: Some(0),
        delivery_count: Some(count),
        link_credit: Some(credit),
        ..Flow::default()
    };
    peer.write(0, flow(u32::MAX - 1, 6));
    peer.events();
    let ids: Vec<_> = (0..4).map(|_| peer.send(link, false)).collect();
    assert_eq!(ids.iter().map(|id| id.number()).collect::<Vec<_>>(), [u32::MAX - 1, u32::MAX, 0, 1]);
    assert!(ids.is_sorted());
    assert_eq!(peer.engine.sendable(link), 2);
    peer.write(0, flow(0, 3));
    assert_eq!(peer.engine.sendable(link), 1);
    peer.events();
    let range =
        Disposition { role: Role::Receiver, first: u32::MAX, last: Some(0), settled: true, ..Disposition::default() };
    peer.write(0, range);
    let events = peer.events();
    let [Event::Disposition { deliveries, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(deliveries.iter().map(|(_, id)| id).collect::<Vec<_>>(), ids[1..3]);
}

#[test]
fn a_flow_that_asks_for_an_echo_is_answered() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.credit(link, 7).unwrap();
    peer.frames();
    peer.flow(Flow { handle: Some(0), echo: true, ..Flow::default() });
    assert!(matches!(peer.frame(), Performative::Flow(flow) if flow.link_credit == Some(7) && !flow.echo));
    peer.flow(Flow { echo: true, ..Flow::default() });
    assert!(matches!(peer.frame(), Performative::Flow(flow) if flow.handle.is_none()));
}

#[test]
fn states_keep_their_fields_and_a_settled_delivery_is_not_tracked() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.transfer(0, true);
    peer.transfer(1, false);
    let ids = deliveries(&peer.events());
    assert_eq!(peer.engine.settle(link, [ids[0].0], Some(&accepted()), true), Ok(0));
    let state: DeliveryState = Modified { undeliverable_here: true, ..Modified::default() }.into();
    assert_eq!(peer.engine.settle(link, [ids[1].0], Some(&state), false), Ok(1));
    assert!(
        matches!(peer.frame(), Performative::Disposition(answer) if answer.state == Some(state) && !answer.settled)
    );
    // The sender settles.
    peer.write(0, Disposition { role: Role::Sender, first: 1, settled: true, ..Disposition::default() });
    let events = peer.events();
    assert!(matches!(events[..], [Event::Disposition { role: Role::Sender, settled: true, .. }]), "{events:?}");
    assert_eq!(peer.engine.settle(link, [ids[1].0], None, true), Ok(0));
}

#[test]
fn a_command_for_the_other_direction_is_refused() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    let sender: LinkId = peer.attach(1, Role::Receiver);
    assert_eq!(peer.engine.sendable(link), 0);
    assert_eq!(peer.engine.send(link, OutboundDelivery::default(), &[]), Err(CommandError::WrongRole));
    assert_eq!(peer.engine.drained(link), Err(CommandError::WrongRole));
    assert_eq!(peer.engine.abort(link), Err(CommandError::WrongRole));
    assert_eq!(peer.engine.credit(sender, 1), Err(CommandError::WrongRole));
    assert_eq!(peer.engine.drain(sender), Err(CommandError::WrongRole));
    assert_eq!(peer.engine.send(sender, OutboundDelivery::default(), &[]), Err(CommandError::NoCredit));
}
