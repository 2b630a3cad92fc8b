use std::borrow::Cow;

use bytes::Bytes;
use consign_core::{
    message::{ApplicationProperties, InvalidArgument, PassThrough, Properties, Value},
    wire::binary,
};

use super::{malformed::Malformed, reader::Reader, write};

/// The texts have the first bits.
const TEXTS: u32 = 10;
const TIME_TO_LIVE: u32 = 1 << TEXTS;
const SCHEDULED_ENQUEUE_TIME: u32 = 1 << 11;
const APPLICATION: u32 = 1 << 12;
const PASS_THROUGH: u32 = 1 << 13;
const DEAD_LETTER_SOURCE: u32 = 1 << 14;
const MESSAGE_ID: u32 = 1 << 2;
const MESSAGE_ID_STAMPED: u32 = 1 << 15;
const ALL: u32 = (1 << 16) - 1;

/// Writes which properties are present, and then these, in the order of their bits.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, properties: &Properties, dead_letter_source: Option<&str>) {
    let texts = [
        properties.content_type(),
        properties.correlation_id(),
        properties.message_id(),
        properties.subject(),
        properties.reply_to(),
        properties.session_id(),
        properties.reply_to_session_id(),
        properties.partition_key(),
        properties.transaction_partition_key(),
        properties.to(),
    ];
    let (time_to_live, scheduled) = (properties.time_to_live(), properties.scheduled_enqueue_time());
    let (application, pass_through) = (properties.application_properties(), properties.pass_through());
    let rest = [
        time_to_live.is_some(),
        scheduled.is_some(),
        !application.is_empty(),
        pass_through.is_some(),
        dead_letter_source.is_some(),
        properties.is_message_id_stamped(),
    ];
    write::unsigned(out, write::bits(texts.iter().map(Option::is_some).chain(rest)));
    for text in texts.iter().flatten() {
        write::text(out, text);
    }
    if let Some(time_to_live) = time_to_live {
        write::duration(out, time_to_live);
    }
    if let Some(scheduled) = scheduled {
        write::timestamp(out, scheduled);
    }
    if !application.is_empty() {
        write_application(out, application);
    }
    if let Some(rest) = pass_through {
        write_pass_through(out, rest);
    }
    if let Some(source) = dead_letter_source {
        write::text(out, source);
    }
}

pub(super) fn read<'a>(reader: &mut Reader<'a>) -> Result<(Properties, Option<&'a str>), Malformed> {
    let there: u32 = reader.unsigned()?;
    let is_stamped = there & MESSAGE_ID_STAMPED != 0;
    if there & !ALL != 0 || is_stamped && there & MESSAGE_ID == 0 {
        return Err(reader.invalid("bits of properties"));
    }
    let mut properties = Properties::new();
    for place in 0..TEXTS {
        if there & 1 << place != 0 {
            let text = reader.text()?.to_owned();
            set_text(&mut properties, place, is_stamped, text).map_err(|_| reader.invalid("property"))?;
        }
    }
    if there & TIME_TO_LIVE != 0 {
        let time_to_live = reader.duration()?;
        properties.set_time_to_live(time_to_live).map_err(|_| reader.invalid("time to live"))?;
    }
    if there & SCHEDULED_ENQUEUE_TIME != 0 {
        properties.set_scheduled_enqueue_time(reader.timestamp()?);
    }
    if there & APPLICATION != 0 {
        *properties.application_properties_mut() = read_application(reader)?;
    }
    if there & PASS_THROUGH != 0 {
        *properties.pass_through_mut() = read_pass_through(reader)?;
    }
    Ok((properties, reader.when(there & DEAD_LETTER_SOURCE != 0, Reader::text)?))
}

fn set_text(properties: &mut Properties, place: u32, is_stamped: bool, text: String) -> Result<(), InvalidArgument> {
    match place {
        0 => Ok(properties.set_content_type(text)),
        1 => Ok(properties.set_correlation_id(text)),
        2 if is_stamped => properties.stamp_message_id(text),
        2 => properties.set_message_id(text),
        3 => Ok(properties.set_subject(text)),
        4 => Ok(properties.set_reply_to(text)),
        5 => properties.set_session_id(text),
        6 => properties.set_reply_to_session_id(text),
        7 => properties.set_partition_key(text),
        8 => properties.set_transaction_partition_key(text),
        _ => Ok(properties.set_to(text)),
    }
    .map(|_| ())
}

