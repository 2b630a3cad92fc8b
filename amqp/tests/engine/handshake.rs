use std::time::Duration;

use bytes::BytesMut;
use consign_amqp::{
    engine::{CommandError, Connection, Event, Options, Reason, Received, SaslCredentials, Violation},
    frame::ProtocolHeader,
    types::{Begin, Close, Open, Performative, Role, SaslCode, SaslFrame, SaslInit, SaslMechanisms, condition},
    value::Symbol,
};

use crate::peer::{Peer, attach, begin, encode};

fn sasl_server() -> Options {
    Options::default().sasl_mechanisms(["MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL"].map(Symbol::from_static))
}

fn sasl(frame: impl Into<SaslFrame>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.into().encode_frame(&mut bytes).unwrap();
    bytes
}

/// Rules: A-49.
#[test]
fn the_protocol_header_and_the_open_are_separate_writes() {
    let mut client = Peer::new(Connection::client(Options::default(), Duration::ZERO));
    client.engine.open(Open::default()).unwrap();
    client.engine.begin(Begin::default()).unwrap();
    assert_eq!(client.next_write(), ProtocolHeader::Amqp.to_bytes().as_slice());
    let frames = client.frames();
    assert!(matches!(frames[..], [(0, Performative::Open(_), _), (0, Performative::Begin(_), _)]), "{frames:?}");
}

/// Rules: A-49.
#[test]
fn open_begin_and_attach_in_one_packet_are_answered_in_order() {
    let mut peer = Peer::new(Connection::server(Options::default(), Duration::ZERO));
    let mut packet = ProtocolHeader::Amqp.to_bytes().to_vec();
    packet.extend(encode(0, Open::default(), b""));
    packet.extend(encode(0, begin(), b""));
    packet.extend(encode(0, attach(0, Role::Sender), b""));
    peer.write_bytes(&packet);
    // The begin is answered behind our open.
    assert!(matches!(peer.events()[..], [Event::Opened(_)]));
    assert_eq!(peer.receive(), Received::Blocked);
    peer.engine.open(Open::default()).unwrap();
    assert_eq!(peer.receive(), Received::NeedsInput);
    let events = peer.events();
    let [Event::Begun { .. }, Event::AttachRequested { link, .. }] = events[..] else { panic!("{events:?}") };
    peer.engine.accept(link, attach(7, Role::Sender)).unwrap();
    peer.next_write();
    let frames = peer.frames();
    let [(_, Performative::Open(_), _), (_, Performative::Begin(begin), _), (_, Performative::Attach(attach), _)] =
        &frames[..]
    else {
        panic!("{frames:?}")
    };
    assert_eq!((begin.remote_channel, attach.handle, attach.role), (Some(0), 0, Role::Receiver));
}

/// Rules: A-50.
#[test]
fn the_application_of_the_server_accepts_the_credentials() {
    let mut server = Peer::new(Connection::server(sasl_server(), Duration::ZERO));
    let credentials = SaslCredentials::plain("key", "secret");
    let client = Connection::client(Options::default().sasl_client(credentials), Duration::ZERO);
    let mut client = Peer::new(client);
    client.engine.open(Open::default()).unwrap();
    assert!(!client.engine.is_open());
    for _ in 0..4 {
        let bytes = client.next_write();
        server.write_bytes(&bytes);
        let bytes = server.next_write();
        client.write_bytes(&bytes);
        let bytes = server.next_write();
        client.write_bytes(&bytes);
        if let [Event::SaslInit(init)] = &server.events()[..] {
            assert_eq!(init.initial_response.as_ref().unwrap().as_ref(), b"\0key\0secret");
            server.engine.sasl_outcome(SaslCode::Ok).unwrap();
        }
    }
    assert!(matches!(client.events()[..], [Event::Authenticated]));
    assert!(client.engine.is_open());
    let open = client.next_write();
    server.write_bytes(&open);
    assert!(matches!(server.events()[..], [Event::Opened(_)]));
}

#[test]
fn the_debug_output_of_a_connection_has_no_password() {
    let credentials = SaslCredentials::plain("key", "secret");
    let client = Connection::client(Options::default().sasl_client(credentials), Duration::ZERO);
    let mut client = Peer::new(client);
    client.write_bytes(&ProtocolHeader::Sasl.to_bytes());
    let mechanisms = SaslMechanisms { sasl_server_mechanisms: [Symbol::from_static("PLAIN")].into_iter().collect() };
    client.write_bytes(&sasl(mechanisms));
    let shown = format!("{:?}", client.engine);
    assert!(!shown.contains("secret") && !shown.contains("115, 101, 99, 114, 101, 116"), "{shown}");
    client.next_write();
    assert!(client.next_write().ends_with(b"\0key\0secret\x40"));
}

