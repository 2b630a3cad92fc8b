use std::time::Duration;

use bytes::{Buf, Bytes};
use consign_amqp::{
    engine::{CommandError, Event, Options, OutboundDelivery, Reason, Received, Violation},
    types::{Attach, Begin, Detach, Disposition, End, Error, Flow, Open, Performative, Role, Transfer, condition},
};

use crate::peer::{Peer, attach, begin, encode, transfer};

/// Rules: A-58.
#[test]
fn input_waits_while_events_are_not_polled() {
    let (mut peer, link) = Peer::attached(Options::default().event_limit(3), Role::Sender);
    peer.engine.credit(link, 100).unwrap();
    let packet: Vec<u8> = (0..10).flat_map(|number| encode(0, transfer(number, true), b"message")).collect();
    peer.write_bytes(&packet);
    let mut received = Vec::new();
    while received.len() < 10 {
        let events = peer.events();
        assert_eq!(events.len().max(3), 3);
        received.extend(events);
        let expected = if received.len() < 7 { Received::Blocked } else { Received::NeedsInput };
        assert_eq!(peer.receive(), expected);
        received.extend(peer.engine.poll_event());
    }
}

/// Rules: A-58.
#[test]
fn sends_wait_while_the_output_is_not_written() {
    let (mut peer, link) = Peer::attached(Options::default().output_limit(1_000), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(100), ..Flow::default() });
    let mut sent = 0;
    while peer.engine.sendable(link) > 0 {
        peer.send(link, true);
        sent += 1;
    }
    assert!(peer.engine.is_output_full() && sent < 50, "{sent}");
    assert_eq!(peer.engine.send(link, OutboundDelivery::default(), &[]), Err(CommandError::OutputFull));
    peer.frames();
    assert_eq!(peer.engine.sendable(link), 100 - sent);
}

/// Rules: A-58.
#[test]
fn a_peer_that_reads_no_answers_is_not_read_from() {
    let (mut peer, _) = Peer::attached(Options::default().output_limit(1_000), Role::Sender);
    let echo = encode(0, Flow { echo: true, ..Flow::default() }, b"");
    for _ in 0..1_000 {
        peer.write_bytes(&echo);
    }
    assert_eq!(peer.receive(), Received::Blocked);
    let written: usize = peer.frames().len();
    assert!(written < 100, "{written}");
}

