use std::fmt::Debug;

use consign_amqp::{
    codec::{self, Decode, Encode},
    types::{
        Accepted, Attach, AttachTarget, Begin, Close, Coordinator, Declare, Declared, DeliveryState, Detach, Discharge,
        Disposition, End, Error, Flow, Modified, Multiple, Open, Performative, Received, ReceiverSettleMode, Rejected,
        Released, Role, SaslChallenge, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse,
        SenderSettleMode, Source, Target, TerminusDurability, TransactionalState, Transfer, condition,
    },
    value::{Binary, Described, List, Map, Symbol, Value},
};

use crate::{decode, hex, to_hex};

fn symbols(names: &[&'static str]) -> Multiple<Symbol> {
    names.iter().map(|name| Symbol::from_static(name)).collect()
}

fn map() -> Map {
    [(Symbol::from_static("key").into(), 1_u32.into())].into_iter().collect()
}

fn error() -> Error {
    Error { info: Some(map()), ..Error::new(condition::NOT_FOUND, "no such queue") }
}

fn bytes(text: &'static str) -> Binary {
    text.as_bytes().into()
}

/// The composite round trips; its list has so many elements, all of its fields; it is the same with its descriptor as a symbol,
/// with more fields than it has, and in the widest encodings.
fn check<T: Decode + Encode + Debug + PartialEq>(value: &T, fields: usize) {
    let encoding = codec::encode(value).unwrap();
    assert_eq!(&codec::decode::<T>(&encoding).unwrap(), value, "{}", to_hex(&encoding));
    let Value::Described(described) = codec::decode(&encoding).unwrap() else { panic!("a described value") };
    let Value::List(List(mut elements)) = described.value else { panic!("a list") };
    assert_eq!(elements.len(), fields, "every field is written");
    elements.extend([true.into(), List::default().into()]);
    for descriptor in [described.descriptor.clone(), Symbol::try_from(name(&described.descriptor)).unwrap().into()] {
        let longer = Value::from(Described { descriptor, value: List(elements.clone()).into() });
        assert_eq!(&codec::decode::<T>(&codec::encode(&longer).unwrap()).unwrap(), value, "{longer:?}");
    }
}

fn name(descriptor: &Value) -> &'static str {
    let names = [
        (Open::DESCRIPTOR, Open::NAME),
        (Begin::DESCRIPTOR, Begin::NAME),
        (Attach::DESCRIPTOR, Attach::NAME),
        (Flow::DESCRIPTOR, Flow::NAME),
        (Transfer::DESCRIPTOR, Transfer::NAME),
        (Disposition::DESCRIPTOR, Disposition::NAME),
        (Detach::DESCRIPTOR, Detach::NAME),
        (End::DESCRIPTOR, End::NAME),
        (Close::DESCRIPTOR, Close::NAME),
        (Error::DESCRIPTOR, Error::NAME),
        (Source::DESCRIPTOR, Source::NAME),
        (Target::DESCRIPTOR, Target::NAME),
        (Coordinator::DESCRIPTOR, Coordinator::NAME),
        (Declare::DESCRIPTOR, Declare::NAME),
        (Discharge::DESCRIPTOR, Discharge::NAME),
        (Declared::DESCRIPTOR, Declared::NAME),
        (TransactionalState::DESCRIPTOR, TransactionalState::NAME),
        (Received::DESCRIPTOR, Received::NAME),
        (Accepted::DESCRIPTOR, Accepted::NAME),
        (Rejected::DESCRIPTOR, Rejected::NAME),
        (Released::DESCRIPTOR, Released::NAME),
        (Modified::DESCRIPTOR, Modified::NAME),
        (SaslMechanisms::DESCRIPTOR, SaslMechanisms::NAME),
        (SaslInit::DESCRIPTOR, SaslInit::NAME),
        (SaslChallenge::DESCRIPTOR, SaslChallenge::NAME),
        (SaslResponse::DESCRIPTOR, SaslResponse::NAME),
        (SaslOutcome::DESCRIPTOR, SaslOutcome::NAME),
    ];
    let found = names.into_iter().find(|(code, _)| descriptor.as_integer() == Some((*code).into()));
    found.expect("a known descriptor").1
}