/// Rules: A-50.
#[test]
fn an_outcome_follows_the_init_without_another_frame_of_the_client() {
    let mut server = Peer::new(Connection::server(sasl_server(), Duration::ZERO));
    server.write_bytes(&ProtocolHeader::Sasl.to_bytes());
    server.write_bytes(&sasl(SaslInit { mechanism: Symbol::from_static("MSSBCBS"), ..SaslInit::default() }));
    // What the client sends ahead waits for the decision.
    server.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    assert_eq!(server.receive(), Received::Blocked);
    assert!(matches!(server.events()[..], [Event::SaslInit(_)]));
    server.engine.sasl_outcome(SaslCode::Ok).unwrap();
    assert_eq!(server.receive(), Received::NeedsInput);
    assert_eq!(server.next_write(), ProtocolHeader::Sasl.to_bytes().as_slice());
}

/// Rules: A-50.
#[test]
fn refused_credentials_and_mechanisms_close_the_connection() {
    for (mechanism, decided) in [("PLAIN", true), ("SCRAM-SHA-1", false)] {
        let mut server = Peer::new(Connection::server(sasl_server(), Duration::ZERO));
        server.write_bytes(&ProtocolHeader::Sasl.to_bytes());
        server.write_bytes(&sasl(SaslInit { mechanism: mechanism.try_into().unwrap(), ..SaslInit::default() }));
        if decided {
            assert!(matches!(server.events()[..], [Event::SaslInit(_)]));
            server.engine.sasl_outcome(SaslCode::Auth).unwrap();
        }
        assert_eq!(server.events(), [Event::Closed { reason: Reason::SaslRefused(SaslCode::Auth) }]);
        assert_eq!(server.next_write(), ProtocolHeader::Sasl.to_bytes().as_slice());
        assert!(server.next_write().ends_with(&[0xc0, 4, 2, 0x50, 1, 0x40]), "an outcome of 1");
    }
}

/// Rules: A-50.
#[test]
fn a_client_whose_mechanism_is_not_offered_names_it_and_the_offer() {
    let violation = |offered: &[&str]| {
        let mechanism = Symbol::from_static("PLAIN");
        let credentials = SaslCredentials { mechanism, initial_response: None, hostname: None };
        let mut client = Peer::new(Connection::client(Options::default().sasl_client(credentials), Duration::ZERO));
        client.write_bytes(&ProtocolHeader::Sasl.to_bytes());
        let offered = offered.iter().map(|name| Symbol::try_from(*name).unwrap()).collect();
        client.write_bytes(&sasl(SaslMechanisms { sasl_server_mechanisms: offered }));
        let [Event::Closed { reason: Reason::Violation(violation) }] = &client.events()[..] else { panic!() };
        violation.to_string()
    };
    let not_offered = "the server does not offer the SASL mechanism PLAIN: it offers";
    let offered = violation(&["SCRAM-SHA-256", "a\nb"]);
    assert_eq!(offered, format!("{not_offered} SCRAM-SHA-256, a\\nb"));
    // As many as a frame has space for.
    let cut = violation(&[&*"X".repeat(36); 12]);
    assert!(cut.matches('X').count() == 8 * 32 && cut.ends_with("X, others"), "{cut}");
}