/// Rules: A-58.
#[test]
fn a_peer_that_reads_nothing_while_the_output_is_full_is_closed_by_the_idle_timeout() {
    let idle = Duration::from_secs(2);
    let (mut peer, _) = Peer::attached(Options::default().output_limit(1_000).idle_timeout(idle), Role::Sender);
    let echo = encode(0, Flow { echo: true, ..Flow::default() }, b"");
    peer.write_bytes(&echo.repeat(1_000));
    assert_eq!(peer.receive(), Received::Blocked);
    // It has read a byte, and the output is full all the same.
    peer.engine.output().advance(1);
    assert_eq!(peer.receive(), Received::Blocked);
    peer.engine.handle_deadline(idle);
    assert_eq!((peer.events(), peer.engine.deadline()), (Vec::new(), Some(idle * 2)));
    peer.engine.handle_deadline(idle * 2);
    let events = peer.events();
    let [Event::Closed { reason: Reason::Violation(violation) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(**violation, Violation::IdleTimeout);
}

/// Rules: A-58.
#[test]
fn sessions_and_links_of_this_end_are_limited_by_both_ends() {
    let mut peer = Peer::opened(Options::default().max_sessions(3).max_links(2));
    let session = peer.engine.begin(Begin::default()).unwrap();
    for _ in 0..2 {
        peer.engine.begin(Begin::default()).unwrap();
    }
    assert_eq!(peer.engine.begin(Begin::default()), Err(CommandError::TooManySessions));
    for handle in 0..2 {
        peer.engine.attach(session, attach(handle, Role::Sender)).unwrap();
    }
    assert_eq!(peer.engine.attach(session, attach(2, Role::Sender)), Err(CommandError::TooManyLinks));
    // What the peer announced is as good as our own limit.
    peer.write(0, Begin { remote_channel: Some(1), handle_max: 1, ..begin() });
    let events = peer.events();
    let [Event::Begun { session, by_peer: false, .. }] = events[..] else { panic!("{events:?}") };
    peer.engine.attach(session, attach(0, Role::Sender)).unwrap();
    assert_eq!(peer.engine.attach(session, attach(1, Role::Sender)), Err(CommandError::TooManyLinks));
}

/// Rules.
/// Attacks: 88.
#[test]
fn one_session_more_of_the_peer_is_ended_alone() {
    let mut peer = Peer::opened(Options::default().max_sessions(2));
    peer.engine.begin(Begin::default()).unwrap();
    peer.write(0, begin());
    peer.write(1, begin());
    assert_eq!(peer.events().len(), 2);
    // An ended session leaves its place.
    peer.write(1, End::default());
    peer.write(2, begin());
    assert_eq!(peer.events().len(), 2);
    peer.frames();
    peer.write(3, begin());
    let events = peer.events();
    let [Event::Ended { reason: Reason::Violation(violation), .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(**violation, Violation::Sessions { max: 2 });
    let frames = peer.frames();
    let [(_, Performative::Begin(answer), _), (_, Performative::End(end), _)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!(answer.remote_channel, Some(3));
    assert_eq!(end.error.as_ref().unwrap().condition, condition::RESOURCE_LIMIT_EXCEEDED);
    // It takes no place of another one, and the others go on.
    peer.write(3, End::default());
    peer.write(0, End::default());
    peer.write(3, begin());
    let events = peer.events();
    assert!(matches!(events[..], [Event::Ended { .. }, Event::Begun { .. }]), "{events:?}");
}

/// Rules.
/// Attacks: 88.
#[test]
fn sessions_over_the_limit_whose_end_is_not_confirmed_close_the_connection() {
    let mut peer = Peer::opened(Options::default().max_sessions(3));
    peer.engine.limit_peer(1, 1);
    for channel in 0..2 {
        peer.write(channel, begin());
    }
    assert_eq!(peer.events().len(), 2);
    peer.write(2, begin());
    let events = peer.events();
    let [Event::Closed { reason: Reason::Violation(violation) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(**violation, Violation::Sessions { max: 1 });
    assert_eq!(violation.condition(), condition::RESOURCE_LIMIT_EXCEEDED);
}

/// Rules.
/// Attacks: 88.
#[test]
fn one_link_more_of_the_peer_ends_its_session() {
    let (mut peer, session) = Peer::begun(Options::default().max_links(3).max_connection_links(4));
    let violation = |peer: &mut Peer, of| {
        let events = peer.events();
        let [Event::Ended { session, reason: Reason::Violation(violation) }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((*session, violation.condition()), (of, condition::RESOURCE_LIMIT_EXCEEDED));
        assert!(matches!(peer.frame(), Performative::End(_)));
        (**violation).clone()
    };
    for handle in 0..3 {
        peer.attach(handle, Role::Sender);
    }
    // A detached link leaves its place, one that this end attaches takes none.
    peer.write(0, Detach { handle: 1, closed: true, error: None });
    peer.engine.attach(session, attach(7, Role::Sender)).unwrap();
    peer.events();
    peer.frames();
    peer.attach(4, Role::Receiver);

    peer.write(1, begin());
    let [Event::Begun { session: other, .. }] = peer.events()[..] else { panic!("no session") };
    peer.frames();
    peer.write(1, attach(0, Role::Sender));
    assert!(matches!(peer.events()[..], [Event::AttachRequested { .. }]));
    // A link that is not answered counts.
    peer.write(1, attach(1, Role::Sender));
    assert_eq!(violation(&mut peer, other), Violation::Links { max: 4 });

    // The links of an ended session leave their places.
    peer.write(0, attach(5, Role::Sender));
    assert_eq!(violation(&mut peer, session), Violation::Links { max: 3 });
}

/// Rules: A-58.
#[test]
fn a_message_that_the_receiver_does_not_accept_is_not_sent() {
    let (mut peer, _) = Peer::begun(Options::default().max_unsettled(1));
    peer.write(0, Attach { max_message_size: Some(100), ..attach(0, Role::Receiver) });
    let events = peer.events();
    let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
    peer.engine.accept(link, attach(0, Role::Sender)).unwrap();
    peer.flow(Flow { handle: Some(0), link_credit: Some(100), ..Flow::default() });
    peer.frames();
    let mut send = |delivery, size| peer.engine.send(link, delivery, &[Bytes::from(vec![0; size])]);
    assert_eq!(send(OutboundDelivery::default(), 101), Err(CommandError::MessageTooLarge { max: 100 }));
    let long = OutboundDelivery { tag: vec![0; 33].into(), ..OutboundDelivery::default() };
    assert_eq!(send(long, 1), Err(CommandError::TagTooLong));
    assert!(send(OutboundDelivery::default(), 100).is_ok());
    assert_eq!(send(OutboundDelivery::default(), 1), Err(CommandError::TooManyUnsettled));
    assert!(send(OutboundDelivery { settled: true, ..OutboundDelivery::default() }, 1).is_ok());
    assert_eq!(peer.frames().len(), 2);
}

/// Rules: A-58.
#[test]
fn a_frame_that_is_too_large_for_the_peer_is_refused_and_nothing_is_written() {
    let (mut peer, link) = Peer::attached(Options::default().max_frame_size(512), Role::Sender);
    let error = || Error::new(condition::NOT_FOUND, "x".repeat(600));
    let refused = Err(CommandError::FrameTooLarge { max: 512 });
    assert_eq!(peer.engine.detach(link, true, Some(error())), refused);
    assert_eq!(peer.engine.end(link.session(), Some(error())), refused);
    assert_eq!(peer.engine.close(Some(error())), refused);
    assert!(!peer.engine.has_output());
    assert_eq!(peer.engine.detach(link, true, None), Ok(()));
    peer.write(0, attach(1, Role::Sender));
    let events = peer.events();
    let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
    peer.frames();
    // The link is refused all the same, without the error.
    assert_eq!(peer.engine.refuse(link, error()), refused);
    let frames = peer.frames();
    assert!(
        matches!(&frames[..], [_, (_, Performative::Detach(detach), _)] if detach.error.is_none() && detach.closed)
    );
}

/// Rules: A-58.
#[test]
fn a_range_takes_time_by_the_tracked_deliveries_and_not_by_its_length() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(100), ..Flow::default() });
    peer.send(link, false);
    peer.events();
    // In all a walk over 200 million million numbers.
    let range = Disposition { role: Role::Receiver, first: 1, last: Some(u32::MAX / 2), ..Disposition::default() };
    let packet = encode(0, range, b"");
    for _ in 0..100_000 {
        peer.write_bytes(&packet);
    }
    assert_eq!(peer.events(), []);
}

/// Rules: A-58.
/// Attacks: 87.
#[test]
fn transfers_without_bytes_use_no_memory() {
    let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
    peer.write(0, Transfer { more: true, ..transfer(0, true) });
    for _ in 0..10_000 {
        peer.write(0, Transfer { more: true, ..Transfer::default() });
        peer.engine.output().advance(usize::MAX);
    }
    peer.transfer(0, true);
    let events = peer.events();
    let [Event::Delivery(delivery)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(delivery.payload.chunks().count(), 1);
}

#[test]
fn commands_before_the_open_are_refused() {
    use consign_amqp::engine::Connection;
    let mut engine = Connection::server(Options::default(), std::time::Duration::ZERO);
    assert_eq!(engine.begin(Begin::default()), Err(CommandError::State { expected: "an open connection" }));
    engine.open(Open::default()).unwrap();
    assert!(engine.open(Open::default()).is_err());
    engine.close(None).unwrap();
    assert!(engine.is_closed() && !engine.has_output());
    assert_eq!(engine.begin(Begin::default()), Err(CommandError::Closed));
}

/// Rules: A-58.
/// Attacks: 87.
#[test]
fn incomplete_deliveries_of_a_connection_are_limited_together() {
    let (mut peer, session) = Peer::begun(Options::default());
    peer.engine.limit_incomplete(1_000);
    let part = |peer: &mut Peer, handle, number| {
        let transfer = Transfer { handle, more: true, ..transfer(number, true) };
        peer.write_with(0, transfer, &[0; 400]);
        peer.events()
    };
    let links: Vec<_> = (0..3).map(|handle| peer.attach(handle, Role::Sender)).collect();
    for link in &links {
        peer.engine.credit(*link, 10).unwrap();
    }
    peer.frames();
    assert_eq!(part(&mut peer, 0, 0), []);
    assert_eq!(part(&mut peer, 1, 1), []);
    let events = part(&mut peer, 2, 2);
    let [Event::Detached { link, reason: Reason::Violation(violation), .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((*link, &**violation), (links[2], &Violation::Incomplete { max: 1_000 }));
    assert_eq!(violation.condition(), condition::RESOURCE_LIMIT_EXCEEDED);
    // What is complete, aborted or detached does not count.
    peer.write_with(0, Transfer { handle: 0, ..Transfer::default() }, &[0; 400]);
    assert!(matches!(peer.events()[..], [Event::Delivery(_)]));
    assert_eq!(part(&mut peer, 0, 3), []);
    peer.write(0, Transfer { handle: 0, aborted: true, ..Transfer::default() });
    assert!(matches!(peer.events()[..], [Event::DeliveryAborted { .. }]));
    assert_eq!(part(&mut peer, 0, 4), []);
    peer.engine.detach(links[1], true, None).unwrap();
    peer.frames();
    let link = peer.attach(3, Role::Sender);
    peer.engine.credit(link, 10).unwrap();
    assert_eq!(part(&mut peer, 3, 5), []);
    peer.engine.end(session, None).unwrap();
}

/// Rules: A-58.
#[test]
fn the_largest_message_that_a_receiver_announces_can_be_replaced() {
    let (mut peer, _) = Peer::begun(Options::default());
    peer.write(0, Attach { max_message_size: Some(100), ..attach(0, Role::Receiver) });
    let events = peer.events();
    let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
    peer.engine.accept(link, attach(0, Role::Sender)).unwrap();
    peer.flow(Flow { handle: Some(0), link_credit: Some(100), ..Flow::default() });
    assert_eq!(peer.engine.peer_message_size(link), Some(100));
    let send = |peer: &mut Peer| peer.engine.send(link, OutboundDelivery::default(), &[Bytes::from(vec![0; 101])]);
    assert_eq!(send(&mut peer), Err(CommandError::MessageTooLarge { max: 100 }));
    peer.engine.set_peer_message_size(link, None).unwrap();
    assert_eq!(peer.engine.peer_message_size(link), None);
    assert!(send(&mut peer).is_ok());
    peer.events();
    peer.frames();
    let receiving = peer.attach(1, Role::Sender);
    assert_eq!(peer.engine.set_peer_message_size(receiving, None), Err(CommandError::WrongRole));
}
