//! What other encoders wrote, and what this one writes for their decoders: the files in `vectors/`.
//!
//! `vectors/with_proton.py` and `vectors/with_rhea.mjs` wrote `proton.txt` and `rhea.txt`, and read `ours.txt`, which this test
//! writes anew if `CONSIGN_WRITE_VECTORS` is set.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use bytes::Bytes;
use consign_amqp::{
    codec::{self, Limits},
    frame::{Frame, FrameHeader, FrameType},
    message::{BodyKind, EncodedMessage, MessageId, Section},
    types::{
        AttachTarget, DeliveryState, Performative, ReceiverSettleMode, Role, SaslCode, SaslFrame, SenderSettleMode,
        TerminusDurability, condition,
    },
    value::{Decimal128, Symbol, Timestamp, Uuid, Value, ValueType},
};
use serde_json::Value as Json;

use crate::{hex, notation, to_hex};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", name].iter().collect()
}

fn values() -> Vec<(String, Value)> {
    let text = fs::read_to_string(file("values.json")).unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    cases.map(|case| (case["id"].as_str().unwrap().to_owned(), notation::value(&case["value"]))).collect()
}

/// The encodings of a file by id, without those that its encoder cannot write.
fn encodings(name: &str) -> BTreeMap<String, Bytes> {
    let text = fs::read_to_string(file(name)).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' ')).filter(|(_, encoding)| !encoding.starts_with('-'));
    lines.map(|(id, encoding)| (id.to_owned(), hex(encoding))).collect()
}

/// A type with one encoding, or one of which Proton and rhea write the smallest encoding too.
fn is_forced(value: &Value) -> bool {
    !matches!(value.value_type(), ValueType::List | ValueType::Map | ValueType::Array | ValueType::Described)
}

/// Rules: A-44.
#[test]
fn what_proton_and_rhea_wrote_is_read_as_the_same_values() {
    for (name, least) in [("proton.txt", 163), ("rhea.txt", 161)] {
        let encodings = encodings(name);
        let mut read = 0;
        for (id, value) in values() {
            let Some(encoding) = encodings.get(&id) else { continue };
            assert_eq!(codec::decode::<Value>(encoding).as_ref(), Ok(&value), "{name}: {id}");
            if is_forced(&value) {
                assert_eq!(to_hex(&codec::encode(&value).unwrap()), to_hex(encoding), "{name}: {id}");
            }
            read += 1;
        }
        assert_eq!(read, least, "{name}");
    }
}

/// Rules: A-45.
#[test]
fn encodings_are_those_that_proton_and_rhea_have_read() {
    let lines = values().into_iter().map(|(id, value)| format!("{id} {}\n", to_hex(&codec::encode(&value).unwrap())));
    let ours: String = lines.collect();
    if env::var_os("CONSIGN_WRITE_VECTORS").is_some() {
        fs::write(file("ours.txt"), &ours).unwrap();
    }
    let read = fs::read_to_string(file("ours.txt")).unwrap();
    for (line, expected) in ours.lines().zip(read.lines()) {
        assert_eq!(line, expected, "write ours.txt anew, and check it with with_proton.py and with_rhea.mjs");
    }
    assert_eq!(ours.len(), read.len());
}

fn message(name: &str, id: &str) -> EncodedMessage {
    EncodedMessage::split(encodings(name)[id].clone()).unwrap()
}

