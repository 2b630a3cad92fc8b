use consign_amqp::{
    codec::{DecodeErrorKind, Encode, Encoder},
    message::{
        AmqpSequence, AmqpValue, Annotations, ApplicationProperties, BATCH_FORMAT, BodyKind, Data, DeliveryAnnotations,
        EncodedMessage, FORMAT, Footer, Header, MessageAnnotations, MessageId, Properties, Section,
    },
    value::{List, Symbol, Uuid, Value},
};

use crate::{decode, hex, to_hex};

fn encode(sections: &[&dyn Encode]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    for section in sections {
        section.encode(&mut encoder);
    }
    encoder.finish().unwrap();
    out
}

fn annotations() -> Annotations {
    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static("x-opt-sequence-number"), 1_i64);
    annotations
}

fn application_properties() -> ApplicationProperties {
    let mut properties = ApplicationProperties::default();
    properties.push("tenant", 7_i32);
    properties
}

fn refused(sections: &[&dyn Encode]) -> DecodeErrorKind {
    EncodedMessage::split(encode(sections).into()).unwrap_err().kind()
}

/// Rules: A-01.
#[test]
fn a_message_is_split_into_all_of_its_sections_without_a_copy() {
    let header = Header { ttl: Some(1_000), ..Header::default() };
    let properties = Properties { message_id: Some("id".into()), ..Properties::default() };
    let data = |text: &'static str| Data(text.as_bytes().into());
    let bytes = bytes::Bytes::from(encode(&[
        &header,
        &DeliveryAnnotations(annotations()),
        &MessageAnnotations(annotations()),
        &properties,
        &application_properties(),
        &data("one"),
        &data("two"),
        &Footer(annotations()),
    ]));
    let message = EncodedMessage::split(bytes.clone()).unwrap();
    assert_eq!(message.header().unwrap(), Some(header));
    assert_eq!(message.delivery_annotations().unwrap(), Some(DeliveryAnnotations(annotations())));
    assert_eq!(message.message_annotations().unwrap(), Some(MessageAnnotations(annotations())));
    assert_eq!(message.properties().unwrap(), Some(properties));
    assert_eq!(message.application_properties().unwrap(), Some(application_properties()));
    assert_eq!(message.footer().unwrap(), Some(Footer(annotations())));
    let bodies: Vec<_> = message.data().map(|data| data.unwrap().0.0).collect();
    assert_eq!(bodies, ["one", "two"]);
    assert!(bytes.as_ptr_range().contains(&bodies[0].as_ptr()));
    let body = message.encoded(Section::Body);
    assert_eq!(to_hex(&body), to_hex(&encode(&[&data("one"), &data("two")])));
    assert_eq!(body.as_ptr(), bytes[bytes.len() - body.len() - message.encoded(Section::Footer).len()..].as_ptr());
    // What an intermediary passes on follows the annotations.
    let before = [Section::Header, Section::DeliveryAnnotations, Section::MessageAnnotations];
    let before: usize = before.map(|section| message.encoded(section).len()).iter().sum();
    assert_eq!(message.from_section(Section::Properties), bytes.slice(before..));
}

/// Rules: A-01.
#[test]
fn sections_out_of_order_repeated_or_mixed_are_refused() {
    let (data, value) = (Data(b"".as_slice().into()), AmqpValue(Value::Null));
    let sequence = AmqpSequence(List::default());
    let (header, properties, footer) = (Header::default(), Properties::default(), Footer::default());
    let wrong: [&[&dyn Encode]; 10] = [
        &[&properties, &header],
        &[&header, &header],
        &[&data, &properties],
        &[&data, &value],
        &[&data, &sequence],
        &[&value, &value],
        &[&data, &footer, &data],
        &[&footer, &properties],
        &[&footer, &footer],
        &[&footer, &data, &footer],
    ];
    for sections in wrong {
        assert_eq!(refused(sections), DecodeErrorKind::Order);
    }
    assert_eq!(refused(&[&true]), DecodeErrorKind::Type);
    let unknown = EncodedMessage::split(hex("00 5379 45")).unwrap_err();
    assert_eq!((unknown.kind(), unknown.offset()), (DecodeErrorKind::Descriptor, 1));
}

/// azure-servicebus writes its own there, and those of a message that it has received before.
#[test]
fn delivery_annotations_at_the_end_are_apart() {
    let data = Data(b"body".as_slice().into());
    let (properties, stale) = (Properties::default(), DeliveryAnnotations(annotations()));
    let message = EncodedMessage::split(encode(&[&properties, &data, &stale]).into()).unwrap();
    assert_eq!(message.delivery_annotations().unwrap(), None);
    assert_eq!(message.delivery_annotations_at_the_end().unwrap(), Some(stale.clone()));
    let without = encode(&[&properties, &data]);
    assert_eq!((message.bytes().as_ref(), message.from_section(Section::Properties).as_ref()), (&*without, &*without));
    for sections in [
        &[&properties as &dyn Encode, &stale] as &[&dyn Encode],
        &[&data, &stale, &stale],
        &[&data, &stale, &data],
        &[&data, &stale, &Footer::default()],
    ] {
        assert_eq!(refused(sections), DecodeErrorKind::Order);
    }
}