/// Rules: A-50.
#[test]
fn challenges_and_responses_reach_the_applications() {
    let credentials =
        SaslCredentials { mechanism: Symbol::from_static("EXTERNAL"), initial_response: None, hostname: None };
    let client = Connection::client(Options::default().sasl_client(credentials), Duration::ZERO);
    let mut client = Peer::new(client);
    let mut server = Peer::new(Connection::server(sasl_server(), Duration::ZERO));
    let mut seen = Vec::new();
    for _ in 0..8 {
        let bytes = client.next_write();
        server.write_bytes(&bytes);
        let bytes = server.next_write();
        client.write_bytes(&bytes);
        for event in server.events().into_iter().chain(client.events()) {
            match event {
                Event::SaslInit(_) => server.engine.sasl_challenge(b"who".to_vec().into()).unwrap(),
                Event::SaslChallenge(challenge) => {
                    seen.push(challenge.0);
                    client.engine.sasl_response(b"me".to_vec().into()).unwrap();
                }
                Event::SaslResponse(response) => {
                    seen.push(response.0);
                    server.engine.sasl_outcome(SaslCode::Ok).unwrap();
                }
                Event::Authenticated => seen.push("done".into()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen, ["who", "me", "done"]);
}

/// Rules: A-50.
#[test]
fn a_server_that_demands_sasl_refuses_amqp_and_says_what_it_supports() {
    let mut server = Peer::new(Connection::server(sasl_server(), Duration::ZERO));
    server.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    let [Event::Closed { reason: Reason::Violation(violation) }] = &server.events()[..] else { panic!() };
    assert_eq!(**violation, Violation::ProtocolHeader(ProtocolHeader::Amqp.to_bytes()));
    assert_eq!(server.next_write(), ProtocolHeader::Sasl.to_bytes().as_slice());

    let mut server = Peer::new(Connection::server(sasl_server().sasl_optional(true), Duration::ZERO));
    server.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    assert_eq!(server.next_write(), ProtocolHeader::Amqp.to_bytes().as_slice());
}

/// Rules: A-51.
#[test]
fn an_empty_frame_is_sent_within_half_of_the_idle_timeout_of_the_peer() {
    let mut peer = Peer::new(Connection::server(Options::default(), Duration::ZERO));
    peer.write_bytes(&ProtocolHeader::Amqp.to_bytes());
    peer.write(0, Open { idle_time_out: Some(60_000), ..Open::default() });
    peer.engine.open(Open::default()).unwrap();
    peer.frames_and_header();
    let (mut now, mut last) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..20 {
        now = peer.engine.deadline().unwrap();
        peer.engine.handle_deadline(now);
        if peer.engine.has_output() {
            assert_eq!(peer.next_write().as_ref(), [0, 0, 0, 8, 2, 0, 0, 0]);
            assert!(now.checked_sub(last).unwrap() <= Duration::from_secs(30), "{last:?} {now:?}");
            last = now;
        }
    }
    assert!(now.checked_sub(last).unwrap() <= Duration::from_secs(30));
}

/// Rules: A-51.
#[test]
fn a_peer_that_is_silent_for_the_idle_timeout_is_closed() {
    let mut peer = Peer::opened(Options::default().idle_timeout(Duration::from_secs(10)));
    peer.now = Duration::from_secs(9);
    peer.write_bytes(&[0, 0, 0, 8, 2, 0, 0, 0]);
    // A call without new bytes is no sign of life.
    peer.now = Duration::from_secs(12);
    let _ = peer.receive();
    peer.engine.handle_deadline(Duration::from_secs(18));
    assert_eq!(peer.engine.deadline(), Some(Duration::from_secs(19)));
    peer.engine.handle_deadline(Duration::from_secs(19));
    let [Event::Closed { reason: Reason::Violation(violation) }] = &peer.events()[..] else { panic!() };
    assert_eq!((&**violation, violation.condition()), (&Violation::IdleTimeout, condition::CONNECTION_FORCED));
    assert!(matches!(peer.frame(), Performative::Close(close) if close.error.is_some()));
}

/// Rules: A-51.
#[test]
fn half_of_the_idle_timeout_is_announced() {
    let options = Options::default().idle_timeout(Duration::from_secs(60));
    let mut client = Peer::new(Connection::client(options, Duration::ZERO));
    client.engine.open(Open::default()).unwrap();
    client.next_write();
    assert!(matches!(client.frame(), Performative::Open(open) if open.idle_time_out == Some(30_000)));
}

/// Rules: A-51.
/// Attacks: 89.
#[test]
fn the_handshake_and_the_close_are_limited_in_time() {
    let options = Options::default().handshake_timeout(Duration::from_secs(5));
    let mut peer = Peer::new(Connection::server(options.clone(), Duration::from_secs(1)));
    peer.now = Duration::from_secs(4);
    peer.write_bytes(b"AMQP");
    assert_eq!(peer.engine.deadline(), Some(Duration::from_secs(6)));
    peer.engine.handle_deadline(Duration::from_secs(6));
    let events = peer.events();
    let [Event::Closed { reason: Reason::Violation(violation) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(**violation, Violation::HandshakeTimeout);

    let mut peer = Peer::opened(options);
    assert_eq!(peer.engine.deadline(), None);
    peer.engine.close(None).unwrap();
    assert_eq!(peer.engine.close(None), Err(CommandError::Closed));
    assert_eq!(peer.engine.deadline(), Some(Duration::from_secs(5)));
    peer.engine.handle_deadline(Duration::from_secs(5));
    assert_eq!(peer.events(), [Event::Closed { reason: Reason::Local(None) }]);
}

#[test]
fn a_close_is_confirmed_and_what_crossed_it_is_ignored() {
    let (mut peer, _) = Peer::attached(Options::default(), Role::Sender);
    peer.engine.close(None).unwrap();
    peer.transfer(0, false);
    assert_eq!(peer.events(), []);
    peer.write(0, Close::default());
    assert_eq!(peer.events(), [Event::Closed { reason: Reason::Local(None) }]);

    let mut peer = Peer::opened(Options::default());
    peer.write(0, Close::default());
    assert_eq!(peer.events(), [Event::Closed { reason: Reason::Peer(None) }]);
    assert!(matches!(peer.frame(), Performative::Close(_)));
    let mut input = BytesMut::from(&[0_u8; 64][..]);
    assert_eq!(peer.engine.receive(Duration::ZERO, &mut input), Received::Closed);
    assert!(input.is_empty());
}

impl Peer {
    fn frames_and_header(&mut self) {
        self.next_write();
        self.frames();
    }
}
