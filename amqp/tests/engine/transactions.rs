use bytes::Bytes;
use consign_amqp::{
    codec,
    engine::{Event, Options, Reason},
    types::{
        Accepted, Attach, AttachTarget, Coordinator, Declare, Declared, DeliveryState, Detach, Discharge, Disposition,
        Flow, Performative, Rejected, Role, TransactionalState, Transfer,
    },
};

use crate::peer::{Peer, attach, transfer};

fn transactional(outcome: Option<DeliveryState>) -> DeliveryState {
    TransactionalState { txn_id: b"txn".to_vec().into(), outcome: outcome.map(Box::new) }.into()
}

/// The body of a message whose one section is an AMQP value.
fn value(body: &impl codec::Encode) -> Bytes {
    [&[0, 0x53, 0x77], &codec::encode(body).unwrap()[..]].concat().into()
}

/// Rules: T-74.
#[test]
fn a_coordinator_declares_and_discharges_by_the_outcomes_of_its_deliveries() {
    let (mut peer, _) = Peer::begun(Options::default());
    let target = AttachTarget::from(Coordinator::default());
    peer.write(0, Attach { target: Some(target.clone()), ..attach(0, Role::Sender) });
    let events = peer.events();
    let [Event::AttachRequested { link, ref attach }] = events[..] else { panic!("{events:?}") };
    assert_eq!(attach.target, Some(target));
    peer.engine
        .accept(link, Attach { source: attach.source.clone(), target: attach.target.clone(), ..Attach::default() })
        .unwrap();
    peer.frames();
    let declared: DeliveryState = Declared { txn_id: b"txn".to_vec().into() }.into();
    let discharge = Discharge { txn_id: b"txn".to_vec().into(), fail: false };
    let rejected: DeliveryState = Rejected::default().into();
    let steps = [
        (value(&Declare::default()), declared),
        (value(&discharge), Accepted {}.into()),
        (value(&discharge), rejected),
    ];
    for (number, (body, outcome)) in (0..).zip(steps) {
        peer.write_with(0, transfer(number, false), &body);
        let events = peer.events();
        let [Event::Delivery(delivery)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(delivery.payload.clone().into_bytes(), body);
        peer.engine.settle(link, [delivery.id], Some(&outcome), true).unwrap();
        assert!(
            matches!(peer.frame(), Performative::Disposition(answer) if answer.state == Some(outcome) && answer.settled)
        );
    }
}

/// Rules: T-74.
#[test]
fn transfers_and_dispositions_carry_the_state_of_their_transaction() {
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.write_with(0, Transfer { state: Some(transactional(None)), ..transfer(0, false) }, b"message");
    let events = peer.events();
    let [Event::Delivery(delivery)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(delivery.state, Some(transactional(None)));
    let outcome = transactional(Some(Accepted {}.into()));
    peer.engine.settle(link, [delivery.id], Some(&outcome), true).unwrap();
    assert!(matches!(peer.frame(), Performative::Disposition(answer) if answer.state == Some(outcome)));

    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(1), ..Flow::default() });
    peer.send(link, false);
    peer.events();
    let state = Some(transactional(Some(Accepted {}.into())));
    peer.write(0, Disposition { role: Role::Receiver, state: state.clone(), ..Disposition::default() });
    let events = peer.events();
    assert!(matches!(&events[..], [Event::Disposition { state: reported, .. }] if *reported == state), "{events:?}");
}

/// Rules: T-74.
#[test]
fn what_is_dropped_of_a_transaction_is_reported() {
    let incomplete = |session| Event::TransactionIncomplete { session, txn_id: b"txn".to_vec().into() };
    let (mut peer, link) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.detach(link, true, None).unwrap();
    peer.write_with(0, Transfer { state: Some(transactional(None)), ..transfer(0, false) }, b"message");
    assert_eq!(peer.events(), [incomplete(link.session())]);

    let (mut peer, link) = Peer::attached(Options::default(), Role::Receiver);
    peer.flow(Flow { handle: Some(0), link_credit: Some(2), ..Flow::default() });
    peer.send(link, false);
    peer.send(link, true);
    peer.events();
    let report = |first, last| Disposition {
        role: Role::Receiver,
        first,
        last,
        state: Some(transactional(Some(Accepted {}.into()))),
        ..Disposition::default()
    };
    peer.write(0, report(0, Some(1)));
    let events = peer.events();
    assert!(
        matches!(&events[..], [_, Event::Disposition { .. }] if events[0] == incomplete(link.session())),
        "{events:?}"
    );
    peer.write(0, report(5, None));
    assert_eq!(peer.events(), [incomplete(link.session())]);
}

/// Rules: T-75.
#[test]
fn the_end_of_a_control_link_is_an_event_however_it_comes() {
    let coordinator = || Attach { target: Some(Coordinator::default().into()), ..attach(0, Role::Sender) };
    let open = || {
        let (mut peer, session) = Peer::begun(Options::default());
        peer.write(0, coordinator());
        let events = peer.events();
        let [Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
        peer.engine.accept(link, coordinator()).unwrap();
        (peer, session, link)
    };
    let (mut peer, _, link) = open();
    peer.write(0, Detach { closed: true, ..Detach::default() });
    assert_eq!(peer.events(), [Event::Detached { link, closed: true, reason: Reason::Peer(None) }]);
    let (mut peer, session, _) = open();
    peer.write(0, consign_amqp::types::End::default());
    assert_eq!(peer.events(), [Event::Ended { session, reason: Reason::Peer(None) }]);
    let (mut peer, ..) = open();
    peer.engine.disconnected();
    assert_eq!(peer.events(), [Event::Closed { reason: Reason::Disconnected }]);
}
