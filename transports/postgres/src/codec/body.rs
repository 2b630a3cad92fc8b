use bytes::Bytes;
use consign_core::message::MessageBody;
use serde::{Deserialize, Serialize};

use super::{Read, Unreadable, Unwritable, any};

/// The kind of body that the bytes are.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Shape {
    /// They are one section.
    #[default]
    Bytes,
    /// They are sections of these lengths.
    Sections(Vec<usize>),
    /// They are one AMQP value as JSON.
    Value,
    /// They are AMQP sequences as JSON.
    Sequence,
}

impl Shape {
    pub(super) fn is_bytes(&self) -> bool {
        *self == Self::Bytes
    }
}

pub(super) fn shape(body: &MessageBody) -> Shape {
    match body {
        MessageBody::Value(_) => Shape::Value,
        MessageBody::Sequence(_) => Shape::Sequence,
        MessageBody::Data(data) if data.sections().len() > 1 => {
            Shape::Sections(data.sections().iter().map(Bytes::len).collect())
        }
        MessageBody::Data(_) => Shape::Bytes,
    }
}

pub(super) fn write(body: &MessageBody) -> Result<(Shape, Bytes), Unwritable> {
    let bytes = match body {
        MessageBody::Data(data) => match data.sections() {
            [one] => one.clone(),
            several => several.concat().into(),
        },
        MessageBody::Value(value) => json(&any(value)?)?,
        MessageBody::Sequence(sequences) => {
            let all = sequences.iter().map(|values| values.iter().map(any).collect::<Result<Vec<_>, _>>());
            json(&all.collect::<Result<Vec<_>, _>>()?)?
        }
    };
    Ok((shape(body), bytes))
}

/// Strings, numbers and lists of them have a form in JSON.
fn json(value: &impl Serialize) -> Result<Bytes, Unwritable> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|_| Unwritable::UnknownType)
}

pub(super) fn read(shape: Shape, bytes: Vec<u8>) -> Result<MessageBody, Unreadable> {
    match shape {
        Shape::Bytes => Ok(MessageBody::from(bytes)),
        Shape::Sections(lengths) => {
            let mut rest = Bytes::from(bytes);
            let mut sections = Vec::with_capacity(lengths.len());
            for length in lengths {
                if length > rest.len() {
                    return Err(Unreadable::Sections);
                }
                sections.push(rest.split_to(length));
            }
            if rest.is_empty() { Ok(MessageBody::sections(sections)) } else { Err(Unreadable::Sections) }
        }
        Shape::Value => Ok(serde_json::from_slice::<Read>(&bytes)?.into_inner().into()),
        Shape::Sequence => {
            let sequences: Vec<Vec<Read>> = serde_json::from_slice(&bytes)?;
            let values = |values: Vec<Read>| values.into_iter().map(Read::into_inner).collect();
            Ok(MessageBody::Sequence(sequences.into_iter().map(values).collect()))
        }
    }
}
