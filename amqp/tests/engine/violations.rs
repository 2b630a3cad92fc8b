use consign_amqp::{
    codec::DecodeErrorKind,
    engine::{Connection, Event, Options, Reason, Violation},
    frame::{FrameError, ProtocolHeader},
    types::{Attach, Begin, Detach, Disposition, Error, Flow, Open, Performative, Rejected, Role, Transfer, condition},
    value::Symbol,
};

use crate::peer::{Peer, attach, begin, encode, transfer};

/// The violation that closed the connection, and the condition that the peer was told.
#[track_caller]
fn closed(peer: &mut Peer) -> (Violation, Symbol) {
    let Some(Event::Closed { reason: Reason::Violation(violation) }) = peer.events().pop() else {
        panic!("not closed")
    };
    assert!(peer.engine.is_closed());
    let Some((_, Performative::Close(close), _)) = peer.frames().pop() else { panic!("no close frame") };
    let condition = told(close.error);
    assert_eq!(condition, violation.condition());
    (*violation, condition)
}

fn told(error: Option<Error>) -> Symbol {
    let error = error.expect("an error");
    assert!(error.description.is_some());
    error.condition
}

#[track_caller]
fn ended(peer: &mut Peer) -> (Violation, Symbol) {
    let Some(Event::Ended { reason: Reason::Violation(violation), .. }) = peer.events().pop() else {
        panic!("not ended")
    };
    let Some((_, Performative::End(end), _)) = peer.frames().pop() else { panic!("no end frame") };
    // The connection goes on.
    peer.write(1, begin());
    assert!(matches!(peer.events()[..], [Event::Begun { .. }]));
    (*violation, told(end.error))
}

#[track_caller]
fn detached(peer: &mut Peer) -> (Violation, Symbol) {
    let Some(Event::Detached { closed: true, reason: Reason::Violation(violation), .. }) = peer.events().pop() else {
        panic!("not detached")
    };
    let Some((_, Performative::Detach(detach), _)) = peer.frames().pop() else { panic!("no detach frame") };
    assert!(detach.closed);
    // The session goes on.
    peer.write(0, Detach { closed: true, ..Detach::default() });
    assert_eq!(peer.events(), []);
    peer.attach(0, Role::Sender);
    (*violation, told(detach.error))
}

