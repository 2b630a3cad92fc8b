use consign_amqp::{
    engine::{CommandError, Event, Options, Reason},
    types::{
        Attach, Begin, Detach, Disposition, End, Error, Flow, Performative, ReceiverSettleMode, Role, SenderSettleMode,
        condition,
    },
    value::{Described, Map, Symbol, Value},
};

use crate::peer::{Peer, attach, begin};

/// Rules: A-35.
#[test]
fn a_refusal_is_an_attach_without_source_and_target_and_a_detach_that_closes() {
    for role in [Role::Sender, Role::Receiver] {
        let (mut peer, _) = Peer::begun(Options::default());
        peer.write(0, attach(3, role));
        let events = peer.events();
        let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
        peer.engine.refuse(link, Error::new(condition::NOT_FOUND, "no such entity")).unwrap();
        let frames = peer.frames();
        let [(_, Performative::Attach(answer), _), (_, Performative::Detach(detach), _)] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert_eq!((answer.name.as_str(), &answer.source, &answer.target), ("link-3", &None, &None));
        assert!(answer.role != role && detach.closed);
        assert_eq!(detach.error.as_ref().unwrap().condition, condition::NOT_FOUND);
        // What crossed the refusal is ignored.
        peer.write(0, Flow { handle: Some(3), link_credit: Some(5), ..Flow::default() });
        peer.write(0, Detach { handle: 3, closed: true, error: None });
        assert_eq!(peer.events(), [Event::Detached { link, closed: true, reason: Reason::Local(None) }]);
        assert!(peer.frames().is_empty());
    }
}

/// Rules: A-35.
#[test]
fn an_answer_without_source_or_target_is_a_refusal_whose_error_is_in_the_detach() {
    for role in [Role::Sender, Role::Receiver] {
        let (mut peer, session) = Peer::begun(Options::default());
        let link = peer.engine.attach(session, attach(0, role)).unwrap();
        let Performative::Attach(sent) = peer.frame() else { panic!() };
        let answer = if role == Role::Sender { Role::Receiver } else { Role::Sender };
        peer.write(0, Attach { name: sent.name, handle: 9, role: answer, ..Attach::default() });
        assert_eq!(peer.events(), []);
        let error = Error::new(condition::NOT_FOUND, "no such entity");
        peer.write(0, Detach { handle: 9, closed: true, error: Some(error.clone()) });
        let reason = Reason::Peer(Some(Box::new(error)));
        assert_eq!(peer.events(), [Event::Detached { link, closed: true, reason }]);
        assert!(matches!(peer.frame(), Performative::Detach(detach) if detach.handle == 0 && detach.closed));
    }
}

/// Rules: A-52.
#[test]
fn errors_have_their_three_fields() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.detach(link, true, Some(Error::new(condition::NOT_FOUND, "gone"))).unwrap();
    let bytes = peer.next_write();
    let error = bytes.windows(3).position(|window| window == [0, 0x53, 0x1d]).unwrap();
    // A list of a size, with three elements, of which the last is null.
    assert_eq!((bytes[error + 3], bytes[error + 5], bytes.last()), (0xc0, 3, Some(&0x40)));
}

/// Rules: A-36.
#[test]
fn a_sender_without_an_initial_delivery_count_begins_at_0() {
    let (mut peer, _) = Peer::begun(Options::default());
    peer.write(0, Attach { initial_delivery_count: None, ..attach(0, Role::Sender) });
    let events = peer.events();
    let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
    peer.engine.accept(link, attach(0, Role::Receiver)).unwrap();
    peer.engine.credit(link, 5).unwrap();
    let frames = peer.frames();
    assert!(matches!(&frames[1].1, Performative::Flow(flow) if flow.delivery_count == Some(0)), "{frames:?}");
}

/// Rules: A-52.
#[test]
fn an_answer_repeats_the_name_and_has_what_each_role_needs() {
    let (mut peer, _) = Peer::begun(Options::default().max_message_size(262_144));
    for (handle, role) in [(0, Role::Sender), (1, Role::Receiver)] {
        peer.write(0, attach(handle, role));
        let events = peer.events();
        let [Event::AttachRequested { link, ref attach }] = events[..] else { panic!("{events:?}") };
        let answer = Attach { source: attach.source.clone(), target: attach.target.clone(), ..Attach::default() };
        peer.engine.accept(link, answer).unwrap();
        assert_eq!(peer.engine.accept(link, Attach::default()).map_err(|_| ()), Err(()));
        let Performative::Attach(answer) = peer.frame() else { panic!() };
        assert_eq!((&answer.name, &answer.target), (&attach.name, &attach.target));
        if role == Role::Sender {
            assert_eq!((answer.role, answer.max_message_size), (Role::Receiver, Some(262_144)));
        } else {
            assert_eq!((answer.role, answer.initial_delivery_count), (Role::Sender, Some(0)));
        }
    }
}

