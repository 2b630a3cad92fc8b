//! K-01 and K-35: the stored message equals the sent one.

use bytes::Bytes;
use consign::{
    message::{MessageBody, Properties, Value},
    time::Timestamp,
};

use super::prelude::*;

cases! {
    Acceptance:
        /// Rules: M-23.
        a_body_comes_back_byte_by_byte,
        /// Rules: B-01.
        sections_of_a_body_stay_apart,
        /// Rules: B-02.
        a_body_may_be_a_value,
        /// Rules: B-03.
        a_body_may_be_a_sequence,
        /// Rules: B-04.
        a_body_may_be_empty,
        /// Rules: M-01, M-19, M-20.
        properties_of_the_sender_are_received,
        /// Rules: M-11.
        a_message_without_an_id_gets_one,
        /// Rules: M-11, V-03.
        an_id_may_have_128_utf_16_units,
        /// Rules: M-24.
        user_properties_keep_their_types,
        /// Rules: M-24.
        names_of_properties_keep_their_case,
        /// Rules: M-25.
        pass_through_fields_are_received,
        /// Rules: N-12.
        a_session_is_only_a_property_without_sessions;
    LargeMessages:
        /// Rules: T-85.
        a_message_of_a_mebibyte_comes_back_whole,
        /// Rules: T-85.
        the_largest_message_is_a_setting,
        /// Rules: T-85.
        properties_count;
}

async fn a_body_comes_back_byte_by_byte(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let all: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect();
    bench.send(&queue, Message::new(all.clone())).await?;
    ensure!(bench.take(&queue).await?.payload() == Some(&all[..]), "the body has changed");
    Ok(())
}

/// Sends a message with this body and returns the received body.
async fn there_and_back(bench: &Bench<'_>, body: MessageBody) -> Result<MessageBody, Failure> {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send(&queue, Message::new(body)).await?;
    Ok(bench.take(&queue).await?.body().clone())
}

async fn sections_of_a_body_stay_apart(bench: &Bench<'_>) -> Verdict {
    let body = MessageBody::sections(["ab", "", "c"].map(|text| Bytes::from_static(text.as_bytes())).into());
    ensure!(there_and_back(bench, body.clone()).await? == body, "the sections have changed");
    Ok(())
}

async fn a_body_may_be_a_value(bench: &Bench<'_>) -> Verdict {
    let list = Value::List(vec![Value::from(1_i32), Value::from("two"), Value::Symbol("three".into())]);
    let map = Value::Map(vec![(Value::from("key"), list), (Value::from(2_u64), Value::from(true))]);
    for value in [map, Value::from("text"), Value::from(7_i64)] {
        let body = MessageBody::from(value);
        let back = there_and_back(bench, body.clone()).await?;
        ensure!(back == body, "{body:?} comes back as {back:?}");
    }
    Ok(())
}

async fn a_body_may_be_a_sequence(bench: &Bench<'_>) -> Verdict {
    let body = MessageBody::Sequence([vec![Value::from(1_i32), Value::from("two")], vec![Value::from(true)]].into());
    let back = there_and_back(bench, body.clone()).await?;
    ensure!(back == body, "{body:?} comes back as {back:?}");
    Ok(())
}

async fn a_body_may_be_empty(bench: &Bench<'_>) -> Verdict {
    let back = there_and_back(bench, MessageBody::empty()).await?;
    ensure_eq!(back.codec_view(), Some(&[][..]));
    Ok(())
}

async fn properties_of_the_sender_are_received(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let message = Message::builder()
        .content_type("application/json;charset=utf-8")
        .correlation_id("what it answers")
        .message_id("m-1")
        .subject("order.created")
        .reply_to("replies")
        .reply_to_session_id("reply-session")
        .session_id("session")
        .partition_key("session")
        .transaction_partition_key("transaction")
        .to("somewhere else")
        .build("a")?;
    bench.send(&queue, message.clone()).await?;
    let back = bench.take(&queue).await?;
    let said = |properties: &Properties| {
        let texts = [
            properties.content_type(),
            properties.correlation_id(),
            properties.message_id(),
            properties.subject(),
            properties.reply_to(),
            properties.reply_to_session_id(),
            properties.session_id(),
            properties.partition_key(),
            properties.transaction_partition_key(),
            properties.to(),
        ];
        texts.map(|text| text.map(String::from))
    };
    ensure_eq!(said(back.properties()), said(message.properties()));
    Ok(())
}

async fn a_message_without_an_id_gets_one(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    bench.send_bodies(&queue, ["a", "b"]).await?;
    let messages = bench.drain_messages(2, &queue).await?;
    let ids: Vec<_> = messages.iter().map(|message| message.message_id().unwrap_or_default()).collect();
    ensure!(ids.len() == 2 && ids[0] != ids[1], "the ids are {ids:?}");
    ensure!(ids.iter().all(|id| (1..=128).contains(&id.len())), "the ids are {ids:?}");
    Ok(())
}