/// Rules: A-48.
#[test]
fn connections_and_sessions_round_trip_with_every_field() {
    check::<Performative>(
        &Open {
            container_id: "container".into(),
            hostname: Some("host".into()),
            max_frame_size: 65_536,
            channel_max: 1,
            idle_time_out: Some(30_000),
            outgoing_locales: symbols(&["en-US"]),
            incoming_locales: symbols(&["de-DE", "en-US"]),
            offered_capabilities: symbols(&["offered"]),
            desired_capabilities: symbols(&["desired"]),
            properties: Some(map()),
        }
        .into(),
        10,
    );
    check::<Performative>(
        &Begin {
            remote_channel: Some(1),
            next_outgoing_id: 2,
            incoming_window: 3,
            outgoing_window: 4,
            handle_max: 5,
            offered_capabilities: symbols(&["offered"]),
            desired_capabilities: symbols(&["desired"]),
            properties: Some(map()),
        }
        .into(),
        8,
    );
    check::<Performative>(&End { error: Some(error()) }.into(), 1);
    check::<Performative>(&Close { error: Some(error()) }.into(), 1);
    check(&error(), 3);
}

/// Rules: A-48.
#[test]
fn links_round_trip_with_every_field() {
    let source = Source {
        address: Some("queue".into()),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: Symbol::from_static("never"),
        timeout: 60,
        dynamic: true,
        dynamic_node_properties: Some(map()),
        distribution_mode: Some(Symbol::from_static("copy")),
        filter: Some(map()),
        default_outcome: Some(Released {}.into()),
        outcomes: symbols(&[Accepted::NAME, Rejected::NAME]),
        capabilities: symbols(&["queue"]),
    };
    let target = Target {
        address: Some("queue".into()),
        durable: TerminusDurability::Configuration,
        expiry_policy: Symbol::from_static("link-detach"),
        timeout: 1,
        dynamic: true,
        dynamic_node_properties: Some(map()),
        capabilities: symbols(&["queue"]),
    };
    check(&source, 11);
    check(&target, 7);
    let coordinator = Coordinator { capabilities: symbols(&["amqp:local-transactions"]) };
    check(&coordinator, 1);
    for target in [AttachTarget::from(target), coordinator.into()] {
        check::<Performative>(
            &Attach {
                name: "link".into(),
                handle: 300,
                role: Role::Receiver,
                snd_settle_mode: SenderSettleMode::Unsettled,
                rcv_settle_mode: ReceiverSettleMode::Second,
                source: Some(Box::new(source.clone())),
                target: Some(target),
                unsettled: Some(map()),
                incomplete_unsettled: true,
                initial_delivery_count: Some(9),
                max_message_size: Some(1 << 40),
                offered_capabilities: symbols(&["offered"]),
                desired_capabilities: symbols(&["desired"]),
                properties: Some(map()),
            }
            .into(),
            14,
        );
    }
    check::<Performative>(&Detach { handle: 1, closed: true, error: Some(error()) }.into(), 3);
    check::<Performative>(
        &Flow {
            next_incoming_id: Some(1),
            incoming_window: 2,
            next_outgoing_id: 3,
            outgoing_window: 4,
            handle: Some(5),
            delivery_count: Some(u32::MAX),
            link_credit: Some(7),
            available: Some(8),
            drain: true,
            echo: true,
            properties: Some(map()),
        }
        .into(),
        11,
    );
}