pub(super) fn write_application(out: &mut Vec<u8>, application: &ApplicationProperties) {
    write::list(out, application.iter(), |out, (key, value)| {
        write::text(out, key);
        binary::simple(out, value);
    });
}

pub(super) fn read_application(reader: &mut Reader<'_>) -> Result<ApplicationProperties, Malformed> {
    let mut application = ApplicationProperties::new();
    let count: u64 = reader.unsigned()?;
    for _ in 0..count {
        let (key, value) = (reader.text()?, reader.simple()?);
        if application.insert(key, value).is_some() {
            return Err(reader.invalid("application property"));
        }
    }
    Ok(application)
}

const DURABLE: u32 = 1 << 4;
const FIRST_ACQUIRER: u32 = 1 << 6;
const FORCE_PERSISTENCE: u32 = 1 << 8;
const ALL_PASS_THROUGH: u32 = (1 << 11) - 1;

fn write_pass_through(out: &mut Vec<u8>, rest: &PassThrough) {
    let PassThrough {
        user_id,
        content_encoding,
        group_sequence,
        creation_time,
        durable,
        priority,
        first_acquirer,
        force_persistence,
        annotations,
        footer,
        ..
    } = rest;
    let bits = write::bits([
        user_id.is_some(),
        content_encoding.is_some(),
        group_sequence.is_some(),
        creation_time.is_some(),
        durable.is_some(),
        *durable == Some(true),
        first_acquirer.is_some(),
        *first_acquirer == Some(true),
        *force_persistence,
        priority.is_some(),
        !annotations.is_empty() || !footer.is_empty(),
    ]);
    write::unsigned(out, bits);
    if let Some(user_id) = user_id {
        write::bytes(out, user_id);
    }
    if let Some(encoding) = content_encoding {
        write::text(out, encoding);
    }
    if let Some(number) = group_sequence {
        write::unsigned(out, *number);
    }
    if let Some(instant) = creation_time {
        write::timestamp(out, *instant);
    }
    if let Some(priority) = priority {
        out.push(*priority);
    }
    if !annotations.is_empty() || !footer.is_empty() {
        write_pairs(out, annotations);
        write_pairs(out, footer);
    }
}

fn read_pass_through(reader: &mut Reader<'_>) -> Result<PassThrough, Malformed> {
    let bits: u32 = reader.unsigned()?;
    let bit = |place: u32| bits & 1 << place != 0;
    let truth = |is_there: u32| (bits & is_there != 0).then_some(bits & is_there << 1 != 0);
    if bits & !ALL_PASS_THROUGH != 0 {
        return Err(reader.invalid("bits of what is passed through"));
    }
    let mut rest = PassThrough::default();
    rest.user_id = reader.when(bit(0), Reader::bytes)?.map(Bytes::copy_from_slice);
    rest.content_encoding = reader.when(bit(1), Reader::text)?.map(|text| Cow::Owned(text.to_owned()));
    rest.group_sequence = reader.when(bit(2), Reader::unsigned)?;
    rest.creation_time = reader.when(bit(3), Reader::timestamp)?;
    rest.durable = truth(DURABLE);
    rest.first_acquirer = truth(FIRST_ACQUIRER);
    rest.force_persistence = bits & FORCE_PERSISTENCE != 0;
    rest.priority = reader.when(bit(9), Reader::byte)?;
    if bit(10) {
        rest.annotations = reader.list(read_pair)?;
        rest.footer = reader.list(read_pair)?;
    }
    Ok(rest)
}

fn write_pairs(out: &mut Vec<u8>, pairs: &[(Cow<'static, str>, Value)]) {
    write::list(out, pairs.iter(), |out, (key, value)| {
        write::text(out, key);
        binary::value(out, value);
    });
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(Cow<'static, str>, Value), Malformed> {
    Ok((Cow::Owned(reader.text()?.to_owned()), reader.value()?))
}