/// Rules.
#[test]
fn messages_of_proton_and_rhea_are_split_into_their_sections() {
    for name in ["proton.txt", "rhea.txt"] {
        let data = message(name, "message-data");
        let header = data.header().unwrap().unwrap();
        assert!(header.durable && header.first_acquirer, "{name}");
        assert_eq!((header.priority, header.ttl, header.delivery_count), (7, Some(60_000), 3), "{name}");
        let delivery = data.delivery_annotations().unwrap().unwrap().0;
        assert_eq!(delivery.get("x-opt-delivery"), Some(&1_u64.into()), "{name}");
        let annotations = data.message_annotations().unwrap().unwrap().0;
        assert_eq!(annotations.get("x-opt-sequence-number"), Some(&42_i64.into()), "{name}");
        let properties = data.properties().unwrap().unwrap();
        let mut uuid = [0; 16];
        uuid[15] = 1;
        assert_eq!(properties.message_id, Some(MessageId::Uuid(Uuid(uuid))), "{name}");
        assert_eq!(properties.user_id, Some(b"user".as_slice().into()), "{name}");
        assert_eq!((properties.to, properties.subject), (Some("queue".into()), Some("order".into())), "{name}");
        assert_eq!(properties.content_type.unwrap(), "application/json", "{name}");
        assert_eq!(properties.absolute_expiry_time, Some(Timestamp(1_763_925_600_000)), "{name}");
        assert_eq!((properties.group_id, properties.group_sequence), (Some("session".into()), Some(9)), "{name}");
        assert_eq!(properties.reply_to_group_id, Some("reply-session".into()), "{name}");
        let application = data.application_properties().unwrap().unwrap();
        assert_eq!(application.get("text").and_then(Value::as_str), Some("value"), "{name}");
        assert_eq!(application.get("uint"), Some(&300_u32.into()), "{name}");
        assert_eq!(data.body_kind(), Some(BodyKind::Data), "{name}");
        let bodies: Vec<_> = data.data().map(|data| data.unwrap().0.0).collect();
        assert_eq!(bodies, [b"{}".as_slice()], "{name}");

        let sequence = message(name, "message-sequence");
        assert_eq!(sequence.properties().unwrap().unwrap().message_id, Some(MessageId::Ulong(7)), "{name}");
        assert_eq!(sequence.sequences().map(|list| list.unwrap().0.0.len()).sum::<usize>(), 2, "{name}");
        let value = message(name, "message-value").value().unwrap().unwrap();
        assert!(matches!(&value.0, Value::Map(map) if map.get("list").is_some()), "{name}");
    }
    let proton = message("proton.txt", "message-data");
    let application = proton.application_properties().unwrap().unwrap();
    let decimal = std::array::from_fn(|index| u8::try_from(index).unwrap());
    assert_eq!(application.get("decimal128"), Some(&Decimal128(decimal).into()));
    assert_eq!(application.get("char"), Some(&'€'.into()));
    assert_eq!(proton.properties().unwrap().unwrap().correlation_id, Some(MessageId::Ulong(u64::MAX)));
}

/// Rules: A-01.
#[test]
fn a_footer_that_rhea_wrote_before_the_body_is_found() {
    let message = message("rhea.txt", "message-two-data");
    let bodies: Vec<_> = message.data().map(|data| data.unwrap().0.0).collect();
    assert_eq!(bodies, [b"{".as_slice(), b"}"]);
    assert_eq!(message.footer().unwrap().unwrap().0.get("x-crc"), Some(&99_u32.into()));
    let bare = message.from_section(Section::Properties);
    assert!(bare.starts_with(&hex("005373")) && message.bytes().ends_with(&bare));
}

fn frame(id: &str) -> Frame {
    let bytes = &encodings("rhea.txt")[id];
    let header = FrameHeader::decode(bytes, 512).unwrap().unwrap();
    assert_eq!((header.frame_type, header.channel), (FrameType::Amqp, 5));
    Frame::decode(header, bytes, Limits::default()).unwrap()
}

fn sasl(id: &str) -> SaslFrame {
    let bytes = &encodings("rhea.txt")[id];
    let header = FrameHeader::decode(bytes, 512).unwrap().unwrap();
    SaslFrame::decode_frame(header, bytes, Limits::default()).unwrap()
}

