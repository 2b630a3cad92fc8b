use bytes::Bytes;
use consign_amqp::{
    codec,
    message::{
        Annotations, BATCH_FORMAT, Batch, BatchBuilder, BatchError, Body, EncodedMessage, FORMAT, Header,
        MessageAnnotations, MessageId, Properties, Sections,
    },
    value::{Symbol, Uuid},
};

fn encoded(sections: &Sections) -> EncodedMessage {
    EncodedMessage::split(codec::encode(sections).unwrap()).unwrap()
}

/// A message with everything that an envelope copies, and more.
fn message(number: u64, body: usize) -> EncodedMessage {
    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static("x-opt-partition-key"), "session");
    annotations.push(Symbol::from_static("x-opt-via-partition-key"), "via");
    annotations.push(Symbol::from_static("x-own"), 1_i32);
    encoded(&Sections {
        header: Some(Header { durable: true, ..Header::default() }),
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties {
            message_id: Some(MessageId::Ulong(number)),
            group_id: Some("session".into()),
            subject: Some("order".into()),
            ..Properties::default()
        }),
        body: Body::Data(vec![vec![7; body].into()]),
        ..Sections::default()
    })
}

/// Rules: A-04, T-80.
#[test]
fn a_batch_is_one_message_whose_data_sections_are_messages() {
    let messages: Vec<_> = (1..=3).map(|number| message(number, 300)).collect();
    let mut builder = BatchBuilder::new(10_000);
    for message in &messages {
        builder.try_add(message).unwrap();
    }
    let size = builder.size();
    let transfer = builder.build().unwrap();
    assert_eq!((transfer.message_format, transfer.payload.len()), (BATCH_FORMAT, size));

    let batch = Batch::split(transfer.payload.clone(), 3).unwrap();
    let split: Vec<_> = batch.messages().map(Result::unwrap).collect();
    assert_eq!(split, messages);
    assert!(transfer.payload.as_ptr_range().contains(&split[2].bytes().as_ptr()), "nothing is copied");
}

/// Rules: T-80.
#[test]
fn the_envelope_has_the_ids_and_partition_keys_of_the_first_message() {
    let mut builder = BatchBuilder::new(10_000);
    builder.try_add(&message(1, 0)).unwrap();
    builder.try_add(&message(2, 0)).unwrap();
    let batch = Batch::split(builder.build().unwrap().payload, 10).unwrap();
    let envelope = Sections::decode(batch.envelope()).unwrap();
    let mut annotations = Annotations::default();
    annotations.push(Symbol::from_static("x-opt-partition-key"), "session");
    annotations.push(Symbol::from_static("x-opt-via-partition-key"), "via");
    assert_eq!(envelope.message_annotations, Some(MessageAnnotations(annotations)));
    let properties =
        Properties { message_id: Some(MessageId::Ulong(1)), group_id: Some("session".into()), ..Properties::default() };
    assert_eq!((envelope.header, envelope.properties), (None, Some(properties)));

    let mut builder = BatchBuilder::new(10_000).force(true);
    builder.try_add(&encoded(&Sections::default())).unwrap();
    let batch = Batch::split(builder.build().unwrap().payload, 10).unwrap();
    let envelope = Sections::decode(batch.envelope()).unwrap();
    assert_eq!((envelope.message_annotations, envelope.properties), (None, None));
}

/// Rules: T-80.
#[test]
fn one_message_is_not_batched_unless_that_is_forced() {
    let one = message(1, 10);
    for (forced, format) in [(false, FORMAT), (true, BATCH_FORMAT)] {
        let mut builder = BatchBuilder::new(10_000).force(forced);
        builder.try_add(&one).unwrap();
        let transfer = builder.build().unwrap();
        assert_eq!(transfer.message_format, format);
        assert_eq!(transfer.payload == *one.bytes(), !forced);
        if forced {
            let batch = Batch::split(transfer.payload, 1).unwrap();
            assert_eq!((batch.len(), batch.messages().next()), (1, Some(Ok(one.clone()))));
        }
    }
    assert_eq!(BatchBuilder::new(10_000).build(), Err(BatchError::Empty));
}

/// Rules: T-81.
#[test]
fn a_message_that_does_not_fit_leaves_the_batch_as_it_was() {
    let mut builder = BatchBuilder::new(10_000);
    builder.try_add(&message(1, 250)).unwrap();
    let size = builder.size();
    builder.try_add(&message(2, 250)).unwrap();
    let section = builder.size() - size;
    for (limit, fits) in [(size + section, true), (size + section - 1, false)] {
        let mut builder = BatchBuilder::new(limit);
        builder.try_add(&message(1, 250)).unwrap();
        let added = builder.try_add(&message(2, 250));
        assert_eq!(added, if fits { Ok(()) } else { Err(BatchError::Full { limit }) });
        assert_eq!((builder.len(), builder.size() <= limit), (if fits { 2 } else { 1 }, true));
        assert_eq!(builder.force(true).build().unwrap().payload.len(), if fits { size + section } else { size });
    }
    // The envelope counts with the first message.
    let mut builder = BatchBuilder::new(message(1, 0).bytes().len() + 5);
    assert!(matches!(builder.try_add(&message(1, 0)), Err(BatchError::Full { .. })));
    assert!(builder.is_empty());
}

/// Rules: T-81.
#[test]
fn the_size_of_a_batch_is_that_of_its_payload() {
    // Messages around 256 bytes, from where a section has a size of four bytes.
    for body in 0..260 {
        let mut builder = BatchBuilder::new(10_000).force(true);
        builder.try_add(&message(1, body)).unwrap();
        let size = builder.size();
        assert_eq!(builder.build().unwrap().payload.len(), size, "{body}");
    }
}

/// Rules: T-80.
#[test]
fn a_batch_that_is_no_batch_is_refused() {
    let batch = |sections: &[&[u8]]| {
        let data = sections.iter().map(|bytes| bytes.to_vec().into()).collect();
        codec::encode(&Sections { body: Body::Data(data), ..Sections::default() }).unwrap()
    };
    let one = message(1, 0);
    let payload = batch(&[one.bytes(), one.bytes(), one.bytes()]);
    assert_eq!(Batch::split(payload, 2).err(), Some(BatchError::TooMany { limit: 2 }));
    let value = codec::encode(&Sections { body: Body::Value(Uuid([1; 16]).into()), ..Sections::default() }).unwrap();
    assert_eq!(Batch::split(value, 2).err(), Some(BatchError::NotData));
    assert_eq!(Batch::split(Bytes::new(), 2).err(), Some(BatchError::NotData));
    assert!(matches!(Batch::split(Bytes::from_static(&[1]), 2), Err(BatchError::Malformed(_))));

    let payload = batch(&[one.bytes(), b"\x01", one.bytes()]);
    let messages: Vec<_> = Batch::split(payload, 3).unwrap().messages().collect();
    assert_eq!(messages.len(), 2, "it ends at the malformed message");
    let Err(BatchError::Message { index: 1, .. }) = &messages[1] else { panic!("{messages:?}") };
}