fn states() -> Vec<(DeliveryState, usize)> {
    let rejected = Rejected { error: Some(error()) };
    let modified = Modified { delivery_failed: true, undeliverable_here: true, message_annotations: Some(map()) };
    let transactional = |outcome| TransactionalState { txn_id: bytes("transaction"), outcome };
    vec![
        (Received { section_number: 1, section_offset: 1 << 40 }.into(), 2),
        (Accepted {}.into(), 0),
        (rejected.clone().into(), 1),
        (Released {}.into(), 0),
        (modified.into(), 3),
        (Declared { txn_id: bytes("transaction") }.into(), 1),
        (transactional(Some(Box::new(rejected.into()))).into(), 2),
        (transactional(None).into(), 2),
    ]
}

/// Rules: A-48.
#[test]
fn deliveries_and_their_states_round_trip_with_every_field() {
    for (state, fields) in states() {
        check(&state, fields);
        check::<Performative>(
            &Transfer {
                handle: 1,
                delivery_id: Some(2),
                delivery_tag: Some(bytes("0123456789abcdef")),
                message_format: Some(consign_amqp::message::BATCH_FORMAT),
                settled: Some(true),
                more: true,
                rcv_settle_mode: Some(ReceiverSettleMode::Second),
                state: Some(state.clone()),
                resume: true,
                aborted: true,
                batchable: true,
            }
            .into(),
            11,
        );
        check::<Performative>(
            &Disposition {
                role: Role::Receiver,
                first: 1,
                last: Some(2),
                settled: true,
                state: Some(state),
                batchable: true,
            }
            .into(),
            6,
        );
    }
    let outcomes: Vec<_> = states().iter().map(|(state, _)| state.is_outcome()).collect();
    assert_eq!(outcomes, [false, true, true, true, true, true, true, false]);
}

/// Rules: A-48.
#[test]
fn transactions_and_sasl_round_trip_with_every_field() {
    check(&Declare { global_id: Some(List(vec![Value::Null]).into()) }, 1);
    check(&Discharge { txn_id: bytes("transaction"), fail: true }, 2);
    check::<SaslFrame>(&SaslMechanisms { sasl_server_mechanisms: symbols(&["PLAIN", "EXTERNAL"]) }.into(), 1);
    check::<SaslFrame>(
        &SaslInit {
            mechanism: Symbol::from_static("PLAIN"),
            initial_response: Some(bytes("\0user\0password")),
            hostname: Some("host".into()),
        }
        .into(),
        3,
    );
    check::<SaslFrame>(&SaslChallenge { challenge: bytes("challenge") }.into(), 1);
    check::<SaslFrame>(&SaslResponse { response: bytes("response") }.into(), 1);
    for code in [SaslCode::Ok, SaslCode::Auth, SaslCode::Sys, SaslCode::SysPerm, SaslCode::SysTemp] {
        check::<SaslFrame>(&SaslOutcome { code, additional_data: Some(bytes("data")) }.into(), 2);
    }
}

/// Rules: A-48.
#[test]
fn missing_and_null_fields_are_their_defaults() {
    let source = Source { address: Some("q".into()), ..Source::default() };
    assert_eq!(source.expiry_policy, "session-end");
    for digits in
        ["00 5328 c0 04 01 a1 0171", "00 5328 c0 07 04 a1 0171 40 40 40", "00 5328 d0 00000007 00000001 a1 0171"]
    {
        assert_eq!(decode(digits).as_ref(), Ok(&source), "{digits}");
    }
    let open: Open = decode("00 5310 c0 04 01 a1 0163").unwrap();
    assert_eq!((open.max_frame_size, open.channel_max), (u32::MAX, u16::MAX));
    let header: consign_amqp::message::Header = decode("00 5370 45").unwrap();
    assert_eq!((header.priority, header.delivery_count, header.durable), (4, 0, false));
}

/// Rules: A-37.
#[test]
fn the_delivery_count_of_a_header_is_always_written() {
    let header = codec::encode(&consign_amqp::message::Header::default()).unwrap();
    assert_eq!(to_hex(&header), to_hex(&hex("00 5370 c0 06 05 40 40 40 40 43")));
}