#[test]
fn settle_modes_filters_and_properties_of_a_link_are_passed_on() {
    let (mut peer, _) = Peer::begun(Options::default());
    let mut request = attach(0, Role::Receiver);
    request.snd_settle_mode = SenderSettleMode::Unsettled;
    request.rcv_settle_mode = ReceiverSettleMode::Second;
    let filter = Symbol::from_static("com.microsoft:session-filter");
    let value = Described { descriptor: Value::Ulong(0x0000_0137_0000_000c), value: "session-1".into() };
    let mut filters = Map::default();
    filters.push(filter, value);
    request.source.as_mut().unwrap().filter = Some(filters);
    let mut properties = Map::default();
    properties.push(Symbol::from_static("com.microsoft:timeout"), 14_976_u32);
    request.properties = Some(properties);
    peer.write(0, request.clone());
    let events = peer.events();
    let [Event::AttachRequested { ref attach, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!(**attach, request);
}

/// Rules: A-53.
#[test]
fn frames_after_a_detach_and_after_an_end_are_ignored() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.write(0, Detach { handle: 0, closed: true, error: None });
    assert_eq!(peer.events(), [Event::Detached { link, closed: true, reason: Reason::Peer(None) }]);
    assert!(matches!(peer.frame(), Performative::Detach(detach) if detach.closed));
    for number in 0..40 {
        peer.transfer(number, false);
        peer.write(0, Flow { handle: Some(0), link_credit: Some(1), echo: true, ..Flow::default() });
    }
    peer.write(0, Detach::default());
    assert_eq!(peer.events(), []);
    assert!(
        peer.frames().iter().all(|(_, frame, _)| matches!(frame, Performative::Flow(flow) if flow.handle.is_none()))
    );

    peer.write(0, End::default());
    assert!(matches!(peer.events()[..], [Event::Ended { reason: Reason::Peer(None), .. }]));
    assert!(matches!(peer.frame(), Performative::End(_)));
    peer.transfer(40, false);
    peer.write(0, attach(5, Role::Sender));
    peer.write(0, Detach { handle: 5, ..Detach::default() });
    peer.write(0, Disposition { first: 3, ..Disposition::default() });
    peer.write(0, End::default());
    assert_eq!(peer.events(), []);
    assert!(peer.frames().is_empty(), "nothing is attached on an ended channel");
    // The channel can be used again.
    peer.write(0, begin());
    assert!(matches!(peer.events()[..], [Event::Begun { .. }]));
}

/// Rules: A-53.
#[test]
fn frames_that_cross_our_detach_and_our_end_are_ignored() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    let session = link.session();
    peer.engine.detach(link, true, None).unwrap();
    assert_eq!(peer.engine.detach(link, true, None), Err(CommandError::UnknownLink));
    peer.transfer(0, false);
    peer.write(0, Flow { handle: Some(0), echo: true, ..Flow::default() });
    assert_eq!(peer.events(), []);
    peer.write(0, Detach { handle: 0, closed: true, error: None });
    assert_eq!(peer.events(), [Event::Detached { link, closed: true, reason: Reason::Local(None) }]);

    peer.engine.end(session, None).unwrap();
    peer.write(0, attach(1, Role::Sender));
    peer.transfer(1, false);
    assert_eq!(peer.events(), []);
    peer.write(0, End::default());
    assert_eq!(peer.events(), [Event::Ended { session, reason: Reason::Local(None) }]);
    assert_eq!(peer.engine.end(session, None), Err(CommandError::UnknownSession));
    assert_eq!(peer.engine.credit(link, 1), Err(CommandError::UnknownLink));
}

#[test]
fn a_link_that_the_peer_detaches_before_the_answer_is_attached_and_detached() {
    let (mut peer, _) = Peer::begun(Options::default());
    peer.write(0, attach(0, Role::Receiver));
    peer.write(0, Detach { handle: 0, closed: true, error: None });
    let events = peer.events();
    let [Event::AttachRequested { link, .. }, Event::Detached { .. }] = events[..] else { panic!("{events:?}") };
    let frames = peer.frames();
    assert!(matches!(frames[..], [(_, Performative::Attach(_), _), (_, Performative::Detach(_), _)]), "{frames:?}");
    assert_eq!(peer.engine.accept(link, Attach::default()), Err(CommandError::UnknownLink));
}

#[test]
fn an_id_of_a_link_does_not_name_the_next_link_on_its_handle() {
    let (mut peer, first) = Peer::attached(Options::default(), Role::Sender);
    peer.write(0, Detach { handle: 0, closed: true, error: None });
    peer.events();
    peer.frames();
    let second = peer.attach(0, Role::Sender);
    assert_eq!((first.handle(), second.handle()), (0, 0));
    assert_ne!(first, second);
    assert_eq!(peer.engine.credit(first, 1), Err(CommandError::UnknownLink));
    assert_eq!(peer.engine.credit(second, 1), Ok(()));
}

#[test]
fn a_session_that_is_begun_and_ended_at_once_is_gone_when_the_peer_has_answered_both() {
    let mut peer = Peer::opened(Options::default());
    let session = peer.engine.begin(Begin::default()).unwrap();
    let link = peer.engine.attach(session, attach(0, Role::Sender)).unwrap();
    assert_eq!(peer.engine.sendable(link), 0);
    peer.engine.end(session, None).unwrap();
    peer.write(4, Begin { remote_channel: Some(0), ..begin() });
    peer.write(4, Attach { name: "link-0".into(), ..attach(0, Role::Receiver) });
    peer.write(4, End::default());
    assert_eq!(peer.events(), [Event::Ended { session, reason: Reason::Local(None) }]);
}