async fn an_id_may_have_128_utf_16_units(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for id in ["語".repeat(128), "🦀".repeat(64), "x".repeat(128)] {
        bench.send(&queue, Message::builder().message_id(id.clone()).build("a")?).await?;
        ensure_eq!(bench.take(&queue).await?.message_id(), Some(&*id));
    }
    Ok(())
}

async fn user_properties_keep_their_types(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let values = [
        PropertyValue::Null,
        true.into(),
        u8::MAX.into(),
        u16::MAX.into(),
        u32::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        1.5_f32.into(),
        f64::MIN_POSITIVE.into(),
        '🦀'.into(),
        "text with \"quotes\", a line\nbreak and 語".into(),
        "".into(),
        PropertyValue::Decimal([7; 16]),
        PropertyValue::Uuid([9; 16]),
        Timestamp::from_millis(1_700_000_000_123).into(),
        PropertyValue::DateTimeOffset(621_355_968_000_000_000),
        PropertyValue::TimeSpan(-36_000_000_000),
        PropertyValue::Uri("https://example.org/a?b=c".into()),
        Bytes::from_static(b"\0\xff").into(),
    ];
    let mut properties = Properties::new();
    *properties.application_properties_mut() =
        values.into_iter().enumerate().map(|(index, value)| (format!("p{index}"), value)).collect();
    let sent = properties.application_properties().clone();
    bench.send(&queue, Message::from_parts(properties, "a".into())).await?;
    let back = bench.take(&queue).await?;
    for (name, value) in sent.iter() {
        ensure!(
            back.application_properties().get(name) == Some(value),
            "{value:?} has become {:?}",
            back.application_properties().get(name)
        );
    }
    ensure_eq!(back.application_properties().len(), sent.len());
    Ok(())
}

async fn names_of_properties_keep_their_case(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let message = Message::builder().property("Key", "upper").property("key", "lower").property("with space", 1_i32);
    bench.send(&queue, message.build("a")?).await?;
    let back = bench.take(&queue).await?;
    let names: Vec<_> = back.application_properties().iter().map(|(name, _)| name).collect();
    ensure_eq!(names, ["Key", "key", "with space"]);
    Ok(())
}

async fn pass_through_fields_are_received(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    let mut properties = Properties::new();
    let rest = properties.pass_through_mut();
    rest.user_id = Some(Bytes::from_static(b"user"));
    rest.content_encoding = Some("gzip".into());
    rest.group_sequence = Some(7);
    rest.priority = Some(3);
    rest.creation_time = Some(Timestamp::from_millis(1_600_000_000_000));
    rest.annotations = vec![("x-opt-of-mine".into(), Value::from(3_i32))];
    let sent = properties.pass_through().cloned();
    bench.send(&queue, Message::from_parts(properties, "a".into())).await?;
    ensure_eq!(bench.take(&queue).await?.pass_through().cloned(), sent);
    Ok(())
}

async fn a_session_is_only_a_property_without_sessions(bench: &Bench<'_>) -> Verdict {
    let queue = bench.queue(QueueSettings::default()).await?;
    for (session, body) in [("one", "a"), ("two", "b"), ("one", "c")] {
        bench.send(&queue, Message::builder().session_id(session).build(body)?).await?;
    }
    let held = bench.receive_each(&queue, 3).await?;
    ensure_eq!(texts(held.iter().map(|delivery| &delivery.message)), ["a", "b", "c"]);
    ensure_eq!(held[2].message.session_id(), Some("one"));
    Ok(())
}

/// Different at every position, so that no part can be missing or out of place.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index.wrapping_mul(2_654_435_761) >> 16).to_le_bytes()[0]).collect()
}

async fn a_message_of_a_mebibyte_comes_back_whole(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().max_message_size(4 << 20);
    let queue = bench.queue(spec).await?;
    let body = bytes((1 << 20) + 1);
    bench.send(&queue, Message::new(body.clone())).await?;
    ensure!(bench.take(&queue).await?.payload() == Some(&body[..]), "the body has changed");
    Ok(())
}

async fn the_largest_message_is_a_setting(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().max_message_size(64 << 10);
    let queue = bench.queue(spec).await?;
    refused(bench.send(&queue, Message::new(bytes((64 << 10) + 1))).await, &[ErrorKind::MessageSizeExceeded])?;
    bench.gone(&queue).await?;
    // Bytes that a broker adds may count, and are few.
    bench.send(&queue, Message::new(bytes(60 << 10))).await?;
    ensure_eq!(bench.take(&queue).await?.body().size(), 60 << 10);
    Ok(())
}

async fn properties_count(bench: &Bench<'_>) -> Verdict {
    let spec = QueueSettings::default().max_message_size(64 << 10);
    let queue = bench.queue(spec).await?;
    let message = || Message::builder().property("large", "x".repeat(30 << 10));
    refused(bench.send(&queue, message().build(bytes(40 << 10))?).await, &[ErrorKind::MessageSizeExceeded])?;
    bench.send(&queue, message().build(bytes(20 << 10))?).await?;
    Ok(())
}