#[test]
fn frames_that_open_connections_sessions_and_links_are_read_as_rhea_wrote_them() {
    let Some(Performative::Open(open)) = frame("frame-open").performative else { panic!("open") };
    assert_eq!((open.container_id, open.hostname), ("container".into(), Some("host".into())));
    assert_eq!((open.max_frame_size, open.channel_max, open.idle_time_out), (65_536, 255, Some(30_000)));
    assert_eq!(open.offered_capabilities.0[0], "ANONYMOUS-RELAY");
    assert_eq!(open.properties.unwrap().get("product").and_then(Value::as_str), Some("rhea"));
    let Some(Performative::Begin(begin)) = frame("frame-begin").performative else { panic!("begin") };
    assert_eq!((begin.remote_channel, begin.outgoing_window, begin.handle_max), (Some(3), u32::MAX, 7));
    let Some(Performative::Attach(attach)) = frame("frame-attach").performative else { panic!("attach") };
    assert_eq!((attach.name, attach.handle, attach.role), ("link".into(), 1, Role::Receiver));
    assert_eq!(attach.snd_settle_mode, SenderSettleMode::Settled);
    assert_eq!(attach.rcv_settle_mode, ReceiverSettleMode::Second);
    assert_eq!((attach.initial_delivery_count, attach.max_message_size), (Some(0), Some(262_144)));
    let source = attach.source.unwrap();
    assert_eq!((source.address, source.durable), (Some("queue".into()), TerminusDurability::UnsettledState));
    assert_eq!((source.expiry_policy, source.timeout), (Symbol::from_static("never"), 5));
    let filter = source.filter.unwrap();
    let Some(Value::Described(filter)) = filter.get("jms") else { panic!("a filter") };
    assert_eq!(filter.descriptor, Value::Ulong(0x468C_0000_0004));
    assert_eq!(source.capabilities.0, ["queue"]);
    let Some(AttachTarget::Target(target)) = attach.target else { panic!("a target") };
    assert_eq!(target.address, Some("reply".into()));
}

#[test]
fn frames_of_transfers_and_ends_are_read_as_rhea_wrote_them() {
    let Some(Performative::Flow(flow)) = frame("frame-flow").performative else { panic!("flow") };
    assert_eq!((flow.next_incoming_id, flow.delivery_count, flow.link_credit), (Some(1), Some(4), Some(100)));
    assert!(flow.drain && !flow.echo);
    let transfer = frame("frame-transfer");
    assert_eq!(transfer.payload, b"payload".as_slice());
    let Some(Performative::Transfer(transfer)) = transfer.performative else { panic!("transfer") };
    assert_eq!((transfer.delivery_id, transfer.settled, transfer.more), (Some(9), Some(false), true));
    assert_eq!(transfer.delivery_tag, Some(b"tag".as_slice().into()));
    let Some(Performative::Disposition(disposition)) = frame("frame-disposition").performative else { panic!() };
    assert_eq!((disposition.first, disposition.last, disposition.settled), (3, Some(5), true));
    let Some(DeliveryState::Rejected(rejected)) = disposition.state else { panic!("rejected") };
    assert_eq!(rejected.error.unwrap().condition, condition::NOT_FOUND);
    let Some(Performative::Detach(detach)) = frame("frame-detach").performative else { panic!("detach") };
    assert!(detach.closed && detach.error.unwrap().condition == condition::DETACH_FORCED);
    let Some(Performative::End(end)) = frame("frame-end").performative else { panic!("end") };
    assert_eq!(end.error, None);
    let Some(Performative::Close(close)) = frame("frame-close").performative else { panic!("close") };
    assert_eq!(close.error.unwrap().description, Some("bye".into()));
}

#[test]
fn frames_of_sasl_are_read_as_rhea_wrote_them() {
    let SaslFrame::Mechanisms(mechanisms) = sasl("frame-sasl-mechanisms") else { panic!("mechanisms") };
    assert_eq!(mechanisms.sasl_server_mechanisms.0, ["PLAIN", "ANONYMOUS"]);
    let SaslFrame::Init(init) = sasl("frame-sasl-init") else { panic!("init") };
    assert_eq!(init.initial_response.as_ref().unwrap().0, b"\0user\0password".as_slice());
    assert!(!format!("{init:?}").contains("password"));
    let SaslFrame::Outcome(outcome) = sasl("frame-sasl-outcome") else { panic!("outcome") };
    assert_eq!(outcome.code, SaslCode::Auth);
}
