//! What a receive loop produces for a disposition.

use bytes::Bytes;
use consign_core::{
    Disposition, Message,
    message::{ApplicationProperties, PropertyValue},
    settlement::{Changes, DeadLetter, DeadLetterReason},
    transport::SendError,
    wire::fields,
};
use rdkafka::message::Headers;

use crate::{
    Record,
    names::{self, COUNT, Meaning, meaning},
    read::{Read, read},
};

/// What a receive loop produces before it commits the offset of a record; see [`settlement`].
#[derive(Clone, Debug)]
pub enum Settlement {
    /// Nothing.
    Complete,
    /// The copy of [`abandoned`]. Produce it to a topic for retries.
    Abandon(Record),
    /// The copy of [`dead_letter`]. Produce it to a topic for dead letters.
    DeadLetter(Record),
}

/// Returns what to produce for a disposition before the offset of the record is committed.
///
/// `Abandon` and `Defer` return the copy of [`abandoned`] with their changes. If these do not fit beside the properties of the
/// message, they return its dead letter with the reason `HeaderSizeExceeded`. A [delay](Changes::delay) is not part of the copy:
/// the loop may wait before it produces the copy.
///
/// A committed offset settles all earlier records of its partition too. A loop that handles several records of a partition at
/// once commits the offset before the first one that is not settled.
pub fn settlement<M: rdkafka::Message>(record: &M, disposition: Disposition) -> Settlement {
    let letter = match disposition {
        Disposition::Complete => return Settlement::Complete,
        Disposition::DeadLetter(letter) => *letter,
        Disposition::Abandon(changes) | Disposition::Defer(changes) => match abandoned(record, changes) {
            Ok(copy) => return Settlement::Abandon(copy),
            Err(error) => DeadLetter::new(DeadLetterReason::HeaderSizeExceeded, error.to_string()),
        },
    };
    Settlement::DeadLetter(dead_letter(record, letter))
}

/// Returns the copy of a record for a topic for dead letters: with the reason and the description of the dead letter as headers,
/// with its key, its payload and its other headers unchanged, and in their order. The number of failed deliveries of
/// [`abandoned`] is removed, so that a copy that is put back into its topic has all its attempts.
///
/// Produce it, wait for its delivery report, and then commit the offset of the record. A failure in between leaves two records,
/// never none. The copy keeps the MessageId of [`from_rdkafka`](crate::from_rdkafka). A header that cannot be read is an
/// application property of the copy.
pub fn dead_letter<M: rdkafka::Message>(record: &M, mut letter: DeadLetter) -> Record {
    let read = read(record);
    letter.fit(read.message.properties());
    let mut added = ApplicationProperties::new();
    letter.write_to(&mut added);
    copy(record, &read, &added)
}

/// Returns the copy of a record that failed, for a topic for retries of the consumer group: with the changes, with the number of failed
/// deliveries as `count_delivery` writes it, and with its key, its payload and its other headers unchanged.
///
/// Produce it, wait for its delivery report, and then commit the offset of the record. The copy is at the end of its partition,
/// so later records of the same key are handled before it. To keep their order, seek to the record again instead, and limit the
/// attempts yourself.
///
/// Produce it to the topic of the record only if one consumer group reads that, and if it is not compacted: every other group
/// would handle the copy too, and compaction would keep it in place of a newer record of the key. It has no timestamp, so that
/// of the original is lost, unless you set it.
///
/// # Errors
///
/// Those of [`Message::check`], if the changes do not fit beside the properties of the message: dead-letter it then.
pub fn abandoned<M: rdkafka::Message>(record: &M, changes: Changes) -> Result<Record, SendError> {
    let read = read(record);
    let failed = read.message.application_properties().get(COUNT).and_then(PropertyValue::to_u64).unwrap_or(0);
    let mut added = changes.into_permitted();
    added.insert(COUNT, failed.saturating_add(1));
    let mut changed: Message = read.message.clone();
    changed.properties_mut().application_properties_mut().merge(added.clone());
    changed.check()?;
    Ok(copy(record, &read, &added))
}

/// The reason, the description and the count of the original are never those of a copy.
const REPLACED: [&str; 3] = [DeadLetter::REASON, DeadLetter::DESCRIPTION, COUNT];

fn copy<M: rdkafka::Message>(record: &M, read: &Read, added: &ApplicationProperties) -> Record {
    let owned = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
    let mut copy = Record { key: owned(record.key()), payload: owned(record.payload()), ..Record::default() };
    let is_replaced = |name: &str| REPLACED.contains(&name) || added.get(name).is_some();
    for header in record.headers().into_iter().flat_map(Headers::iter) {
        let is_replaced = match meaning(header.key) {
            Meaning::Property => is_replaced(header.key),
            Meaning::Typed(token) => names::untoken(token).is_some_and(|name| is_replaced(&name)),
            _ => false,
        };
        if is_replaced {
            continue;
        }
        let is_unreadable = read.unreadable.iter().any(|name| name == header.key);
        match read.message.application_properties().get(header.key).filter(|_| is_unreadable) {
            Some(value) => copy.property(header.key, value),
            None if is_unreadable => {}
            None => copy.header(header.key, header.value),
        }
    }
    if !has_id(record, read)
        && let Some(id) = read.message.message_id()
    {
        copy.header("Sb-Message-Id", Some(id.as_bytes()));
        copy.header(fields::MESSAGE_ID_STAMPED, Some(b"1"));
    }
    for (name, value) in added.iter() {
        copy.property(name, value);
    }
    copy
}

fn has_id<M: rdkafka::Message>(record: &M, read: &Read) -> bool {
    const ID: &str = "Sb-Message-Id";
    let mut headers = record.headers().into_iter().flat_map(Headers::iter);
    headers.any(|header| header.key == ID) && !read.unreadable.iter().any(|name| name == ID)
}