/// Rules: A-37.
#[test]
fn a_field_of_a_header_is_written_unless_it_has_its_default() {
    let mut header = consign_amqp::message::Header::default();
    (header.durable, header.priority, header.first_acquirer) = (true, 0, true);
    let written = codec::encode(&header).unwrap();
    assert_eq!(to_hex(&written), to_hex(&hex("00 5370 c0 07 05 41 5000 40 41 43")));
    assert_eq!(decode::<consign_amqp::message::Header>("00 5370 c0 07 05 41 5000 40 41 43").unwrap(), header);
    for default in ["00 5370 c0 06 05 40 40 40 40 43", "00 5370 c0 07 05 42 5004 40 42 43", "00 5370 45"] {
        let expected = consign_amqp::message::Header::default();
        assert_eq!(decode::<consign_amqp::message::Header>(default).unwrap(), expected, "{default}");
    }
}

/// Rules: A-36.
#[test]
fn an_attach_of_a_sender_without_a_delivery_count_is_read() {
    let attach: Attach = decode("00 5312 c0 06 03 a1 016c 43 42").unwrap();
    assert_eq!((attach.role, attach.initial_delivery_count), (Role::Sender, None));
    assert_eq!((attach.snd_settle_mode, attach.rcv_settle_mode), (SenderSettleMode::Mixed, ReceiverSettleMode::First));
}

/// Rules: A-46.
#[test]
fn a_multiple_field_is_null_one_value_or_an_array_of_symbols_or_strings() {
    let mechanisms = |field: &str| {
        let content = hex(field);
        let digits = format!("00 5340 c0 {:02x} 01 {}", content.len() + 1, to_hex(&content));
        decode::<SaslMechanisms>(&digits).map(|frame| frame.sasl_server_mechanisms)
    };
    assert_eq!(mechanisms("a3 01 61"), Ok(symbols(&["a"])));
    assert_eq!(mechanisms("a1 01 61"), Ok(symbols(&["a"])));
    assert_eq!(mechanisms("e0 06 02 a3 0161 0162"), Ok(symbols(&["a", "b"])));
    assert_eq!(mechanisms("f0 0000000f 00000002 b1 0000000161 0000000162"), Ok(symbols(&["a", "b"])));
    assert_eq!(mechanisms("e0 02 00 a3"), Ok(symbols(&[])));
    assert!(mechanisms("e0 03 01 52 01").is_err());
    assert!(mechanisms("40").is_err(), "mandatory");
}

#[test]
fn a_composite_of_another_type_is_refused() {
    let kind = |error: codec::DecodeError| (error.kind(), error.expected_type().is_some());
    let refused = (codec::DecodeErrorKind::Descriptor, true);
    assert_eq!(decode::<End>("00 5318 45").map_err(kind), Err(refused));
    assert_eq!(decode::<DeliveryState>("00 5318 45").map_err(kind), Err(refused));
    assert_eq!(decode::<consign_amqp::message::Data>("00 5376 45").map_err(kind), Err(refused));
    assert_eq!(decode::<consign_amqp::message::Footer>("00 5372 c1 01 00").map_err(kind), Err(refused));
    assert_eq!(decode::<End>("45").unwrap_err().kind(), codec::DecodeErrorKind::Type);
}

#[test]
fn numbers_without_a_meaning_are_refused_where_they_are_enumerations() {
    for digits in ["00 5344 c0 03 01 50 05", "00 5344 c0 03 01 52 01"] {
        assert!(decode::<SaslOutcome>(digits).is_err(), "{digits}");
    }
    assert!(decode::<Target>("00 5329 c0 04 02 40 52 03").is_err());
    assert!(decode::<Attach>("00 5312 c0 08 04 a1 016c 43 42 50 03").is_err());
}