#[test]
fn missing_sections_are_none_and_an_empty_message_has_no_body() {
    let message = EncodedMessage::split(bytes::Bytes::new()).unwrap();
    assert_eq!((message.body_kind(), message.header().unwrap(), message.value().unwrap()), (None, None, None));
    assert!(message.encoded(Section::Body).is_empty() && message.from_section(Section::Header).is_empty());
    let sequence = |number: u8| AmqpSequence([Value::Ubyte(number)].into_iter().collect());
    let message = EncodedMessage::split(encode(&[&sequence(1), &sequence(2)]).into()).unwrap();
    assert_eq!(message.body_kind(), Some(BodyKind::Sequence));
    let sequences: Vec<_> = message.sequences().map(Result::unwrap).collect();
    assert_eq!(sequences, [sequence(1), sequence(2)]);
    assert!(message.data().next().is_none() && message.properties().unwrap().is_none());
}

#[test]
fn splitting_does_not_decode_the_body_and_decoding_it_does() {
    // A list whose element is not AMQP, as a value; and one as a sequence, behind a good one.
    let value = EncodedMessage::split(hex("00 5377 c0 02 01 3f")).unwrap();
    let error = value.value().unwrap_err();
    assert_eq!((error.kind(), error.offset(), error.field()), (DecodeErrorKind::FormatCode, 6, Some("AmqpValue")));
    let sequences = EncodedMessage::split(hex("00 5376 45 00 5376 c0 02 01 3f 00 5376 45")).unwrap();
    assert_eq!(sequences.sequences().map(|sequence| sequence.is_ok()).collect::<Vec<_>>(), [true, false]);
}

/// Rules: A-02.
#[test]
fn keys_of_annotations_are_symbols_and_names_of_properties_are_strings() {
    let annotations = |key: &str| decode::<MessageAnnotations>(&format!("00 5372 c1 0a 02 {key} 40"));
    assert!(decode::<MessageAnnotations>("00 5372 c1 05 02 a3 0161 40").is_ok());
    let from_string = decode::<MessageAnnotations>("00 5372 c1 05 02 a1 0161 40").unwrap();
    assert_eq!(from_string.0.0[0].0, Symbol::from_static("a"));
    for key in ["80 0000000000000001", "40 40 40 40 40 40 40 40"] {
        assert!(annotations(key).is_err(), "{key}");
    }
    assert_eq!(to_hex(&encode(&[&from_string])), "005372c10502a3016140");
    assert!(decode::<ApplicationProperties>("00 5374 c1 05 02 a1 0161 40").is_ok());
    let error = decode::<ApplicationProperties>("00 5374 c1 05 02 a3 0161 40").unwrap_err();
    assert_eq!((error.kind(), error.field()), (DecodeErrorKind::Type, Some("ApplicationProperties")));
}

/// Rules: A-03.
#[test]
fn ids_keep_their_type_and_have_a_text() {
    let ids = [
        (MessageId::Ulong(u64::MAX), "18446744073709551615"),
        (MessageId::Uuid(Uuid([0xab; 16])), "abababab-abab-abab-abab-abababababab"),
        (MessageId::Binary(hex("00abff").into()), "00ABFF"),
        (MessageId::String("id".into()), "id"),
    ];
    for (id, text) in ids {
        let properties =
            Properties { message_id: Some(id.clone()), correlation_id: Some(id.clone()), ..Properties::default() };
        let read: Properties = decode(&to_hex(&encode(&[&properties]))).unwrap();
        assert_eq!((read.message_id.as_ref(), read.correlation_id.as_ref()), (Some(&id), Some(&id)));
        assert_eq!(id.to_string(), text);
    }
    assert!(decode::<Properties>("00 5373 c0 03 01 52 01").is_err());
}

/// Rules: A-04.
#[test]
fn message_formats_are_those_of_service_bus() {
    assert_eq!((FORMAT, BATCH_FORMAT), (0, 2_147_563_264));
}

/// Rules: A-10.
#[test]
fn a_delivery_tag_is_a_lock_token_with_its_first_three_fields_reversed() {
    let tag: [u8; 16] = hex("00112233445566778899aabbccddeeff").as_ref().try_into().unwrap();
    let token = Uuid::from_guid_bytes(tag);
    assert_eq!(token.to_string(), "33221100-5544-7766-8899-aabbccddeeff");
    assert_eq!(token.to_guid_bytes(), tag);
}