/// Rules: A-59.
#[test]
fn another_protocol_is_answered_with_the_supported_header() {
    for bytes in [*b"AMQP\0\0\x09\x01", *b"GET / HT", ProtocolHeader::Tls.to_bytes(), ProtocolHeader::Sasl.to_bytes()] {
        let mut peer = Peer::new(Connection::server(Options::default(), std::time::Duration::ZERO));
        peer.write_bytes(&bytes);
        let events = peer.events();
        let [Event::Closed { reason: Reason::Violation(violation) }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(**violation, Violation::ProtocolHeader(bytes));
        assert_eq!(peer.next_write(), ProtocolHeader::Amqp.to_bytes().as_slice());
    }
}

/// Rules: A-59.
/// Attacks: 84.
#[test]
fn a_frame_that_is_too_large_is_refused_by_its_first_eight_bytes() {
    let mut peer = Peer::opened(Options::default());
    peer.write_bytes(&[0, 1, 0, 1, 2, 0, 0, 0]);
    let expected = Violation::Frame(FrameError::TooLarge { size: 65_537, max: 65_536 });
    assert_eq!(closed(&mut peer), (expected, condition::FRAMING_ERROR));

    let mut peer = Peer::new(Connection::server(Options::default(), std::time::Duration::ZERO));
    peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    peer.write_bytes(&[0, 0, 0x10, 1, 2, 0, 0, 0]);
    peer.next_write();
    let expected = Violation::Frame(FrameError::TooLarge { size: 4_097, max: 4_096 });
    assert_eq!(closed(&mut peer), (expected, condition::FRAMING_ERROR));
}

/// Rules: A-59.
#[test]
fn a_malformed_frame_closes_the_connection() {
    let mut peer = Peer::opened(Options::default());
    peer.write_bytes(&[0, 0, 0, 12, 2, 0, 0, 0, 0, 0x53, 0x77, 0x40]);
    let (violation, told) = closed(&mut peer);
    assert!(
        matches!(violation, Violation::Frame(FrameError::Body(error)) if error.kind() == DecodeErrorKind::Descriptor)
    );
    assert_eq!(told, condition::DECODE_ERROR);
}

/// Rules: A-59.
/// Attacks: 91.
#[test]
fn properties_of_an_open_and_an_attach_are_limited() {
    let fields = |performative: Performative| {
        let frame = encode(0, performative, b"");
        // The size of the list is in one byte, and so is the number of its fields.
        assert_eq!(frame[11], 0xc0);
        (frame[..11].to_vec(), frame[14..].to_vec(), frame[13])
    };
    let hostile = [
        [&[0xd1, 0, 0, 0x40, 4, 0, 0, 0, 2, 0xa3, 1, b'a'][..], &[0x00, 0x53, 0x70].repeat(5_000), &[0x40]].concat(),
        vec![0xd1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 2],
        vec![0xd1, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff, 0x40, 0x40, 0x40, 0x40],
        vec![0xd1, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let with_properties = |performative: Performative, place: u8, properties: &[u8]| {
        let (start, fields, count) = fields(performative);
        let mut content = fields;
        content.truncate(content.len() - usize::from(count.saturating_sub(place)));
        content.extend(vec![0x40; usize::from(place.saturating_sub(count))]);
        content.extend_from_slice(properties);
        let size = u32::try_from(content.len() + 4).unwrap().to_be_bytes();
        let mut frame = [&start[..], &[0xd0], &size, &[0, 0, 0, place + 1], &content].concat();
        let size = u32::try_from(frame.len()).unwrap().to_be_bytes();
        frame[..4].copy_from_slice(&size);
        frame
    };
    for properties in hostile {
        let mut peer = Peer::new(Connection::server(Options::default(), std::time::Duration::ZERO));
        peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
        let opened = with_properties(Open::default().into(), 9, &properties);
        peer.write_bytes(&opened);
        peer.next_write();
        let (violation, _) = closed(&mut peer);
        assert!(matches!(violation, Violation::Frame(_)), "{violation:?}");

        let (mut peer, _) = Peer::begun(Options::default().max_frame_size(65_536));
        peer.write_bytes(&with_properties(attach(0, Role::Sender).into(), 13, &properties));
        let (violation, told) = closed(&mut peer);
        assert!(matches!(violation, Violation::Frame(FrameError::Body(_))), "{violation:?}");
        assert_eq!(told, condition::DECODE_ERROR);
    }
}

/// Rules: A-59.
/// Attacks: 86.
#[test]
fn opens_begins_and_channels_are_checked() {
    let closing = |performative: Performative, channel| {
        let mut peer = Peer::opened(Options::default().max_sessions(2));
        peer.write(0, begin());
        peer.write(channel, performative);
        closed(&mut peer)
    };
    let (violation, told) = closing(Open::default().into(), 0);
    assert!(matches!(violation, Violation::UnexpectedFrame { frame: "open", .. }));
    assert_eq!(told, condition::ILLEGAL_STATE);
    let (violation, _) = closing(begin().into(), 0);
    assert_eq!(violation, Violation::ChannelInUse { channel: 0 });
    let (violation, _) = closing(Begin { remote_channel: Some(9), ..begin() }.into(), 1);
    assert_eq!(violation, Violation::ChannelInUse { channel: 1 });
    let (violation, told) = closing(begin().into(), 4);
    assert_eq!((violation, told), (Violation::Channel { channel: 4, max: 3 }, condition::FRAMING_ERROR));
    let (violation, _) = closing(Flow::default().into(), 1);
    assert_eq!(violation, Violation::ChannelWithoutSession { channel: 1 });
    let (violation, told) = closing(attach(512, Role::Sender).into(), 0);
    assert_eq!((violation, told), (Violation::Handle { handle: 512, max: 511 }, condition::FRAMING_ERROR));
}

/// Rules: A-59.
#[test]
fn an_open_that_cannot_be_served_is_answered_with_an_open_and_a_close() {
    let opens = [
        (Open { max_frame_size: 511, ..Open::default() }, Violation::MaxFrameSize(511)),
        (Open { idle_time_out: Some(99), ..Open::default() }, Violation::IdleTimeoutTooShort { milliseconds: 99 }),
    ];
    for (open, expected) in opens {
        let mut peer = Peer::new(Connection::server(Options::default(), std::time::Duration::ZERO));
        peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
        peer.write(0, open);
        let events = peer.events();
        let [Event::Closed { reason: Reason::Violation(violation) }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(**violation, expected);
        peer.next_write();
        let frames = peer.frames();
        assert!(matches!(frames[..], [(_, Performative::Open(_), _), (_, Performative::Close(_), _)]), "{frames:?}");
    }
    let mut peer = Peer::new(Connection::server(Options::default(), std::time::Duration::ZERO));
    peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    peer.write(0, begin());
    peer.next_write();
    assert!(matches!(closed(&mut peer).0, Violation::UnexpectedFrame { frame: "begin", .. }));
}

/// Rules: A-59.
/// Attacks: 86.
#[test]
fn handles_are_checked() {
    let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
    peer.write(0, attach(0, Role::Receiver));
    assert_eq!(ended(&mut peer), (Violation::HandleInUse { handle: 0 }, condition::HANDLE_IN_USE));
    for performative in [
        Performative::from(Transfer { handle: 7, ..transfer(0, true) }),
        Flow { handle: Some(7), ..Flow::default() }.into(),
        Detach { handle: 7, ..Detach::default() }.into(),
    ] {
        let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
        peer.write(0, performative);
        assert_eq!(ended(&mut peer), (Violation::UnattachedHandle { handle: 7 }, condition::UNATTACHED_HANDLE));
    }
    let (mut peer, _) = Peer::attached(Options::default(), Role::Receiver);
    peer.transfer(0, true);
    assert_eq!(ended(&mut peer), (Violation::TransferToSender { handle: 0 }, condition::NOT_ALLOWED));
}

/// Rules: A-59.
#[test]
fn a_transfer_beyond_the_session_window_ends_the_session() {
    let options = || Options::default().incoming_window(4);
    let packet: Vec<u8> = (0..5).flat_map(|number| encode(0, transfer(number, true), b"")).collect();
    let (mut peer, _) = Peer::attached(options(), Role::Sender);
    peer.write_bytes(&packet);
    assert_eq!(ended(&mut peer), (Violation::Window, condition::WINDOW_VIOLATION));
    // The window is opened again when half of it is used.
    let (mut peer, _) = Peer::attached(options(), Role::Sender);
    for number in 0..100 {
        peer.transfer(number, true);
    }
    assert_eq!(peer.events().len(), 100);
    assert_eq!(peer.frames().len(), 50);
}

/// Rules.
/// Attacks: 86.
#[test]
fn deliveries_beyond_the_credit_detach_the_link() {
    let (mut peer, link) = Peer::attached(Options::default().credit_overrun(2), Role::Sender);
    peer.engine.credit(link, 1).unwrap();
    for number in 0..3 {
        peer.transfer(number, true);
    }
    assert_eq!(peer.events().len(), 3);
    peer.transfer(3, true);
    assert_eq!(detached(&mut peer), (Violation::Credit, condition::TRANSFER_LIMIT_EXCEEDED));
}

/// Rules: A-59.
/// Attacks: 87.
#[test]
fn a_message_that_is_too_large_detaches_the_link_as_soon_as_it_is() {
    let (mut peer, _) = Peer::attached(Options::default().max_message_size(10), Role::Sender);
    peer.write_with(0, transfer(0, false), &[0; 10]);
    assert!(matches!(peer.events()[..], [Event::Delivery(_)]));
    peer.write_with(0, Transfer { more: true, ..transfer(1, false) }, &[0; 6]);
    peer.write_with(0, Transfer { more: true, ..Transfer::default() }, &[0; 5]);
    // The rest of it is ignored.
    peer.write_with(0, Transfer::default(), &[0; 6]);
    assert_eq!(detached(&mut peer), (Violation::MessageSize { max: 10 }, condition::MESSAGE_SIZE_EXCEEDED));
}

/// Rules: A-59.
#[test]
fn a_message_that_is_too_large_is_reported_without_its_payload_if_the_application_refuses_it() {
    let (mut peer, link) = Peer::attached(Options::default().max_message_size(10).report_too_large(true), Role::Sender);
    peer.write_with(0, transfer(0, false), &[0; 11]);
    peer.write_with(0, Transfer { more: true, ..transfer(1, true) }, &[0; 6]);
    for _ in 0..3 {
        peer.write_with(0, Transfer { more: true, ..Transfer::default() }, &[0; 5]);
    }
    peer.write_with(0, Transfer::default(), &[0; 1]);
    peer.write_with(0, Transfer { more: true, ..transfer(2, false) }, &[0; 11]);
    peer.write_with(0, Transfer { aborted: true, ..Transfer::default() }, &[]);
    peer.write_with(0, transfer(3, false), &[0; 10]);
    let events = peer.events();
    let [
        Event::DeliveryTooLarge { id, settled: false, size: 11, .. },
        Event::DeliveryTooLarge { settled: true, size: 22, .. },
        Event::DeliveryAborted { .. },
        Event::Delivery(_),
    ] = events[..]
    else {
        panic!("{events:?}")
    };
    peer.frames();
    assert_eq!(peer.engine.settle(link, [id], Some(&Rejected::default().into()), true), Ok(1));
    assert!(matches!(peer.frame(), Performative::Disposition(answer) if answer.first == 0 && answer.settled));
}

/// Rules: A-59.
#[test]
fn unsettled_deliveries_of_the_peer_are_limited() {
    let (mut peer, _) = Peer::attached(Options::default().max_unsettled(3), Role::Sender);
    for number in 0..4 {
        peer.transfer(number, false);
    }
    assert_eq!(detached(&mut peer), (Violation::Unsettled { max: 3 }, condition::RESOURCE_LIMIT_EXCEEDED));
}

/// Rules: A-59.
#[test]
fn fields_of_a_transfer_and_a_disposition_are_checked() {
    for transfers in [
        vec![Transfer { delivery_id: None, ..transfer(0, false) }],
        vec![Transfer { delivery_tag: Some(vec![0; 33].into()), ..transfer(0, false) }],
        vec![Transfer { more: true, ..transfer(0, false) }, transfer(1, false)],
    ] {
        let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
        for transfer in transfers {
            peer.write(0, transfer);
        }
        let (violation, told) = detached(&mut peer);
        assert!(matches!(violation, Violation::Field { .. }) && told == condition::INVALID_FIELD);
    }
    let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
    peer.write(0, Disposition { first: 5, last: Some(4), ..Disposition::default() });
    let (violation, told) = ended(&mut peer);
    assert!(
        matches!(violation, Violation::Field { field: "disposition.last", .. }) && told == condition::INVALID_FIELD
    );
}

/// Rules: A-59.
#[test]
fn a_violation_before_the_answer_to_an_attach_is_attached_and_detached() {
    let (mut peer, _) = Peer::begun(Options::default());
    peer.write(0, Attach { ..attach(0, Role::Sender) });
    peer.write(0, Transfer { delivery_id: None, ..transfer(0, false) });
    peer.events();
    let frames = peer.frames();
    assert!(matches!(frames[..], [(_, Performative::Attach(_), _), (_, Performative::Detach(_), _)]), "{frames:?}");
}
